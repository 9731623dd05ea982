"""transalg trace: run an algorithm and show every line of it."""

import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console

from transalg.trace.setting import Settings, Sizes


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
    """x as token IDs, instead of a text: "12 0 3"."""
    theta: Annotated[Path | None, option("FILE")] = None
    """A safetensors file of θ, its tensors under the paper's names; random unless given."""
    save_theta: Annotated[Path | None, option("FILE")] = None
    """Write the θ used to this safetensors file."""
    layer: Annotated[int | None, option("L")] = None
    """Only this pass of a loop over layers, counted from 1."""
    lines: Annotated[str | None, option("LINES")] = None
    """Only these lines of the algorithm: "5", "5-8", "1,5-8"."""
    depth: int = 0
    """Descend this far into the algorithms it calls."""
    html: Annotated[Path | None, option("FILE")] = None
    """Write a self-contained page with a heat map for every line to this file."""
    json: bool = False
    """Print the trace as JSON."""
    seed: int = 0
    """Seed of the random θ, masks and samples."""
    sizes: Sizes = field(default_factory=Sizes)
    settings: Settings = field(default_factory=Settings)

    def run(self) -> None:
        lines = _numbers(self.lines, "--lines", "5-8") if self.lines is not None else None
        tokens = (
            _numbers(self.tokens, "--tokens", "12 0 3", ranges=False) if self.tokens is not None else None
        )
        if self.depth < 0:
            raise ValueError(f"--depth: expected 0 or more, got {self.depth}")
        for target in (self.html, self.save_theta):
            if target is not None and not target.parent.is_dir():
                raise ValueError(f"{target}: the folder {target.parent} does not exist")

        from transalg.trace.example import example, save_theta
        from transalg.trace.source import find

        algorithm = find(self.which)
        if lines and (unknown := sorted(set(lines) - {line.number for line in algorithm.lines})):
            raise ValueError(
                f"--lines: expected lines of {algorithm.kind}, 1 to {len(algorithm.lines)}, got {unknown[0]}"
            )
        of = example(
            algorithm,
            self.text,
            self.context,
            tokens=tokens,
            theta_file=self.theta,
            sizes=self.sizes,
            settings=self.settings,
            seed=self.seed,
        )
        trace = of.trace(self.depth).narrow(layer=self.layer, lines=set(lines) if lines else None)
        if not trace.steps:
            raise ValueError(
                f"--layer {self.layer} and --lines {self.lines} leave no line of {algorithm.kind} that ran"
            )
        if self.save_theta is not None and of.theta is not None:
            save_theta(of.theta, self.save_theta)
        if self.html is not None:
            from transalg.trace.page import page

            self.html.write_text(page(trace), encoding="utf-8")
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

            show_trace(trace, Console(highlight=False))


def _numbers(text: str, option: str, like: str, ranges: bool = True) -> list[int]:
    """1,5-8 → [1, 5, 6, 7, 8]."""
    found: list[int] = []
    for part in text.replace(",", " ").split():
        first, dash, last = part.partition("-") if ranges else (part, "", "")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise ValueError(f'{option}: expected whole numbers like "{like}", got {text!r}')
        found += range(int(first), int(last or first) + 1)
    return found


TraceVerb = Annotated[Trace, tyro.conf.subcommand("trace")]
