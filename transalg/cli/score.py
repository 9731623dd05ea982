"""transalg score: how probable a text is."""

from dataclasses import dataclass
from typing import Annotated

import tyro

from transalg.cli.using import Reading, Texts, as_line
from transalg.tasks import find


@dataclass(frozen=True, kw_only=True)
class Score(Reading):
    """log P̂ of a text, token by token. transalg score RUN --text "The cat sat."."""

    context: Texts = ()
    """For a seq2seq model: what each text comes from, as many as there are texts."""
    eos: bool = False
    """Count eos behind the text as well."""

    def run(self) -> None:
        run = self.load("score")
        given = self.given(run)
        if find(run.task).has_context and len(self.context) != len(given):
            raise ValueError(f"--context: expected what each of the {len(given)} texts comes from, got {len(self.context)}")
        parts = self.parts("Scoring", given, 64)
        found = [one for part in parts for one in run.scores(given[part], contexts=self.context[part] or None, eos=self.eos)]
        with self.output() as out:
            for text, one in zip(given, found, strict=True):
                if self.json:
                    figures = {"log_p": one.total, "perplexity": one.perplexity, "per_token": one.log_p, "tokens": one.tokens}
                    out.write(as_line({"text": text} | figures))
                    continue
                if len(given) == 1:
                    for token, log_p in zip(one.tokens, one.log_p, strict=True):
                        out.write(f"{log_p:9.4f}  {token if token.strip() and token.isprintable() else repr(token)}\n")
                out.write(f"{one.total:9.4f}  of {len(one.log_p)} tokens, perplexity {one.perplexity:.2f}")
                out.write(f": {text}\n" if len(given) > 1 else "\n")


ScoreVerb = Annotated[Score, tyro.conf.subcommand("score")]
