"""The curves of runs: loss and learning rate, from metrics.jsonl."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from transalg.reading import parse_json, read_text
from transalg.runs.folder import METRICS
from transalg.runs.schema import count, mapping, number, record
from transalg.terminal import in_picture

if TYPE_CHECKING:
    from matplotlib.figure import Figure

AXES = {"step": "step", "tokens": "tokens read", "seconds": "seconds of training"}


def _check_line(name: str, values: object) -> None:
    record({"step": count, "tokens": count, "seconds": number}, closed=False)(name, values)
    mapping(number)(name, values)


def read_metrics(run: Path) -> list[dict[str, float]]:
    """The metrics of a run."""
    path = run / METRICS
    text = read_text(path)
    metrics = []
    for i, line in enumerate(text[: text.rfind("\n") + 1].splitlines(), 1):  # a kill may leave half a line
        try:
            values = parse_json(line)
            _check_line("metrics", values)
        except ValueError as error:
            raise ValueError(f"{path}:{i}: {error}") from error
        metrics.append(values)
    if not metrics:
        raise ValueError(f"{path}: has no steps yet")
    return metrics


def curves(runs: Mapping[str, Sequence[Mapping[str, float]]], x: str = "step") -> "Figure":
    """The metrics of runs by their names: the loss above, the learning rate below; the training loss pale, the validation loss strong."""
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
            label = {"loss": None, "val_loss": f"{in_picture(Path(run).name)}, validation", "eta": None}[name]
            if name == "loss" and not any("val_loss" in line for line in metrics):
                label, style = in_picture(Path(run).name), {}
            if points:
                axes.plot(*zip(*points, strict=True), color=colour, label=label, **style)
    above.set_ylabel("loss, nats")
    below.set_ylabel("η")
    below.set_xlabel(AXES[x])
    above.legend(frameon=False)
    for axes in (above, below):
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    return figure
