"""transalg classify: the class of texts."""

from dataclasses import dataclass
from typing import Annotated

import tyro

from transalg.cli.using import Reading, as_line


@dataclass(frozen=True, kw_only=True)
class Classify(Reading):
    """The class of a text and how sure the model is. transalg classify RUN --text "Who was Galileo?"."""

    all: bool = False
    """The probability of every class, not only of the most probable."""

    def run(self) -> None:
        run = self.load("classify")
        given = self.given(run)
        found = [one for part in self.parts("Classifying", given, 256) for one in run.classify(given[part])]
        with self.output() as out:
            for text, one in zip(given, found, strict=True):
                if self.json:
                    out.write(as_line({"text": text, "label": one.label, "probability": one.probability, "P": one.P}))
                elif self.all:
                    ordered = sorted(one.P.items(), key=lambda each: -each[1])
                    out.write("  ".join(f"{label} {p:.1%}" for label, p in ordered) + "\n")
                else:
                    out.write(f"{one.label}\t{one.probability:.1%}\n")


ClassifyVerb = Annotated[Classify, tyro.conf.subcommand("classify")]
