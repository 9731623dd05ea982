"""transalg embed: texts as vectors."""

from dataclasses import dataclass
from typing import Annotated, Literal

import tyro

from transalg.atomic import atomic_write
from transalg.cli.using import Flag, TextVerb, TooLong, json_line, working
from transalg.terminal import shown


@dataclass(frozen=True, kw_only=True)
class Embed(TextVerb):
    """Embed texts: the output of the last layer as one vector for each text.

    transalg embed RUN --file texts.txt --out vectors.npy
    """

    pooling: Annotated[Literal["mean", "first", "max"] | None, tyro.conf.arg(metavar="{mean,first,max}", help_behavior_hint="")] = None
    """Mean or maximum over the tokens, or the first token's vector. (default: as the model was made for, or the mean)"""
    normalize: Flag = False
    """Scale every vector to length 1, so that dot products are cosines; some imported models do so by themselves."""
    too_long: TooLong = "cut"

    def run(self) -> None:
        run = self.load("embed")
        if len(self.runs) > 1:
            raise ValueError("embed: vectors of different models cannot be compared; give one run")
        rows = self.rows(run, "embed", self.too_long)
        with working("Embedding", len(rows.texts)) as progress:
            matrix = run.embed(
                rows.texts, pooling=self.pooling, normalize=self.normalize or None, too_long=self.too_long, progress=progress
            )
        if self.out is not None and self.out.suffix in (".npy", ".npz"):
            import numpy as np

            with atomic_write(self.out, "wb") as file:
                if self.out.suffix == ".npy":
                    np.save(file, matrix)
                else:
                    np.savez(file, vectors=matrix, rows=np.array(rows.numbers))
            print(shown(f"{matrix.shape[0]:,} × {matrix.shape[1]} in {self.out}"))
            rows.close()
            return
        with self.output() as out:
            for row, gap, text, vector in zip(rows.numbers, rows.gaps, rows.texts, matrix.tolist(), strict=True):
                if self.json:
                    out.write(json_line({"row": row, "text": text, "vector": vector}))
                else:
                    out.write(gap + " ".join(f"{value:.7g}" for value in vector) + "\n")
        rows.close()


EmbedVerb = Annotated[Embed, tyro.conf.subcommand("embed")]
