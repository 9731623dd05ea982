"""transalg plot: the curves of one run or several."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console

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
        metrics = {run: read_metrics(run) for run in self.runs}
        out = self.out or self.runs[0] / "curves.png"
        draw(metrics, self.x, out)
        Console(highlight=False, soft_wrap=True).print(f"Wrote {out}")


def read_metrics(run: Path) -> list[dict[str, float]]:
    """The metrics of a run."""
    path = run / "metrics.jsonl"
    try:
        text = path.read_text(encoding="utf-8")
        metrics = [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]  # a kill may leave half a line
    except OSError as error:
        raise ValueError(f"{path}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise ValueError(f"{path}: not JSON lines: {error}") from error
    if not metrics:
        raise ValueError(f"{path}: has no steps yet")
    return metrics


def draw(runs: dict[Path, list[dict[str, float]]], x: str, out: Path) -> None:
    """Write the picture: the loss above, the learning rate below; the training loss pale, the validation loss strong."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 6), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=[3, 1])
    for i, (run, metrics) in enumerate(runs.items()):
        colour = f"C{i}"
        for axes, name, style in (
            (above, "loss", {"alpha": 0.35}),
            (above, "val_loss", {"marker": "o", "markersize": 3}),
            (below, "eta", {}),
        ):
            points = [(line[x], line[name]) for line in metrics if name in line]
            label = {"loss": None, "val_loss": f"{run.name}, validation", "eta": None}[name]
            if name == "loss" and not any("val_loss" in line for line in metrics):
                label, style = run.name, {}
            if points:
                axes.plot(*zip(*points, strict=True), color=colour, label=label, **style)
    above.set_ylabel("loss, nats")
    below.set_ylabel("η")
    below.set_xlabel({"step": "step", "tokens": "tokens read", "seconds": "seconds of training"}[x])
    above.legend(frameon=False)
    for axes in (above, below):
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    write_picture(figure, out)


PlotVerb = Annotated[Plot, tyro.conf.subcommand("plot")]
