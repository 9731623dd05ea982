"""transalg generate: a language model continues text."""

import sys
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Annotated

import tyro

from transalg import terminal
from transalg.cli.bounds import Count, MaybeSeed, Penalty, Tau, Tokens, TopK, TopP
from transalg.cli.using import Flag, MaybeFile, ModelVerb, Texts, json_line, note_unknown, read_texts, standard_output, working

if TYPE_CHECKING:
    from transalg.inference.options import SamplingOptions
    from transalg.inference.run import Run


@dataclass(frozen=True, kw_only=True)
class Generate(ModelVerb):
    """Continue text with a language model (Algorithm 14).

    transalg generate RUN --prompt "The "
    """

    prompt: Texts = ()
    """The prompts to continue; "" starts from nothing."""
    file: MaybeFile = None
    """Read the prompts from a file, one a line; - for standard input."""
    samples: Count = 1
    """Continuations of each prompt."""
    ell_gen: Tokens = 200
    """Maximum number of tokens to generate; eos may end a text earlier."""
    tau: Tau = 1.0
    """Temperature: 0 always takes the most probable token (greedy), inf any token."""
    top_k: TopK = None
    """Sample from the k most probable tokens."""
    top_p: TopP = None
    """Nucleus sampling: sample from the smallest set of most probable tokens with this total probability."""
    repetition_penalty: Penalty = 1.0
    """Above 1, tokens that occurred already become less probable."""
    stop: Texts = ()
    """Stop strings: a text ends before any of them."""
    seed: MaybeSeed = None
    """The same seed gives the same text; by default it is random."""
    truncate: Flag = False
    """Use the end of a prompt that is longer than the model takes."""
    only_new: Flag = False
    """Print the continuation without the prompt."""

    def run(self) -> None:
        run = self.load("generate")
        prompts = read_texts(self.prompt, self.file, "--prompt") if self.prompt or self.file or not sys.stdin.isatty() else [""]
        note_unknown(run, prompts)
        options: SamplingOptions = {
            "ell_gen": self.ell_gen,
            "tau": self.tau,
            "top_k": self.top_k,
            "top_p": self.top_p,
            "repetition_penalty": self.repetition_penalty,
            "stop": self.stop,
            "seed": self.seed,
            "truncate": self.truncate,
        }
        if len(prompts) == self.samples == 1 and not self.json and self.out is None:
            self._stream(run, prompts[0], options)
            return
        with working("Generating", len(prompts)) as progress:
            results = run.completions(prompts, samples=self.samples, progress=progress, **options)
        with self.output() as out:
            for i, (prompt, completions) in enumerate(zip(prompts, results, strict=True)):
                for j, one in enumerate(completions):
                    if self.json:
                        figures = {"tokens": len(one.ids), "log_p": one.log_p, "ended": one.ended}
                        out.write(json_line({"prompt": prompt, "text": one.text} | figures))
                    else:
                        out.write(("\n" if i or j else "") + ("" if self.only_new else prompt) + one.text + "\n")

    def _stream(self, run: "Run", prompt: str, options: "SamplingOptions") -> None:
        from rich.text import Text

        pieces = run.stream(prompt, **options)
        first = next(pieces, "")  # raises what is wrong before anything is printed
        if not self.only_new:
            terminal.console(soft_wrap=True).print(Text(prompt, "cyan"), end="")
        out = standard_output()
        for piece in chain((first,), pieces):
            out.write(piece)
            out.flush()
        out.write("\n")


GenerateVerb = Annotated[Generate, tyro.conf.subcommand("generate")]
