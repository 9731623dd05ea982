"""Pictures in files: PNG, SVG or PDF, as the name says; the confusion matrix and the reliability diagram of a classifier."""

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from transalg.atomic import atomic_write
from transalg.cli.using import check_output
from transalg.terminal import in_picture

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from transalg.evaluation.classes import Bin

KINDS = ("png", "svg", "pdf")
WIDEST = 60.0  # inches of a picture, however many classes there are


def check_picture(path: Path | None) -> None:
    """A ValueError, before any work, if there cannot be such a picture."""
    check_output(path)
    if path is not None and _kind(path) not in KINDS:
        raise ValueError(f"{path}: expected a name that ends in .png, .svg or .pdf")


def write_picture(figure: "Figure", out: Path) -> None:
    """Write a picture atomically. Characters that its font lacks become boxes."""
    with atomic_write(out, "wb") as file, warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")
        figure.savefig(file, format=_kind(out), dpi=150)


def _kind(path: Path) -> str:
    return path.suffix[1:].lower() or "png"


def confusion_picture(confusion: "NDArray[np.int64]", labels: Sequence[str]) -> "Figure":
    """A heat map: a row for each true class, a column for each prediction. The colour is the share of the row, the number the count."""
    import numpy as np
    from matplotlib.figure import Figure

    N_C, labels = len(labels), [in_picture(label) for label in labels]
    side = min(WIDEST, max(4.0, 0.42 * N_C + 0.08 * max(map(len, labels)) + 1.5))
    figure = Figure(figsize=(side + 0.8, side), layout="constrained")
    axes = figure.subplots()
    shares = confusion / np.maximum(1, confusion.sum(axis=1, keepdims=True))
    image = axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    size = 9 if N_C <= 10 else 7
    axes.set_xticks(range(N_C), labels, rotation=0 if max(map(len, labels)) <= 5 and N_C <= 10 else 90, fontsize=size)
    axes.set_yticks(range(N_C), labels, fontsize=size)
    axes.set_xlabel("predicted")
    axes.set_ylabel("true")
    for i, j in zip(*np.nonzero(confusion), strict=True):
        colour = "white" if shares[i, j] > 0.5 else "black"
        axes.text(
            j, i, f"{confusion[i, j]:,}", ha="center", va="center", fontsize=size if confusion[i, j] < 1000 else size - 2, color=colour
        )
    figure.colorbar(image, ax=axes, label="share of the true class", shrink=0.8)
    return figure


def reliability_picture(bins: Sequence["Bin"], error: float) -> "Figure":
    """A reliability diagram: how often the predictions of each bin are right, against their mean probability; below, how many there are."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5, 6), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=[3, 1])
    used = [each for each in bins if each.texts]
    above.plot([0, 1], [0, 1], color="grey", linestyle="--", linewidth=1, label="accuracy = probability")
    left, width = [each.low for each in used], [each.high - each.low for each in used]
    above.bar(left, [each.accuracy for each in used], width, align="edge", color="C0", alpha=0.6, edgecolor="white", label="accuracy")
    above.plot(
        *zip(*((each.confidence, each.accuracy) for each in used), strict=True), "o", color="C3", markersize=4, label="mean of the bin"
    )
    below.bar(left, [each.texts for each in used], width, align="edge", color="C0", alpha=0.6, edgecolor="white")
    above.set(xlim=(0, 1), ylim=(0, 1), ylabel="accuracy", title=f"expected calibration error {error:.3f}")
    below.set(xlabel="probability of the predicted class", ylabel="texts")
    above.legend(frameon=False, loc="upper left")
    for axes in (above, below):
        axes.spines[["top", "right"]].set_visible(False)
    return figure
