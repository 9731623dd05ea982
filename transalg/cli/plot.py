"""transalg plot: the curves of one run or several."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.console import Console


@dataclass(frozen=True)
class Plot:
    """Draw loss and learning rate of runs, several in one picture. transalg plot RUN RUN --out curves.png."""

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN [RUN ...]", help_behavior_hint="")]
    """Folders that `transalg train` made."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="FILE", help_behavior_hint="")] = None
    """The picture: PNG, or SVG or PDF by its name; RUN/curves.png unless given."""
    x: Annotated[str, tyro.conf.arg(metavar="{step,tokens,seconds}", help_behavior_hint="(default: step)")] = "step"
    """What goes to the right."""

    def run(self) -> None:
        if not self.runs:
            raise ValueError("plot: expected the folder of a run; transalg plot RUN")
        if self.x not in ("step", "tokens", "seconds"):
            raise ValueError(f"--x: expected step, tokens or seconds, got {self.x!r}")
        found = {run: lines(run) for run in self.runs}
        out = self.out or self.runs[0] / "curves.png"
        picture(found, self.x, out)
        Console(highlight=False, soft_wrap=True).print(f"Wrote {out}")


def lines(run: Path) -> list[dict[str, Any]]:
    """The metrics of a run."""
    path = run / "metrics.jsonl"
    try:
        text = path.read_text(encoding="utf-8")
        found = [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]  # a kill may leave half a line
    except OSError as error:
        raise ValueError(f"{path}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise ValueError(f"{path}: not JSON lines: {error}") from error
    if not found:
        raise ValueError(f"{path}: has no steps yet")
    return found


def picture(found: dict[Path, list[dict[str, Any]]], x: str, out: Path) -> None:
    """Loss above, learning rate below; the training loss pale, the validation loss strong."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (above, below) = pyplot.subplots(2, 1, sharex=True, figsize=(8, 6), height_ratios=[3, 1], layout="constrained")
    for i, (run, metrics) in enumerate(found.items()):
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
    try:
        figure.savefig(out, dpi=150)
    except (OSError, ValueError) as error:
        raise ValueError(f"{out}: cannot be written: {error}") from error
    finally:
        pyplot.close(figure)


PlotVerb = Annotated[Plot, tyro.conf.subcommand("plot")]
