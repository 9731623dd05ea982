"""The progress of a run: a bar on a terminal, and a line for every validation."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.text import Text

from transalg.terminal import shown
from transalg.training.report import Report


class Watch(Report):
    """Prints to a console; on a terminal its last line is a progress bar."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.progress: Progress | None = None
        self.bar: TaskID | None = None
        self.loss: float | None = None
        self.speed: float | None = None

    def __enter__(self) -> "Watch":
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def _print(self, text: str | Text) -> None:
        """A line. If who reads the output has left, training goes on without: it is the model that is wanted."""
        try:
            self.console.print(text)
        except BrokenPipeError:
            self.console.quiet = True

    def note(self, text: str) -> None:
        self._print(text)

    @contextmanager
    def work(self, name: str, total: int, *, least: int = 1) -> Iterator[Callable[[int], object]]:
        if not self.console.is_terminal or total < least:
            yield lambda _: None
            return
        columns = TextColumn("{task.description}", markup=False), BarColumn(), TextColumn("{task.percentage:.0f} %"), TimeRemainingColumn()
        with Progress(*columns, console=self.console, transient=True) as progress:
            bar = progress.add_task(shown(name), total=total)
            yield lambda done: progress.advance(bar, done)

    def begin(self, done: int, steps: int) -> None:
        self.loss = self.speed = None
        if not self.console.is_terminal:
            return
        columns = (
            BarColumn(None),
            MofNCompleteColumn(),
            TextColumn("{task.description}", markup=False),
            TextColumn("left"),
            TimeRemainingColumn(compact=True),
        )
        self.progress = Progress(*columns, console=self.console, expand=True, transient=True)
        self.bar = self.progress.add_task("", total=steps, completed=done)
        self.progress.start()

    def step(self, step: int, loss: float, tokens_per_second: float) -> None:
        self.loss = loss if self.loss is None else 0.9 * self.loss + 0.1 * loss
        self.speed = tokens_per_second if self.speed is None else 0.9 * self.speed + 0.1 * tokens_per_second
        if self.progress is not None and self.bar is not None:
            self.progress.update(self.bar, completed=step, description=f"loss {self.loss:.3f}  {self.speed:,.0f} tokens/s")

    def validation(self, step: int, figures: dict[str, Any], best: bool) -> None:
        columns = [f"step {step:>6,}", f"loss {self.loss:.4f}"] if self.loss is not None else [f"step {step:>6,}"]
        columns.append(shown_figures(figures))
        if self.speed is not None:
            columns.append(f"{self.speed:,.0f} tok/s")
        self._print(Text.assemble("  ".join(columns), ("  best", "green") if best else ""))
        for line in shown_losses(figures, self.console.width - 13):
            self._print(f"{'':>12} {line}")

    def measured(self, step: int, figures: dict[str, float]) -> None:
        self._print(f"step {step:>6,}  {shown_figures(figures)}  on {figures['val_rows']:,} rows")

    def end(self) -> None:
        if self.progress is not None:
            self.progress.stop()
            self.progress = None


OF_A_SET = "val_accuracy_"  # how the accuracy of one of several data sets is called, its name after it
OF_A_TASK = "val_loss_"  # and so its loss
SHOWN = {"val_loss": "validation {:.4f}", "val_accuracy": "accuracy {:.1%}", "val_exact_match": "exact {:.1%}", "val_bleu": "BLEU {:.1f}"}


def shown_figures(figures: Mapping[str, float]) -> str:
    """The figures of a validation, in a line."""
    return "  ".join(text.format(figures[name]) for name, text in SHOWN.items() if name in figures)


def shown_sets(figures: Mapping[str, float]) -> str:
    """The accuracy of every data set, where there are several."""
    sets = {name.removeprefix(OF_A_SET): value for name, value in figures.items() if name.startswith(OF_A_SET)}
    return "  ".join(f"{name} {value:.1%}" for name, value in sets.items())


def shown_losses(figures: Mapping[str, float], width: int) -> list[str]:
    """The loss of every task, where one model learns several, in lines of this width."""
    lines = list[str]()
    for name, value in figures.items():
        if name.startswith(OF_A_TASK):
            shown = f"{name.removeprefix(OF_A_TASK)} {value:.4f}"
            if lines and cell_len(f"{lines[-1]}  {shown}") <= width:
                lines[-1] += f"  {shown}"
            else:
                lines.append(shown)
    return lines
