"""transalg embed: texts as vectors."""

from dataclasses import dataclass
from typing import Annotated, Literal

import tyro

from transalg.cli.using import Reading, as_line


@dataclass(frozen=True, kw_only=True)
class Embed(Reading):
    """Texts as vectors: what the last layer makes of them. transalg embed RUN --file texts.txt --out vectors.npy."""

    pooling: Literal["mean", "first"] = "mean"
    """The mean over the tokens, or the first token's vector."""
    normalize: bool = False
    """Make every vector of length 1, so that products are cosines."""

    def run(self) -> None:
        run = self.load("embed")
        if len(self.runs) > 1:
            raise ValueError("embed: vectors of several runs have no common meaning; give one run")
        given = self.given(run)

        import numpy as np

        parts = [run.embed(given[part], pooling=self.pooling, normalize=self.normalize) for part in self.parts("Embedding", given, 256)]
        matrix = np.concatenate(parts)
        if self.out is not None and self.out.suffix == ".npy":
            with self.output(binary=True) as file:
                np.save(file, matrix)
            print(f"{matrix.shape[0]:,} × {matrix.shape[1]} in {self.out}")
            return
        with self.output() as out:
            for text, row in zip(given, matrix.tolist(), strict=True):
                if self.json:
                    out.write(as_line({"text": text, "vector": row}))
                else:
                    out.write(" ".join(f"{value:.7g}" for value in row) + "\n")


EmbedVerb = Annotated[Embed, tyro.conf.subcommand("embed")]
