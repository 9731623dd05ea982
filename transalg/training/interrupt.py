"""Ctrl-C: a run stops after the step it is at, not in the middle of it."""

import signal
import threading
from collections.abc import Callable
from types import FrameType

Handler = Callable[[int, FrameType | None], object] | int | None


class Interrupt:
    """While this is on, Ctrl-C and the signal to terminate request a stop after the current step; a second Ctrl-C stops at once."""

    def __init__(self) -> None:
        self.stop_requested = False
        self.previous: dict[signal.Signals, Handler] = {}

    def __enter__(self) -> "Interrupt":
        if threading.current_thread() is threading.main_thread():
            self.previous = {number: signal.signal(number, self._request_stop) for number in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """From now on they do what they did before."""
        for number, handler in self.previous.items():
            signal.signal(number, handler)
        self.previous = {}

    def _request_stop(self, number: int, frame: FrameType | None) -> None:
        if self.stop_requested and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.stop_requested = True
