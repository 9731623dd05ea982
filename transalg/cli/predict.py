"""transalg predict: a sequence-to-sequence model turns texts into others."""

from dataclasses import dataclass
from typing import Annotated

import tyro

from transalg.cli.using import MaybeFile, MaybeFloat, MaybeInt, Texts, Using, as_line, progress, texts, unknown


@dataclass(frozen=True, kw_only=True)
class Predict(Using):
    """Turn one text into another, by Algorithm 15: greedily, by beams, or by sampling. transalg predict RUN --input "3 March 2026"."""

    input: Texts = ()
    """The texts z."""
    file: MaybeFile = None
    """Texts, one a line; or a table or JSON lines; - for standard input."""
    column: str = "source"
    """The column of the texts in a table or JSON lines."""
    beams: int = 1
    """How many candidates to pursue at once; 1 is greedy."""
    alpha: float = 1.0
    """Candidates are ranked by log P̂ / ℓ^α: 0 prefers short ones."""
    n_best: int = 1
    """How many answers to give for each text, best first."""
    ell_gen: MaybeInt = None
    """How many tokens at most; as many as the model takes unless given."""
    tau: float = 0.0
    """Temperature: above 0, answers are drawn."""
    top_k: MaybeInt = None
    """Draw only among the k most probable tokens."""
    top_p: MaybeFloat = None
    """Draw only among the most probable tokens that have this probability together."""
    repetition_penalty: float = 1.0
    """Above 1: what was there already becomes less probable."""
    seed: MaybeInt = None
    """The same seed draws the same; another one each time unless given."""

    def run(self) -> None:
        run = self.load("predict")
        given = texts(self.input, self.file, "--input", self.column)
        unknown(run, given)
        names = ("beams", "alpha", "n_best", "ell_gen", "tau", "top_k", "top_p", "repetition_penalty", "seed")
        with progress("Predicting", len(given)) as done:
            found = run.predictions(given, progress=done, **{name: getattr(self, name) for name in names})
        with self.output() as out:
            for text, each in zip(given, found, strict=True):
                for one in each:
                    if self.json:
                        out.write(
                            as_line({"input": text, "prediction": one.text, "log_p": one.log_p, "score": one.score, "ended": one.ended})
                        )
                    else:
                        out.write((f"{one.log_p if one.score is None else one.score:8.4f}  " if self.n_best > 1 else "") + one.text + "\n")


PredictVerb = Annotated[Predict, tyro.conf.subcommand("predict")]
