"""transalg classify: the class of texts."""

from dataclasses import dataclass
from typing import Annotated

import tyro

from transalg.cli.using import Flag, Head, TextVerb, TooLong, json_line, working
from transalg.terminal import shown


@dataclass(frozen=True, kw_only=True)
class Classify(TextVerb):
    """Classify texts: the most probable class and its probability.

    transalg classify RUN --text "Who was Galileo?"
    """

    all: Flag = False
    """Print the probability of every class."""
    head: Head = None
    too_long: TooLong = "cut"

    def run(self) -> None:
        run = self.load("classify")
        run.head(self.head)
        rows = self.rows(run, "classify", self.too_long)
        with working("Classifying", len(rows.texts)) as progress:
            results = run.classify(rows.texts, head=self.head, too_long=self.too_long, progress=progress)
        with self.output() as out:
            for row, gap, text, result in zip(rows.numbers, rows.gaps, rows.texts, results, strict=True):
                if self.json:
                    figures = {"label": result.label, "probability": result.probability, "P": result.P}
                    out.write(json_line({"row": row, "text": text} | figures))
                elif self.all:
                    ordered = sorted(result.P.items(), key=lambda item: -item[1])
                    out.write(gap + "  ".join(f"{shown(label)} {p:.1%}" for label, p in ordered) + "\n")
                else:
                    out.write(f"{gap}{shown(result.label)}\t{result.probability:.1%}\n")
        rows.close()


ClassifyVerb = Annotated[Classify, tyro.conf.subcommand("classify")]
