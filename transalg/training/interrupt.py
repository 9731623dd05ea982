"""Ctrl-C: a run stops behind the step it is at, not in the middle of it."""

import signal
import threading
from types import FrameType
from typing import Any


class Interrupt:
    """While this is on, Ctrl-C and the signal to terminate ask the run to stop behind its step; a second Ctrl-C stops it at once."""

    def __init__(self) -> None:
        self.asked = False
        self.before: dict[int, Any] = {}

    def __enter__(self) -> "Interrupt":
        if threading.current_thread() is threading.main_thread():
            self.before = {one: signal.signal(one, self._ask) for one in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *_: object) -> None:
        for one, handler in self.before.items():
            signal.signal(one, handler)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if self.asked and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.asked = True
