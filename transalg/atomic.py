"""Atomic writes: a file has all of its new content, or all of its old content, whenever and however the writing ends."""

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Literal, overload

StrPath = str | os.PathLike[str]
SUFFIX = ".part"  # of what is not complete
CHECKPOINTS = ("best.safetensors", "last.safetensors", "best", "last")  # one of these, or its options or metrics: a run's folder


@overload
def atomic_write(path: StrPath, mode: Literal["w"] = "w") -> AbstractContextManager[IO[str]]: ...
@overload
def atomic_write(path: StrPath, mode: Literal["wb"]) -> AbstractContextManager[IO[bytes]]: ...
@contextmanager
def atomic_write(path: StrPath, mode: Literal["w", "wb"] = "w") -> Iterator[IO[Any]]:
    """A file open for writing, UTF-8 or bytes, that becomes `path` when the block ends; see `atomic_path`.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with atomic_write(f"{folder}/a.txt") as file:
    ...         _ = file.write("new")
    ...     Path(folder, "a.txt").read_text()
    'new'
    """
    with atomic_path(path) as temporary, open(temporary, mode, encoding=None if mode == "wb" else "utf-8") as file:
        yield file


@contextmanager
def atomic_path(path: StrPath) -> Iterator[Path]:
    """The path of a new, empty temporary file in the folder of `path`, for a library that wants a name to write to.

    When the block ends, the temporary file is synced to disk and renamed to `path`. On any exception it is removed, and `path` stays as it was.
    An OSError becomes a ValueError, "{path}: cannot be written: {reason}", unless it names another file or is of a pipe or a socket.
    The permissions are those of any new file. A symbolic link stays, and its target is replaced; but a link in the folder of a run, which
    may come from a stranger, is a ValueError. A device or a pipe cannot be replaced: the path is then `path` itself.
    """
    target = Path(path)
    refuse_links_of_runs(target)
    if target.exists() and not (target.is_file() or target.is_dir()):
        with _reported(target, target):
            yield target
        return
    resolved = Path(os.path.realpath(target))
    temporary = temporary_path(resolved)
    with _reported(target, temporary):
        permissions = _create(temporary)
        try:
            yield temporary
            temporary.chmod(permissions)  # a library may have written a file of its own in its place
            sync_to_disk(temporary)
            os.replace(temporary, resolved)
        except BaseException:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
            raise
    with suppress(OSError):  # the file is complete; not every file system can sync a folder
        sync_to_disk(resolved.parent)


def refuse_links_of_runs(path: Path) -> None:
    """A ValueError if a part of a path is a link in the folder of a run: whoever made the run chose what it points to."""
    path = path.absolute()
    for part in (path, *path.parents):
        if part.is_symlink() and any(_is_run(folder) for folder in part.parents):
            raise ValueError(
                f"{part}: is a link in the folder of a run, and nothing is written through it; remove it, or choose another file"
            )


def _is_run(folder: Path) -> bool:
    return any((folder / name).exists() for name in ("config.toml", "metrics.jsonl", *CHECKPOINTS))


def temporary_path(path: Path) -> Path:
    """A name beside `path` that no other writer has; hidden, and short enough for any name of `path`."""
    return path.with_name(f".{path.name[:50]}.{secrets.token_hex(8)}{SUFFIX}")


def discard(path: Path) -> None:
    """Remove a file, a link or a folder, whichever it is; never what a link points to."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink(missing_ok=True)


def sync_to_disk(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on disk and not only in the system's memory."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _create(path: Path) -> int:
    """Make an empty file that did not exist; its permissions, which the system derives from the umask."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        return os.fstat(descriptor).st_mode & 0o777
    finally:
        os.close(descriptor)


@contextmanager
def _reported(target: Path, written: Path) -> Iterator[None]:
    """An OSError about what is written as a ValueError that names the target."""
    try:
        yield
    except OSError as error:
        if isinstance(error, ConnectionError) or error.filename not in (None, os.fspath(written)):
            raise
        raise ValueError(f"{target}: cannot be written: {error.strerror or error}") from error
