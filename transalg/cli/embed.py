"""transalg embed: texts as vectors."""

from dataclasses import dataclass
from typing import Annotated, Literal

import tyro

from transalg.cli.using import MaybeFile, Texts, Using, as_line, progress, texts, unknown


@dataclass(frozen=True, kw_only=True)
class Embed(Using):
    """Texts as vectors: what the last layer makes of them. transalg embed RUN --file texts.txt --out vectors.npy."""

    text: Texts = ()
    """The texts."""
    file: MaybeFile = None
    """Texts, one a line; or a table or JSON lines; - for standard input."""
    column: str = "text"
    """The column of the texts in a table or JSON lines."""
    pooling: Literal["mean", "first"] = "mean"
    """The mean over the tokens, or the first token's vector."""
    normalize: bool = False
    """Make every vector of length 1, so that products are cosines."""

    def run(self) -> None:
        run = self.load("embed")
        if len(self.runs) > 1:
            raise ValueError("embed: vectors of several runs have no common meaning; give one run")
        given = texts(self.text, self.file, "--text", self.column)
        unknown(run, given)

        import numpy as np

        with progress("Embedding", len(given)) as done:
            parts = []
            for i in range(0, len(given), 256):
                parts.append(run.embed(given[i : i + 256], pooling=self.pooling, normalize=self.normalize))
                done(len(parts[-1]))
        matrix = np.concatenate(parts)
        if self.out is not None and self.out.suffix == ".npy":
            part = self.out.with_name(f".{self.out.name}.part")
            try:
                with part.open("wb") as file:
                    np.save(file, matrix)
                part.replace(self.out)
            except OSError as error:
                part.unlink(missing_ok=True)
                raise ValueError(f"{self.out}: cannot be written: {error.strerror}") from error
            print(f"{matrix.shape[0]:,} × {matrix.shape[1]} in {self.out}")
            return
        with self.output() as out:
            for text, row in zip(given, matrix.tolist(), strict=True):
                if self.json:
                    out.write(as_line({"text": text, "vector": row}))
                else:
                    out.write(" ".join(f"{value:.7g}" for value in row) + "\n")


EmbedVerb = Annotated[Embed, tyro.conf.subcommand("embed")]
