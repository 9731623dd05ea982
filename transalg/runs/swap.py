"""A new run takes the place of an old one in the same folder, when it has a checkpoint and not before. A kill at any moment leaves one of them.

RUN/.new is the new run until then. Renaming it to RUN/.ready decides: from there on the old files go (RUN/.ready), and the new ones come
(RUN/.moving). `settle` does what a kill left undone.
"""

import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from transalg.atomic import discard, sync_to_disk
from transalg.runs import folder as run_folder
from transalg.runs.texts import TEXTS

NEW, (READY, MOVING) = ".new", run_folder.UNSETTLED
LAUNCH = ".launch"  # the file that tells which torchrun started a run
CHECKPOINTS = tuple(
    name
    for checkpoint in (run_folder.BEST, run_folder.LAST)
    for name in (run_folder.checkpoint_file(Path(), checkpoint).name, checkpoint, f".{checkpoint}.old")
)
FILES = (run_folder.CONFIG, run_folder.TOKENIZER, run_folder.METRICS, *CHECKPOINTS, run_folder.TENSORBOARD, TEXTS, LAUNCH)


def place_of(run: Path) -> Path:
    """Where the run that is being trained in this folder has its files."""
    return run / NEW if (run / NEW).is_dir() else run


def begin(run: Path, used: Iterable[str]) -> Path:
    """A folder for the new run. Texts of the old one that are its data too are kept for it."""
    discard(run / NEW)
    (run / NEW).mkdir()
    texts = (run / TEXTS).resolve()
    for path in (Path(name).resolve() for name in used):
        if path.is_file() and texts in path.parents:
            copy = run / NEW / TEXTS / path.relative_to(texts)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy)
    return run / NEW


def complete(run: Path) -> None:
    """The new run becomes the one in the folder."""
    (run / NEW).rename(run / READY)
    sync_to_disk(run)
    settle(run)


def settle(run: Path) -> None:
    """Complete what was decided, and remove what was not."""
    for name in (NEW, READY, MOVING):
        if name == NEW or (run / name).is_symlink():
            discard(run / name)
    if (run / READY).is_dir():
        for name in FILES:
            discard(run / name)
        (run / READY).rename(run / MOVING)
    if (run / MOVING).is_dir():
        for name in FILES:
            if os.path.lexists(run / MOVING / name):
                discard(run / name)
                (run / MOVING / name).rename(run / name)
        sync_to_disk(run)
        discard(run / MOVING)


def require_no_links(run: Path) -> None:
    """A ValueError if a file that training writes is a link, whose target it would write, or a pipe, or a device."""
    for path in [run / name for name in FILES] + list((run / TEXTS).rglob("*")):
        if path.is_symlink():
            raise ValueError(f"{path}: is a link, and a run is not written through links; remove it, or copy its target to its place")
        if path.exists() and not (path.is_file() or path.is_dir()):
            raise ValueError(f"{path}: expected a file or a folder, got a pipe or a device; remove it")
