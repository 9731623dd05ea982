"""Damage to files as a whole: missing, exchanged, replaced by folders, links, pipes and devices, without permissions; links planted."""

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ELSEWHERE = "elsewhere"  # where a file of the folder may really lie
CANARY = "../canary/file"  # outside the folder: nobody may touch it


@dataclass(frozen=True)
class Placed:
    """A change of what lies under a name."""

    file: str
    act: str
    other: str = ""

    def __str__(self) -> str:
        return f"{self.file}: {self.act}{f' {self.other}' if self.other else ''}"

    def __call__(self, work: Path) -> None:
        _ACTS[self.act](work / self.file, work / self.other if self.other else work)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _linked(target: str) -> Callable[[Path, Path], None]:
    """A link in its place."""

    def act(path: Path, work: Path) -> None:
        _remove(path)
        os.symlink(os.path.relpath(work / target, path.parent) if target.startswith("..") else target, path)

    return act


def _exchange(path: Path, other: Path) -> None:
    between = path.with_name("between")
    path.rename(between)
    other.rename(path)
    between.rename(other)


def _copy(path: Path, other: Path) -> None:
    _remove(path)
    shutil.copy(other, path)


def _moved(path: Path, work: Path) -> None:
    """The file lies elsewhere, under a link to it; as people arrange large files."""
    real = work / ELSEWHERE
    path.rename(real)
    path.symlink_to(real)


def _folder(path: Path, _: Path) -> None:
    _remove(path)
    path.mkdir()


def _pipe(path: Path, _: Path) -> None:
    _remove(path)
    os.mkfifo(path)


def _planted(path: Path, work: Path) -> None:
    """A link to the canary under a name that a writer might take for its temporary file."""
    for name in (f".{path.name}.part", f"{path.name}.part", f".{path.name}.tmp", f"{path.name}.tmp", ".lock", f".{path.stem}.old"):
        (path.parent / name).symlink_to(os.path.relpath(work / CANARY, path.parent))


def _mode(mode: int) -> Callable[[Path, Path], None]:
    return lambda path, _: path.chmod(mode)


_ACTS: dict[str, Callable[[Path, Path], None]] = {
    "missing": lambda path, _: _remove(path),
    "exchange with": _exchange,
    "copy of": _copy,
    "link to the canary": _linked(CANARY),
    "link to nothing": _linked("nowhere"),
    "link to itself": lambda path, _: _linked(path.name)(path, path),
    "link to /dev/zero": _linked("/dev/zero"),
    "link to /dev/null": _linked("/dev/null"),
    "link elsewhere": _moved,
    "folder": _folder,
    "pipe": _pipe,
    "links planted": _planted,
    "may not be read": _mode(0o000),
    "may not be written": _mode(0o400),
    "folder may not be written": lambda path, _: path.parent.chmod(0o500),
    "folder may not be listed": lambda path, _: path.parent.chmod(0o300),
    "folder may not be entered": lambda path, _: path.parent.chmod(0o000),
}
ALONE = tuple(act for act in _ACTS if act not in ("exchange with", "copy of"))


def changes(file: str, others: Sequence[str] = ()) -> Iterator[Placed]:
    """Every change of one file, and exchanges with the others."""
    for act in ALONE:
        yield Placed(file, act)
    for other in others:
        if other != file:
            yield Placed(file, "exchange with", other)
            yield Placed(file, "copy of", other)


def unchanged(work: Path) -> None:
    """No damage to the folder: what is wrong is in the options or around the process."""
