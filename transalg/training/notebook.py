"""The progress of a run in a notebook: a bar, a line for every validation, and the curves, in one output that is redrawn."""

import base64
import io
import sys
import time
from html import escape
from pathlib import Path
from typing import Any

from transalg.runs.swap import place_of
from transalg.training.curves import curves, read_metrics
from transalg.training.report import Report
from transalg.training.watch import shown_figures

SECONDS = 0.3  # between two pictures of the bar, at least


def in_notebook() -> bool:
    """Whether this is the kernel of a notebook, which shows HTML."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return hasattr(shell, "kernel")


class Notebook(Report):
    """Draws the progress of the run in a folder into the output of the cell."""

    def __init__(self, run: Path, display: Any = None) -> None:
        self.run, self.display = run, display or _ipython_display()
        self.lines: list[str] = []
        self.done, self.steps, self.loss, self.drawn = 0, 0, None, 0.0
        self.picture = ""

    done: int
    steps: int
    loss: float | None
    drawn: float

    def note(self, text: str) -> None:
        self.lines.append(text)
        self._draw()

    def begin(self, done: int, steps: int) -> None:
        self.done, self.steps = done, steps
        self._draw()

    def step(self, step: int, loss: float, tokens_per_second: float) -> None:
        self.done, self.loss = step, loss if self.loss is None else 0.9 * self.loss + 0.1 * loss
        if time.monotonic() - self.drawn >= SECONDS:
            self._draw()

    def validation(self, step: int, figures: dict[str, float], best: bool) -> None:
        self.lines.append(f"step {step:>6,}  {shown_figures(figures)}{'  best' if best else ''}")
        self._draw_curves()
        self._draw()

    def measured(self, step: int, figures: dict[str, float]) -> None:
        self.lines.append(f"step {step:>6,}  {shown_figures(figures)}  on all {figures['val_rows']:,} rows")
        self._draw()

    def end(self) -> None:
        self._draw_curves()
        self._draw()

    def html(self) -> str:
        """What the cell shows now."""
        loss = "" if self.loss is None else f", loss {self.loss:.3f}"
        bar = (
            f'<progress value="{self.done}" max="{self.steps}"></progress> {self.done:,} of {self.steps:,} steps{loss}'
            if self.steps
            else ""
        )
        return f"<pre>{escape(chr(10).join(self.lines))}</pre>{bar}{self.picture}"

    def _draw(self) -> None:
        self.drawn = time.monotonic()
        self.display(self.html())

    def _draw_curves(self) -> None:
        try:
            metrics = read_metrics(place_of(self.run))
        except ValueError:  # no line yet
            return
        file = io.BytesIO()
        curves({str(self.run): metrics}).savefig(file, format="png", dpi=80)
        self.picture = f'<br><img src="data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}">'


def _ipython_display() -> Any:
    """A function that shows HTML in the place of what it showed before."""
    from IPython.display import HTML, display  # type: ignore[import-not-found]

    handle = display(HTML(""), display_id=True)
    return lambda html: handle.update(HTML(html))
