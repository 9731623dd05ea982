"""transalg trace: run an algorithm and show every line of it."""

import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console

from transalg.trace.setting import Settings, Sizes
from transalg.trace.source import Algorithm


def option(metavar: str) -> object:
    return tyro.conf.arg(metavar=metavar, help_behavior_hint="")


@dataclass(frozen=True)
class Trace:
    """Run an algorithm and show every line of it: transalg trace 10 --text "hello" --html trace.html."""

    which: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="NUMBER|NAME", help_behavior_hint="")]
    """A number from 1 to 15, or a name: 10, DTransformer."""
    text: str = "My grandma makes"
    """The sequence x, as characters between bos_token and eos_token; its characters are the vocabulary."""
    context: Annotated[str | None, option("TEXT")] = None
    """The sequence z, for Algorithms 3–5, 8, 11 and 15; the text again unless given."""
    tokens: Annotated[str | None, option("IDS")] = None
    """x as token IDs instead of a text, and --context likewise: "12 0 3"."""
    theta: Annotated[Path | None, option("FILE")] = None
    """A safetensors file of θ, its tensors under the paper's names; random unless given."""
    save_theta: Annotated[Path | None, option("FILE")] = None
    """Write θ to this safetensors file: the trained θ̂ after Algorithms 11–13, the θ used otherwise."""
    layer: Annotated[int | None, option("L")] = None
    """Only this pass of a loop over layers, counted from 1."""
    lines: Annotated[str | None, option("LINES")] = None
    """Only these lines of the algorithm: "5", "5-8", "1,5-8"."""
    depth: int = 0
    """Descend this far into the algorithms it calls."""
    html: Annotated[Path | None, option("FILE")] = None
    """Write a self-contained page with a heat map for every line to this file."""
    json: bool = False
    """Print the trace as JSON; indices in its values count from 0."""
    seed: int = 0
    """Seed of the random θ, masks and samples."""
    sizes: Sizes = field(default_factory=Sizes)
    settings: Settings = field(default_factory=Settings)

    def run(self) -> None:
        lines = _numbers(self.lines, "--lines", "5-8") if self.lines is not None else None
        tokens = _numbers(self.tokens, "--tokens", "12 0 3") if self.tokens is not None else None
        context_tokens = _numbers(self.context, "--context", "12 0 3") if tokens is not None and self.context is not None else None
        if self.depth < 0:
            raise ValueError(f"--depth: expected 0 or more, got {self.depth}")
        for target in (self.html, self.save_theta):
            if target is not None and (target.is_dir() or not target.parent.is_dir()):
                raise ValueError(f"{target}: expected a file in a folder that exists")

        from transalg.trace.source import find

        algorithm = find(self.which)
        _check_lines(algorithm, lines or [])

        from transalg.trace.example import example, save_theta

        of = example(
            algorithm,
            self.text,
            self.context if tokens is None else None,
            tokens=tokens,
            context_tokens=context_tokens,
            theta_file=self.theta,
            sizes=self.sizes,
            settings=self.settings,
            seed=self.seed,
        )
        whole = of.trace(self.depth)
        trace = whole.narrow(layer=self.layer, lines=set(lines) if lines else None)
        ran = {step.passes["l"] for step in whole.steps if "l" in step.passes}
        if self.layer is not None and not ran:
            raise ValueError(f"--layer: {algorithm.kind} has no loop over layers down to --depth {self.depth}")
        if self.layer is not None and not any(step.passes.get("l") == self.layer for step in trace.steps):
            raise ValueError(f"--layer: expected 1 to {max(ran)}, and lines in the loop over layers, got {self.layer}")
        if not trace.steps:
            raise ValueError(f"--lines {self.lines}: none of these lines ran")
        if self.save_theta is not None:
            save_theta(trace.result if isinstance(trace.result, type(of.theta)) else of.theta, self.save_theta)
        if self.html is not None:
            from transalg.trace.page import page

            _write(self.html, page(trace))
        if self.json:
            from transalg.trace.export import as_data

            json.dump(as_data(trace), sys.stdout, ensure_ascii=False, allow_nan=False)
            print()
        elif self.html is not None:
            Console(highlight=False, soft_wrap=True).print(
                f"{len(trace.steps)} steps of {algorithm.kind} in {self.html}: open it in a browser"
            )
        else:
            from transalg.trace.show import show_trace

            show_trace(trace, Console(highlight=False), passes=lines is not None)


def _write(path: Path, text: str) -> None:
    """The whole file or none of it: a full disk leaves what was there before."""
    part = path.with_name(f".{path.name}.part")
    try:
        part.write_text(text, encoding="utf-8")
        part.replace(path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise ValueError(f"{path}: cannot be written: {error.strerror}") from error


def _check_lines(algorithm: Algorithm, lines: list[int]) -> None:
    kinds = {line.number: line.kind for line in algorithm.lines}
    if unknown := [number for number in lines if number not in kinds]:
        raise ValueError(f"--lines: expected lines of {algorithm.kind}, 1 to {len(kinds)}, got {unknown[0]}")
    if lines and all(kinds[number] == "end" for number in lines):
        raise ValueError(f"--lines: line {lines[0]} of {algorithm.kind} is an end: nothing runs there")


def _numbers(text: str, option: str, like: str) -> list[int]:
    """1,5-8 → [1, 5, 6, 7, 8]."""
    found: list[int] = []
    for part in text.replace(",", " ").split():
        first, dash, last = part.partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()) or len(part) > 15 or not 0 <= int(last or first) - int(first) < 1000:
            raise ValueError(f'{option}: expected whole numbers like "{like}", got {text!r}')
        found += range(int(first), int(last or first) + 1)
    return found


TraceVerb = Annotated[Trace, tyro.conf.subcommand("trace"), tyro.conf.OmitArgPrefixes]
