"""Frames of an episode: the world, and beside it P̂ of every element of the action; as a strip or a moving picture."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transalg.atomic import atomic_write

if TYPE_CHECKING:
    from PIL.Image import Image as Picture

    from transalg.inference.agent import Decision

HEIGHT, CHART, MARGIN = 160, 110, 6  # pixels
BARS = 32  # of a range; wider ranges are summed up in so many
CHOSEN, OTHER = (202, 82, 60), (120, 150, 190)
DURATION = 40  # milliseconds of a frame


def frame(decision: "Decision", number: int) -> "Picture":
    """The world before an action, and a chart for each element of the action."""
    from PIL import Image, ImageDraw

    world = Image.fromarray(decision.world.render())
    world = world.resize((max(1, round(world.width * HEIGHT / world.height)), HEIGHT))
    picture = Image.new("RGB", (world.width + CHART * len(decision.P), HEIGHT), "white")
    picture.paste(world, (0, 0))
    draw = ImageDraw.Draw(picture)
    for i, (P, allowed, token) in enumerate(zip(decision.P, decision.ranges, decision.ids, strict=True)):
        left = world.width + CHART * i
        heights, at = bars([float(p) for p in P], token - allowed.start)
        width = (CHART - 2 * MARGIN) / len(heights)
        tall = HEIGHT - 44
        for k, p in enumerate(heights):
            x, top = left + MARGIN + k * width, HEIGHT - 22 - tall * p
            draw.rectangle([x, top, max(x, x + width - 2), HEIGHT - 22], CHOSEN if k == at else OTHER)
        draw.line([(left + MARGIN, HEIGHT - 21), (left + CHART - MARGIN, HEIGHT - 21)], "black")
        draw.text((left + MARGIN, 4), f"t = {number}", "black")
        draw.text((left + MARGIN, HEIGHT - 18), f"action {_shown(decision, i)}", "black")
    return picture


def bars(P: Sequence[float], chosen: int) -> tuple[list[float], int]:
    """P̂ in at most 32 bars, and which of them has the chosen token.

    >>> bars([0.25, 0.75], 1)
    ([0.25, 0.75], 1)
    >>> heights, at = bars([1 / 64] * 64, 63)
    >>> len(heights), at, sum(heights)
    (32, 31, 1.0)
    """
    count = min(BARS, len(P))
    heights = [0.0] * count
    for i, p in enumerate(P):
        heights[i * count // len(P)] += p
    return heights, chosen * count // len(P)


def _shown(decision: "Decision", i: int) -> str:
    import numpy as np

    values = np.concatenate([np.ravel(each) for each in _leaves(decision.action)])
    return f"{values[i]:g}" if np.issubdtype(values.dtype, np.integer) else f"{values[i]:.2f}"


def _leaves(action: Any) -> list[Any]:
    return [leaf for part in action.values() for leaf in _leaves(part)] if isinstance(action, dict) else [action]


def strip(pictures: Sequence["Picture"], out: Path) -> None:
    """Frames in rows of four, as a PNG."""
    from PIL import Image

    columns = min(4, len(pictures))
    rows = -(-len(pictures) // columns)
    w, h = pictures[0].size
    whole = Image.new("RGB", (columns * w, rows * h), "white")
    for i, each in enumerate(pictures):
        whole.paste(each, (i % columns * w, i // columns * h))
    with atomic_write(out, "wb") as file:
        whole.save(file, "PNG")


def write_moving(pictures: Sequence["Picture"], out: Path) -> None:
    """Frames one after the other, as a GIF."""
    first, *others = [each.quantize(64) for each in pictures]
    with atomic_write(out, "wb") as file:
        first.save(file, "GIF", save_all=True, append_images=others, duration=DURATION, loop=0)
