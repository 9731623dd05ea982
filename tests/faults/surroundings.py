"""What is around a process: its streams, its terminal, its folder, its disk, its memory, its signals."""

import os
import resource
import signal
import sys
import tempfile
from collections.abc import Callable
from functools import partial

from tests.faults.sandbox import quiet_stream

COMMANDS = (
    "--help", "train --help", "presets", "presets gpt2 --json", "errata", "algorithm 10", "trace 10 --text ab", "trace 1 --text ab --json",
    "generate run --prompt a --ell-gen 3 --seed 0", "score run --text 'a cat' --json", "evaluate run", "plot run --out out.png",
    "train --resume --out run --train.steps 5", "tokenizer encode run --text 'a cat'", "export run --format huggingface --out out",
    "clean lines.txt --documents line --out out.txt", "verify run", "embed run --text a --out out.npy", "trace 10 --text ab --html out.html",
)  # fmt: skip


def _encoding(name: str) -> None:
    sys.stdout = quiet_stream(name)


def _closed(number: int) -> None:
    os.close(number)
    setattr(sys, ("stdin", "stdout", "stderr")[number], None)


def _full() -> None:
    os.dup2(os.open("/dev/full", os.O_WRONLY), 1)


def _no_reader() -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    os.dup2(write_end, 1)


def _columns(value: str) -> None:
    os.environ["COLUMNS"] = value


def _no_folder() -> None:
    folder = tempfile.mkdtemp()
    os.chdir(folder)
    os.rmdir(folder)


def _disk(size: int) -> None:
    """Files may not grow beyond this size, as on a full disk."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def _memory(size: int) -> None:
    with open("/proc/self/statm") as file:
        addresses = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (addresses + size,) * 2)


def _soon(which: int, seconds: float) -> None:
    """A signal to this process after some time."""
    signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), which))
    signal.setitimer(signal.ITIMER_REAL, seconds)


SURROUNDINGS: dict[str, Callable[[], None]] = {
    "output in ASCII": partial(_encoding, "ascii"),
    "output in latin-1": partial(_encoding, "latin-1"),
    "standard input closed": partial(_closed, 0),
    "standard output closed": partial(_closed, 1),
    "output to a full device": _full,
    "output that nobody reads": _no_reader,
    **{f"COLUMNS={value!r}": partial(_columns, value) for value in ("0", "1", "7", "20", "-3", "x", "100000")},
    "folder deleted": _no_folder,
    **{f"files of at most {size} bytes": partial(_disk, size) for size in (0, 50, 3000)},
    **{f"{size} MB more memory": partial(_memory, size * 2**20) for size in (1, 30)},
    **{f"Ctrl-C after {seconds} s": partial(_soon, signal.SIGINT, seconds) for seconds in (0.001, 0.01, 0.03, 0.1)},
    "no TERM": lambda: os.environ.pop("TERM", None) and None,
    "no HOME": lambda: os.environ.pop("HOME", None) and None,
}
SILENT = ("standard output closed", "output to a full device", "output that nobody reads")  # nobody sees the answer
INTERRUPTED = tuple(name for name in SURROUNDINGS if name.startswith("Ctrl-C"))
BEGUN = ("work/run/config.toml", "work/run/metrics.jsonl")  # a run that went on for some steps has changed these
