"""transalg predict: a sequence-to-sequence model turns texts into others."""

from dataclasses import dataclass
from typing import Annotated

import tyro

from transalg.cli.bounds import Beams, MaybeSeed, MaybeTokens, Penalty, Tau, TopK, TopP
from transalg.cli.using import (
    MaybeFile,
    ModelVerb,
    Name,
    Strict,
    Texts,
    TooLong,
    json_line,
    usable_rows,
    working,
)
from transalg.limits import limits


@dataclass(frozen=True, kw_only=True)
class Predict(ModelVerb):
    """Turn a text into another (Algorithm 15): by greedy decoding, beam search or sampling.

    transalg predict RUN --input "3 March 2026"
    """

    input: Texts = ()
    """The source texts z."""
    file: MaybeFile = None
    """Read the texts from a file: one a line, or a table or JSON lines; - for standard input."""
    column: Name = "source"
    """The column of the texts in a table or JSON lines."""
    beams: Beams = 1
    """Beams of the search; 1 is greedy decoding."""
    alpha: Annotated[float, limits("[0, 100]", float)] = 1.0
    """Length normalisation: hypotheses are ranked by log P̂ / ℓ^α; 0 prefers short ones."""
    n_best: Beams = 1
    """Predictions for each text, best first."""
    ell_gen: MaybeTokens = None
    """Maximum number of tokens to generate; ℓ_max by default."""
    tau: Tau = 0.0
    """Temperature; above 0, predictions are sampled."""
    top_k: TopK = None
    """Sample from the k most probable tokens."""
    top_p: TopP = None
    """Nucleus sampling: sample from the smallest set of most probable tokens with this total probability."""
    repetition_penalty: Penalty = 1.0
    """Above 1, tokens that occurred already become less probable."""
    seed: MaybeSeed = None
    """The same seed gives the same samples; by default it is random."""
    too_long: TooLong = "cut"
    strict: Strict = False

    def run(self) -> None:
        run = self.load("predict")
        rows = usable_rows(run, "predict", self.input, self.file, "--input", self.column, strict=self.strict, too_long=self.too_long)
        with working("Predicting", len(rows.texts)) as progress:
            results = run.predictions(
                rows.texts,
                n_best=self.n_best,
                beams=self.beams,
                alpha=self.alpha,
                ell_gen=self.ell_gen,
                tau=self.tau,
                top_k=self.top_k,
                top_p=self.top_p,
                repetition_penalty=self.repetition_penalty,
                seed=self.seed,
                too_long=self.too_long,
                progress=progress,
            )
        with self.output() as out:
            for row, gap, text, predictions in zip(rows.numbers, rows.gaps, rows.texts, results, strict=True):
                if not self.json and self.n_best == 1:
                    out.write(gap)
                for one in predictions:
                    if self.json:
                        figures = {"log_p": one.log_p, "score": one.score, "ended": one.ended}
                        out.write(json_line({"row": row, "input": text, "prediction": one.text} | figures))
                    else:
                        score = f"{one.log_p if one.score is None else one.score:8.4f}  " if self.n_best > 1 else ""
                        out.write(score + one.text + "\n")
        rows.close()


PredictVerb = Annotated[Predict, tyro.conf.subcommand("predict")]
