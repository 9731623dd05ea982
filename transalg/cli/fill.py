"""transalg fill: tokens for the masks in a text."""

from dataclasses import dataclass
from typing import Annotated

import tyro

from transalg.cli.bounds import Size
from transalg.cli.using import Texts, TextVerb, TooLong, json_line, visible_token, working


@dataclass(frozen=True, kw_only=True)
class Fill(TextVerb):
    """Fill masks: the most probable tokens for each mask, with their probabilities.

    transalg fill RUN --text "The <mask> sat."
    """

    text: Texts = ()
    """Texts with one or more <mask>."""
    k: Size = 5
    """Candidates for each mask."""
    too_long: TooLong = "cut"

    def run(self) -> None:
        run = self.load("fill")
        rows = self.rows(run, "fill", self.too_long)
        with working("Filling", len(rows.texts)) as progress:
            results = run.fills(rows.texts, self.k, too_long=self.too_long, progress=progress)
        with self.output() as out:
            for row, text, masks in zip(rows.numbers, rows.texts, results, strict=True):
                if self.json:
                    candidates = [[{"token": token, "p": p} for token, p in mask] for mask in masks]
                    out.write(json_line({"row": row, "text": text, "masks": candidates}))
                    continue
                out.write(f"{text}\n")
                for number, mask in enumerate(masks, 1):
                    shown = "   ".join(f"{visible_token(token)} {p:.1%}" for token, p in mask)
                    out.write(f"  {f'<mask> {number}' if len(masks) > 1 else '<mask>'}   {shown}\n")
        rows.close()


FillVerb = Annotated[Fill, tyro.conf.subcommand("fill")]
