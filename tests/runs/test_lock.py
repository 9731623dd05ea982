"""One process at a time trains in a folder; a lock ends with its process."""

import os
import signal
import socket
from pathlib import Path

import pytest

from tests.runs.damage import contents, copied
from transalg.runs.lock import LOCK, locked
from transalg.training.start import train


def test_a_second_one_is_refused_by_name_and_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run = copied(tmp_path)
    with locked(run):
        before = contents(run)
        for resume in (True, False):
            with pytest.raises(ValueError, match=r"lm: this process \(since 20\d\d-.*\) trains in this folder; wait for it, stop it, or"):
                train(None, run, resume=resume, overwrite=not resume)
        assert contents(run) == before and before[LOCK].startswith(f"{os.getpid()} {socket.gethostname()} ".encode())
    assert not (run / LOCK).exists()


def child(run: Path, *, ready: int, go: int) -> int:
    """A process that has the lock until it is killed."""
    process = os.fork()
    if not process:
        with locked(run):
            os.write(ready, b".")
            os.read(go, 1)
        os._exit(0)
    return process


def test_another_process_is_named_and_a_killed_one_leaves_no_lock(tmp_path: Path) -> None:
    run = tmp_path / "run"
    (is_ready, ready), (go, _) = os.pipe(), os.pipe()
    process = child(run, ready=ready, go=go)
    try:
        os.read(is_ready, 1)
        with pytest.raises(ValueError, match=f"run: process {process} on {socket.gethostname()} "), locked(run):
            pass
    finally:
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
    assert (run / LOCK).exists()  # its file is left, and means nothing
    with locked(run):
        assert (run / LOCK).read_text().split()[0] == str(os.getpid())
    assert not (run / LOCK).exists()


def test_a_folder_to_which_nothing_was_written_is_gone(tmp_path: Path) -> None:
    with pytest.raises(KeyError), locked(tmp_path / "a" / "b"):
        raise KeyError
    assert not os.listdir(tmp_path)
    with locked(tmp_path / "a"):
        (tmp_path / "a" / "file").touch()
    assert os.listdir(tmp_path / "a") == ["file"]


def test_a_lock_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / LOCK).symlink_to(victim)
    with pytest.raises(ValueError, match=r"\.lock: cannot be written"), locked(tmp_path / "run"):
        pass
    assert victim.read_text() == "mine"


def test_a_file_that_lost_its_name_is_no_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between opening the file and locking it, its owner may remove it: the next one would lock a file that nobody else finds."""
    from transalg.runs import lock

    times = iter(range(9))

    def removed_once(descriptor: int, run: Path) -> None:
        if next(times) == 0:
            (run / LOCK).unlink()

    monkeypatch.setattr(lock, "_lock", removed_once)
    with locked(tmp_path):
        assert (tmp_path / LOCK).read_text().split()[0] == str(os.getpid())
    assert next(times) == 2
