"""A command in a forked process with bounds: what it printed, how it ended, which files it changed."""

import ctypes
import hashlib
import io
import os
import resource
import select
import shutil
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

SECONDS = 20  # of the processor's time, at most
PATIENCE = 1.0  # of the same, after which Ctrl-C ends a command that may take as long as it likes
ASLEEP = 25  # looks, a tenth of a second apart, at which a command that hangs has done nothing
MEMORY = 3 * 2**30  # bytes of addresses beyond those of this process
FILE = 2**28  # bytes of the largest file
ROOM = 2**30  # bytes for all files
DAC_OVERRIDE, DAC_READ_SEARCH = 1, 2  # capabilities with which root reads and writes whatever the permissions say

Snapshot = dict[str, str]


@dataclass(frozen=True)
class Outcome:
    """What a command did. A negative status is a signal's."""

    status: int
    out: str
    err: str
    before: Snapshot
    after: Snapshot
    hangs: bool


def snapshot(*folders: Path) -> Snapshot:
    """Every file below the folders: its kind, and the hash of its bytes or where it points to."""
    found: Snapshot = {}
    for folder in folders:
        for top, names, files in os.walk(folder):
            for name in names + files:
                path = Path(top, name)
                found[f"{folder.name}/{path.relative_to(folder)}"] = _state(path)
    return found


def _state(path: Path) -> str:
    if path.is_symlink():
        return f"link to {os.readlink(path)}"
    if path.is_dir():
        return "folder"
    if not path.is_file():
        return "special"
    return hashlib.blake2b(path.read_bytes(), digest_size=8).hexdigest()


def run(
    arguments: Sequence[str],
    work: Path,
    canary: Path,
    *,
    damage: Callable[[Path], None],
    surroundings: Callable[[], None] | None = None,
    interrupted: bool = False,
) -> Outcome:
    """`transalg` with these arguments in the folder `work`, once that is damaged. Nothing of it stays in this process."""
    damage(work)
    before = snapshot(work, canary)
    pipes = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        _become_transalg(arguments, work, [pipe[1] for pipe in pipes], surroundings)
    for pipe in pipes:
        os.close(pipe[1])
    texts, hangs = _drain([pipe[0] for pipe in pipes], child, interrupted)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    _allow(work)
    out, err = (text.decode("utf-8", "backslashreplace") for text in texts)
    return Outcome(status, out, err, before, snapshot(work, canary), hangs)


def _become_transalg(arguments: Sequence[str], work: Path, ends: list[int], surroundings: Callable[[], None] | None) -> None:
    """As a new interpreter would: this process never returns."""
    status = 70
    try:
        os.setsid()
        empty = os.open(os.devnull, os.O_RDONLY)
        for descriptor, end in enumerate((empty, *ends)):
            os.dup2(end, descriptor)
        sys.stdin, sys.stdout, sys.stderr = (os.fdopen(number, mode, encoding="utf-8") for number, mode in ((0, "r"), (1, "w"), (2, "w")))
        os.chdir(work)
        os.environ |= {"COLUMNS": "80", "PWD": str(work)}
        signal.signal(signal.SIGINT, signal.default_int_handler)
        _forbid()
        if surroundings is not None:
            surroundings()
        sys.argv = ["transalg", *arguments]
        from transalg.cli import main

        try:
            main()
            status = 0
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
        except BaseException:
            status = 1
            traceback.print_exc()
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                try:
                    stream.flush()
                except (OSError, ValueError):
                    status = 120 if stream is sys.stdout and status == 0 else status  # as the interpreter's own exit status
    finally:
        os._exit(status)


def _forbid() -> None:
    """Bounds of memory and of files; and the permissions of files hold for root too."""
    with open("/proc/self/statm") as file:
        addresses = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (addresses + MEMORY,) * 2)
    resource.setrlimit(resource.RLIMIT_FSIZE, (FILE, resource.RLIM_INFINITY))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 5))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if os.geteuid() == 0:
        header = (ctypes.c_uint32 * 2)(0x20080522, 0)  # version 3, this process
        data = (ctypes.c_uint32 * 6)()
        libc = ctypes.CDLL(None)
        libc.capget(header, data)
        for i in range(3):
            data[i] &= ~(1 << DAC_OVERRIDE | 1 << DAC_READ_SEARCH)
        libc.capset(header, data)


def _drain(ends: list[int], child: int, interrupted: bool) -> tuple[list[bytes], bool]:
    """All that the child writes; and whether it slept until it was killed. Ctrl-C comes first, if it may take as long as it likes."""
    texts = dict.fromkeys(ends, b"")
    open_ends, stopped, hangs, idle, before = set(ends), False, False, 0, -1.0
    while open_ends:
        ready = select.select(list(open_ends), [], [], 0.1)[0]
        for end in ready:
            piece = os.read(end, 2**20)
            texts[end] += piece[: max(0, 2**24 - len(texts[end]))]
            if not piece:
                open_ends.remove(end)
        state, used = _activity(child)
        idle = idle + 1 if state == "S" and used == before and not ready else 0
        before = used
        if interrupted and not stopped and (used > PATIENCE or idle > ASLEEP // 2):
            stopped = True
            _signal(child, signal.SIGINT)
        if idle > ASLEEP:
            hangs = True
            _signal(child, signal.SIGKILL)
            break
    for end in ends:
        os.close(end)
    return list(texts.values()), hangs


def _activity(child: int) -> tuple[str, float]:
    """Whether a process sleeps (S), and the seconds of the processor that it used."""
    with open(f"/proc/{child}/stat") as file:
        values = file.read().rpartition(")")[2].split()
    return values[0], (int(values[11]) + int(values[12])) / os.sysconf("SC_CLK_TCK")


def _signal(child: int, which: int) -> None:
    for send in (os.killpg, os.kill):
        try:
            send(child, which)
            return
        except ProcessLookupError:
            continue


def new_folder(prefix: str) -> Path:
    """A temporary folder, in memory where there is room: thousands of files are synced to disk in it."""
    memory = Path("/dev/shm")
    roomy = memory.is_dir() and os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > ROOM
    return Path(tempfile.mkdtemp(prefix=prefix, dir=memory if roomy else None))


def restore(original: Path, work: Path) -> None:
    """The folder `work` as it was made, whatever became of it."""
    _allow(work)
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(original, work, symlinks=True)


def _allow(work: Path) -> None:
    """Permissions to look again at all that is there."""
    for top, names, _ in os.walk(work):
        for name in names:
            path = Path(top, name)
            if not path.is_symlink():
                path.chmod(0o755)
    if work.is_dir():
        work.chmod(0o755)


def quiet_stream(encoding: str) -> io.TextIOWrapper:
    """Standard output with another encoding, as the interpreter opens it."""
    return io.TextIOWrapper(os.fdopen(os.dup(1), "wb", 0), encoding=encoding, write_through=True)
