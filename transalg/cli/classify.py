"""transalg classify: the class of texts."""

from dataclasses import dataclass
from typing import Annotated

import tyro

from transalg.cli.using import MaybeFile, Texts, Using, as_line, progress, texts, unknown


@dataclass(frozen=True, kw_only=True)
class Classify(Using):
    """The class of a text and how sure the model is. transalg classify RUN --text "Who was Galileo?"."""

    text: Texts = ()
    """The texts."""
    file: MaybeFile = None
    """Texts, one a line; or a table or JSON lines; - for standard input."""
    column: str = "text"
    """The column of the texts in a table or JSON lines."""
    all: bool = False
    """The probability of every class, not only of the most probable."""

    def run(self) -> None:
        run = self.load("classify")
        given = texts(self.text, self.file, "--text", self.column)
        unknown(run, given)
        with progress("Classifying", len(given)) as done:
            found = []
            for i in range(0, len(given), 256):
                found += run.classify(given[i : i + 256])
                done(len(given[i : i + 256]))
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
