"""The streams and signals of a command, whatever the shell gave it: closed streams, other encodings, Ctrl-C, the signal to terminate."""

import io
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

STANDARD = (("stdin", "r"), ("stdout", "w"), ("stderr", "w"))
STOPPING = ("SIGTERM", "SIGHUP")  # Windows has no SIGHUP


def open_streams() -> None:
    """Open what the shell closed, so that no file takes its number; and write whatever the encoding lacks as an escape.

    A ValueError if standard output is closed: what a command prints would be lost.
    """
    closed = []
    for number, (name, mode) in enumerate(STANDARD):
        if getattr(sys, name) is None:
            closed.append(name)
            try:
                os.fstat(number)
            except OSError:
                nowhere = os.open(os.devnull, os.O_RDWR)
                if nowhere != number:
                    os.dup2(nowhere, number)
                    os.close(nowhere)
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    if "stdout" in closed:
        raise ValueError("standard output: is closed; expected a terminal, a file or a pipe, /dev/null say")


def abandon_output() -> None:
    """Nothing more can be written to standard output: what is waiting goes nowhere, instead of failing again when Python ends."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
    with suppress(OSError, ValueError):
        sys.stdout.flush()


class Stopped(SystemExit):
    """The signal to terminate: a command ends in order, and removes what is not complete."""


class Signals:
    """Whether Ctrl-C was pressed; a library that is being imported may turn the exception into another."""

    interrupted = False


@contextmanager
def signals() -> Iterator[Signals]:
    """Ctrl-C raises KeyboardInterrupt, the signal to terminate SystemExit with 128 and its number; what the shell ignores stays ignored."""
    state = Signals()

    def interrupt(number: int, frame: FrameType | None) -> None:
        state.interrupted = True
        raise KeyboardInterrupt

    def stop(number: int, frame: FrameType | None) -> None:
        raise Stopped(128 + number)

    handlers = {"SIGINT": interrupt} | dict.fromkeys(STOPPING, stop)
    numbers = {getattr(signal, name): handler for name, handler in handlers.items() if hasattr(signal, name)}
    before = {}
    with suppress(ValueError):  # not in the main thread
        before = {
            number: signal.signal(number, handler) for number, handler in numbers.items() if signal.getsignal(number) != signal.SIG_IGN
        }
    try:
        yield state
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
