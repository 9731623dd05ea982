"""One process at a time trains in a run's folder. The system ends a lock with its process, however that ends, so none is stale."""

import errno
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

LOCK = ".lock"  # in the run's folder, while a process trains: its ID, its host, and when it began
UNSUPPORTED = (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS, errno.EINVAL)  # by some network file systems


@contextmanager
def locked(run: Path) -> Iterator[None]:
    """Keep others out of a folder, which is made if there is none, and removed again if nothing was written to it.

    A ValueError names the process that is there already.
    """
    made = [folder for folder in (run, *run.absolute().parents) if not folder.exists()]
    try:
        run.mkdir(parents=True, exist_ok=True)
    except FileExistsError as error:
        raise ValueError(f"{run}: exists already, and is not a folder; choose another --out") from error
    except OSError as error:
        raise ValueError(f"{run}: cannot be written: {error.strerror}") from error
    try:
        descriptor = _acquired(run)
        try:
            yield
        finally:
            with suppress(OSError):
                (run / LOCK).unlink()  # before others can have it: see `_acquired`
            os.close(descriptor)
    finally:
        for folder in made:
            with suppress(OSError):  # it is not empty
                folder.rmdir()


def _acquired(run: Path) -> int:
    """The descriptor of the lock file, locked."""
    path = run / LOCK
    while True:
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)
        except OSError as error:
            raise ValueError(f"{path}: cannot be written: {error.strerror}") from error
        try:
            _lock(descriptor, run)
            if _is_at(descriptor, path):
                os.truncate(descriptor, 0)
                os.write(descriptor, f"{os.getpid()} {socket.gethostname()} {time.strftime('%Y-%m-%d %H:%M:%S')}\n".encode())
                return descriptor
        except OSError as error:
            os.close(descriptor)
            raise ValueError(f"{path}: cannot be written: {error.strerror}") from error
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # whoever had the lock removed the file in the meantime


def _lock(descriptor: int, run: Path) -> None:
    try:
        import fcntl
    except ImportError:  # a system without it
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise ValueError(f"{run}: {_holder(descriptor)} trains in this folder; wait for it, stop it, or choose another --out") from error
    except OSError as error:
        if error.errno not in UNSUPPORTED:
            raise


def _holder(descriptor: int) -> str:
    """The process that wrote the lock file, in words."""
    words = os.pread(descriptor, 200, 0).decode(errors="replace").split()
    if len(words) != 4 or not words[0].isdigit():
        return "another process"
    process = "this process" if words[:2] == [str(os.getpid()), socket.gethostname()] else f"process {words[0]} on {words[1]}"
    return f"{process} (since {words[2]} {words[3]})"


def _is_at(descriptor: int, path: Path) -> bool:
    """Whether the open file is the one that has this name."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.lstat(path))
    except FileNotFoundError:
        return False
