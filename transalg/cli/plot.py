"""transalg plot: the curves of one run or several."""

from dataclasses import dataclass
from typing import Annotated

import tyro

from transalg import terminal
from transalg.cli.pictures import check_picture, write_picture
from transalg.cli.using import MaybeFile, Runs


@dataclass(frozen=True)
class Plot:
    """Plot the loss and the learning rate of one run or several in one picture.

    transalg plot RUN RUN --out curves.png
    """

    runs: Runs
    """Folders that `transalg train` made."""
    out: MaybeFile = None
    """The picture; its name says whether it is PNG, SVG or PDF. By default RUN/curves.png."""
    x: Annotated[str, tyro.conf.arg(metavar="{step,tokens,seconds}", help_behavior_hint="(default: step)")] = "step"
    """The horizontal axis."""

    def run(self) -> None:
        if not self.runs:
            raise ValueError("plot: expected the folder of a run; transalg plot RUN")
        if self.x not in ("step", "tokens", "seconds"):
            raise ValueError(f"--x: expected step, tokens or seconds, got {self.x!r}")
        check_picture(self.out)

        from transalg.training.curves import curves, read_metrics

        metrics = {str(run): read_metrics(run) for run in self.runs}
        out = self.out or self.runs[0] / "curves.png"
        write_picture(curves(metrics, self.x), out)
        terminal.console(soft_wrap=True).print(f"Wrote {out}")


PlotVerb = Annotated[Plot, tyro.conf.subcommand("plot")]
