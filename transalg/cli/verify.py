"""transalg verify: check the engine against the formal algorithms."""

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro
from rich.columns import Columns
from rich.padding import Padding
from rich.text import Text

from transalg import terminal
from transalg.cli.using import CheckpointName, Flag, MaybeText, Texts, load_runs
from transalg.limits import limits

if TYPE_CHECKING:
    from transalg.verify.cases import Verdict


@dataclass(frozen=True)
class Verify:
    """Check the engine against the formal algorithms, values and gradients: every architecture, variant and preset at a small size, or trained models.

    transalg verify RUN
    """

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="[RUN ...]", help_behavior_hint="")] = ()
    """Folders that `transalg train` made: check these models, on their validation sets."""
    text: Texts = ()
    """With RUN: these texts instead of the validation set."""
    context: Texts = ()
    """With a seq2seq RUN and --text: the source text z of each text."""
    checkpoint: CheckpointName = "best"
    only: MaybeText = None
    """Only architectures and variants whose name contains this: gpt3, relative, EDTransformer."""
    seed: Annotated[int, limits("[0, 4294967295]")] = 0
    """Seed of the random models and batches."""
    json: Flag = False
    """Print JSON lines, one object for each case."""

    def run(self) -> None:
        from transalg.verify.cases import BOUND, cases, verify

        if self.runs:
            if self.only is not None:
                raise ValueError("--only: expected without RUN; it chooses among variants and presets")
            self._trained(BOUND)
            return
        if self.text or self.context:
            raise ValueError("--text: expected with RUN; without it models and tokens are random")
        chosen = [case for case in cases() if self.only is None or self.only.lower() in f"{case.architecture} {case.variant}".lower()]
        if not chosen:
            raise ValueError(f"--only {self.only!r}: no architecture, variant or preset has a name that contains this")
        console = terminal.console()
        widths = [max(len(getattr(case, column)) for case in chosen) + 2 for column in ("architecture", "variant")]
        verdicts = []
        if not self.json:
            console.print(_line(widths, "architecture", "variant", Text("P"), Text("gradients"), Text("invariances")), style="bold")
        for i, case in enumerate(chosen):
            verdicts.append(verify(case, self.seed + i))
            if self.json:
                print(json.dumps(_data(verdicts[-1])), flush=True)
            else:
                console.print(_row(widths, verdicts[-1], BOUND))
        failed = [verdict for verdict in verdicts if not verdict.holds]
        if not self.json:
            console.print(
                f"{len(verdicts) - len(failed)} of {len(verdicts)} within {BOUND:.0e}: float64, random θ, a ragged batch; the largest differences "
                "between engine and formal algorithm, of P and of the gradient by any parameter. Invariances: padding, the batch a row is in, "
                "the order of rows; where it decodes, the cache, a prefill in pieces, a reordered cache, one row token by token."
            )
        if failed:
            sys.exit(1)

    def _trained(self, bound: float) -> None:
        from transalg.verify.trained import verify

        console = terminal.console()
        widths = [15, max(len(str(run)) for run in self.runs) + 2]
        if not self.json:
            console.print(_line(widths, "architecture", "run", Text("P"), Text("gradients"), Text("invariances")), style="bold")
        all_hold = True
        for run in self.runs:
            verdict = verify(load_runs(run, checkpoint=self.checkpoint), self.text, self.context, seed=self.seed)
            all_hold = all_hold and verdict.holds
            if self.json:
                print(json.dumps(_data(verdict)), flush=True)
            else:
                console.print(_row(widths, verdict, bound))
                shown = [f"{name} {error:.0e}" for name, error in verdict.laws.items()]
                console.print(Padding(Columns(shown, padding=(0, 2)), (0, 0, 0, 2)), style="dim")
        if not self.json:
            console.print(f"float64; the largest differences from the formal algorithm, and from each invariance; the bound is {bound:.0e}")
        if not all_hold:
            sys.exit(1)


def _data(verdict: "Verdict") -> dict[str, object]:
    case = verdict.case
    errors = {"P": verdict.of_P, "gradients": verdict.of_gradients} | verdict.laws
    return {"architecture": case.architecture, "variant": case.variant, "holds": verdict.holds, "errors": errors}


def _row(widths: list[int], verdict: "Verdict", bound: float) -> Text:
    def shown(error: float) -> Text:
        return Text(f"{error:.0e}", "green" if error <= bound else "bold red")

    broken = [name for name, error in verdict.laws.items() if not error <= bound]
    laws = Text(f"{len(verdict.laws) - len(broken)} of {len(verdict.laws)}", "green")
    if broken:
        laws = Text(f"{len(verdict.laws) - len(broken)} of {len(verdict.laws)}, not {', '.join(broken)}", "bold red")
    return _line(widths, verdict.case.architecture, verdict.case.variant, shown(verdict.of_P), shown(verdict.of_gradients), laws)


def _line(widths: list[int], architecture: str, variant: str, P: Text, gradients: Text, laws: Text) -> Text:
    P.align("right", 5)
    gradients.align("right", 9)
    return Text.assemble(architecture.ljust(widths[0]), variant.ljust(widths[1]), P, "  ", gradients, "  ", laws)


VerifyVerb = Annotated[Verify, tyro.conf.subcommand("verify")]
