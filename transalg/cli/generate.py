"""transalg generate: a language model goes on with text."""

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from transalg.cli.using import MaybeFile, MaybeFloat, MaybeInt, Texts, Using, as_line, progress, texts, unknown

if TYPE_CHECKING:
    from transalg.inference.run import Run


@dataclass(frozen=True, kw_only=True)
class Generate(Using):
    """Go on with text, by Algorithm 14. transalg generate RUN --prompt "The "."""

    prompt: Texts = ()
    """What to go on with, once or several times; "" starts from nothing."""
    file: MaybeFile = None
    """Prompts, one a line; - for standard input."""
    samples: int = 1
    """How many continuations of each prompt."""
    ell_gen: int = 200
    """How many tokens at most; it ends before that where the model says so, with eos."""
    tau: float = 1.0
    """Temperature, 0 (the most probable token each time) to inf (any token)."""
    top_k: MaybeInt = None
    """Only the k most probable tokens."""
    top_p: MaybeFloat = None
    """Only the most probable tokens that have this probability together."""
    repetition_penalty: float = 1.0
    """Above 1: what was there already becomes less probable."""
    stop: Texts = ()
    """End before any of these texts."""
    seed: MaybeInt = None
    """The same seed gives the same text; another one each time unless given."""
    truncate: bool = False
    """Of a prompt longer than the model takes, use the end."""
    only_new: bool = False
    """Print what was written without the prompt."""

    def run(self) -> None:
        run = self.load("generate")
        prompts = texts(self.prompt, self.file, "--prompt") if self.prompt or self.file or not sys.stdin.isatty() else [""]
        unknown(run, prompts)
        options: dict[str, Any] = {
            name: getattr(self, name) for name in ("ell_gen", "tau", "top_k", "top_p", "repetition_penalty", "stop", "seed", "truncate")
        }
        if len(prompts) == self.samples == 1 and not self.json and self.out is None:
            self._stream(run, prompts[0], options)
            return
        with progress("Writing", len(prompts)) as done:
            found = run.written(prompts, samples=self.samples, progress=done, **options)
        with self.output() as out:
            for i, (prompt, each) in enumerate(zip(prompts, found, strict=True)):
                for j, one in enumerate(each):
                    if self.json:
                        out.write(
                            as_line({"prompt": prompt, "text": one.text, "tokens": len(one.ids), "log_p": one.log_p, "ended": one.ended})
                        )
                    else:
                        out.write(("\n" if i or j else "") + ("" if self.only_new else prompt) + one.text + "\n")

    def _stream(self, run: "Run", prompt: str, options: dict[str, Any]) -> None:
        from rich.console import Console
        from rich.text import Text

        pieces = run.stream(prompt, **options)
        first = next(pieces, "")  # what is wrong is said before anything is printed
        if not self.only_new:
            Console(highlight=False, soft_wrap=True).print(Text(prompt, "cyan"), end="")
        sys.stdout.write(first)
        sys.stdout.flush()
        for piece in pieces:
            sys.stdout.write(piece)
            sys.stdout.flush()
        sys.stdout.write("\n")


GenerateVerb = Annotated[Generate, tyro.conf.subcommand("generate")]
