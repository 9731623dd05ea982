"""transalg fill: a masked model says what belongs where a mask is."""

from dataclasses import dataclass
from typing import Annotated

import tyro

from transalg.cli.using import Reading, Texts, as_line


@dataclass(frozen=True, kw_only=True)
class Fill(Reading):
    """Fill masks: the most probable tokens for each, with their probabilities. transalg fill RUN --text "The <mask> sat."."""

    text: Texts = ()
    """Texts with one or more <mask> in them."""
    k: int = 5
    """How many candidates for each mask."""

    def run(self) -> None:
        run = self.load("fill")
        given = self.given(run)
        found = run.fills(given, self.k)
        with self.output() as out:
            for text, masks in zip(given, found, strict=True):
                if self.json:
                    out.write(as_line({"text": text, "masks": [[{"token": token, "p": p} for token, p in mask] for mask in masks]}))
                    continue
                out.write(f"{text}\n")
                for number, mask in enumerate(masks, 1):
                    shown = "   ".join(f"{token if token.strip() and token.isprintable() else repr(token)} {p:.1%}" for token, p in mask)
                    out.write(f"  {f'<mask> {number}' if len(masks) > 1 else '<mask>'}   {shown}\n")


FillVerb = Annotated[Fill, tyro.conf.subcommand("fill")]
