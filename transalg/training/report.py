"""Progress of a run. This report is silent; the command line prints."""

from collections.abc import Iterator
from contextlib import contextmanager

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
        """The figures of the best model, of this step, on all rows of the validation set."""

    def end(self) -> None:
        """Training ends, for any reason."""
