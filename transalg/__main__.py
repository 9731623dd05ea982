"""`python -m transalg` is the command `transalg`. Nothing is imported before Ctrl-C has an answer."""

import os
import signal
from types import FrameType


def main() -> None:
    """The command."""
    if signal.getsignal(signal.SIGINT) != signal.SIG_IGN:
        signal.signal(signal.SIGINT, _stop)

    from transalg.cli import main as command

    if signal.getsignal(signal.SIGINT) == _stop:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    command()


def _stop(number: int, frame: FrameType | None) -> None:
    """While Python imports, an exception would be lost in a library or become another; and nothing has begun."""
    os.write(2, b"\nInterrupted\n")
    os._exit(130)


if __name__ == "__main__":
    main()
