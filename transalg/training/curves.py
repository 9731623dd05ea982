"""The curves of runs: loss and learning rate, from metrics.jsonl."""

from collections.abc import Mapping, Sequence
from itertools import count as count_from
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transalg.reading import parse_json, read_text
from transalg.runs.folder import METRICS
from transalg.runs.schema import count, mapping, number, record
from transalg.terminal import in_picture
from transalg.training.watch import OF_A_TASK

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
    """The metrics of runs by their names: the loss above, the learning rate below; the training loss pale, the validation loss strong.

    Of a model of several tasks, the validation loss of each.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 6), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=[3, 1])
    colours = (f"C{i}" for i in count_from(0))
    for run, metrics in runs.items():
        shown, validated = in_picture(Path(run).name), {name for line in metrics for name in line if name.startswith("val_loss")}
        tasks = {name: f"{shown}, {in_picture(name.removeprefix(OF_A_TASK))}" for name in sorted(validated) if name.startswith(OF_A_TASK)}
        losses = tasks or ({"val_loss": f"{shown}, validation"} if validated else {})
        first = next(colours)
        pale: dict[str, Any] = {"alpha": 0.35} if losses else {}
        lines: list[tuple[Any, str, str, str | None, dict[str, Any]]]
        lines = [(above, "loss", first, None if losses else shown, pale), (below, "eta", first, None, {})]
        lines += [
            (above, name, next(colours) if i else first, label, {"marker": "o", "markersize": 3})
            for i, (name, label) in enumerate(losses.items())
        ]
        if tasks:  # the loss of prose is a hundred times that of a world which is solved
            above.set_yscale("log")
        for axes, name, colour, label, style in lines:
            points = [(line[x], line[name]) for line in metrics if name in line]
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
