"""transalg score: the log-probability of a text."""

from dataclasses import dataclass
from typing import Annotated

import tyro

from transalg.cli.using import Flag, Texts, TextVerb, json_line, visible_token, working
from transalg.tasks import find


@dataclass(frozen=True, kw_only=True)
class Score(TextVerb):
    """Score texts: log P̂ of every token, their sum, and the perplexity.

    transalg score RUN --text "The cat sat."
    """

    context: Texts = ()
    """For a seq2seq model: the source text z of each text."""
    eos: Flag = False
    """Include eos after the text."""

    def run(self) -> None:
        run = self.load("score")
        rows = self.rows(run, "score", eos=self.eos)
        texts = rows.texts
        if find(run.task).has_context and len(self.context) != rows.total:
            raise ValueError(f"--context: expected what each of the {rows.total:,} texts comes from, got {len(self.context)}")
        contexts = [self.context[i] for i in rows.places] if len(self.context) == rows.total else self.context
        with working("Scoring", len(texts)) as progress:
            scores = run.scores(texts, contexts=contexts or None, eos=self.eos, progress=progress)
        with self.output() as out:
            for row, text, score in zip(rows.numbers, texts, scores, strict=True):
                if self.json:
                    figures = {"log_p": score.total, "perplexity": score.perplexity, "per_token": score.log_p, "tokens": score.tokens}
                    out.write(json_line({"row": row, "text": text} | figures))
                    continue
                if len(texts) == 1:
                    for token, log_p in zip(score.tokens, score.log_p, strict=True):
                        out.write(f"{log_p:9.4f}  {visible_token(token)}\n")
                out.write(f"{score.total:9.4f}  of {len(score.log_p)} tokens, perplexity {score.perplexity:.2f}")
                out.write(f": {text}\n" if len(texts) > 1 else "\n")
        rows.close()


ScoreVerb = Annotated[Score, tyro.conf.subcommand("score")]
