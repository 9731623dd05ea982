"""What a run tells whoever watches it. This one is silent; the command line has others."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


class Report:
    """A run calls these as it goes."""

    def note(self, text: str) -> None:
        """Something worth a line."""

    @contextmanager
    def work(self, name: str, total: int, *, least: int = 1) -> Iterator[Callable[[int], object]]:
        """Work that takes a while, if there is at least so much of it; the function hears how much more is done."""
        yield lambda _: None

    def begin(self, done: int, steps: int) -> None:
        """Training goes from here to there."""

    def step(self, step: int, loss: float, tokens_per_second: float) -> None:
        """A step is done."""

    def validation(self, step: int, figures: dict[str, Any], best: bool) -> None:
        """So good is it now."""

    def end(self) -> None:
        """No more steps, for whatever reason."""
