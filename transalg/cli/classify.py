"""transalg classify: the class of texts."""

from dataclasses import dataclass
from typing import Annotated

import tyro

from transalg.cli.using import Flag, TextVerb, TooLong, json_line, working


@dataclass(frozen=True, kw_only=True)
class Classify(TextVerb):
    """Classify texts: the most probable class and its probability.

    transalg classify RUN --text "Who was Galileo?"
    """

    all: Flag = False
    """Print the probability of every class."""
    too_long: TooLong = "cut"

    def run(self) -> None:
        run = self.load("classify")
        texts = self.texts(run)
        with working("Classifying", len(texts)) as progress:
            results = run.classify(texts, too_long=self.too_long, progress=progress)
        with self.output() as out:
            for text, result in zip(texts, results, strict=True):
                if self.json:
                    out.write(json_line({"text": text, "label": result.label, "probability": result.probability, "P": result.P}))
                elif self.all:
                    ordered = sorted(result.P.items(), key=lambda item: -item[1])
                    out.write("  ".join(f"{label} {p:.1%}" for label, p in ordered) + "\n")
                else:
                    out.write(f"{result.label}\t{result.probability:.1%}\n")


ClassifyVerb = Annotated[Classify, tyro.conf.subcommand("classify")]
