"""Progress of a run. This report is silent; the command line prints."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from transalg.data.files import Progress, no_progress


class Report:
    """A run calls these methods as it advances."""

    def note(self, text: str) -> None:
        """A line of text."""

    @contextmanager
    def work(self, name: str, total: int, *, least: int = 1) -> Iterator[Progress]:
        """A progress bar, if there is at least `least` to do; call the function with the amount that has been done since."""
        yield no_progress

    def begin(self, done: int, steps: int) -> None:
        """Training starts with `done` of its steps done."""

    def step(self, step: int, loss: float, tokens_per_second: float) -> None:
        """A step is done."""

    def validation(self, step: int, figures: dict[str, float], best: bool) -> None:
        """The figures of a validation; whether they are the best so far."""

    def measured(self, step: int, figures: dict[str, float]) -> None:
        """The figures of the best model, of this step, on more rows of the validation set than before; on all, if there is time."""

    def end(self) -> None:
        """Training ends, for any reason."""


OnStep = Callable[[int, float, float], object]  # step, loss, tokens per second
OnValidation = Callable[[int, dict[str, float], bool], object]  # step, figures, whether they are the best so far


@dataclass(frozen=True)
class Calling(Report):
    """Another report, and functions that are called after each step and each validation."""

    report: Report
    on_step: OnStep | None = None
    on_validation: OnValidation | None = None

    def note(self, text: str) -> None:
        self.report.note(text)

    @contextmanager
    def work(self, name: str, total: int, *, least: int = 1) -> Iterator[Progress]:
        with self.report.work(name, total, least=least) as progress:
            yield progress

    def begin(self, done: int, steps: int) -> None:
        self.report.begin(done, steps)

    def step(self, step: int, loss: float, tokens_per_second: float) -> None:
        self.report.step(step, loss, tokens_per_second)
        if self.on_step is not None:
            self.on_step(step, loss, tokens_per_second)

    def validation(self, step: int, figures: dict[str, float], best: bool) -> None:
        self.report.validation(step, figures, best)
        if self.on_validation is not None:
            self.on_validation(step, dict(figures), best)

    def measured(self, step: int, figures: dict[str, float]) -> None:
        self.report.measured(step, figures)

    def end(self) -> None:
        self.report.end()
