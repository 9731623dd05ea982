"""Atomic writes: the new content or the old one, never a part, whatever goes wrong."""

import errno
import os
import re
import stat
import threading
from pathlib import Path

import pytest

from transalg import atomic
from transalg.atomic import atomic_path, atomic_write


@pytest.fixture
def target(tmp_path: Path) -> Path:
    """A file that exists, in a folder of its own."""
    path = tmp_path / "a.txt"
    path.write_text("old")
    return path


def alone(path: Path) -> bool:
    """Nothing temporary is left beside the file."""
    return os.listdir(path.parent) == [path.name]


def test_text_and_bytes(target: Path) -> None:
    with atomic_write(target) as text:
        text.write("größer\n")
        assert target.read_text() == "old"
    assert target.read_bytes() == "größer\n".encode() and alone(target)
    with atomic_write(str(target), "wb") as data:
        data.write(b"\xff\r\n")
    assert target.read_bytes() == b"\xff\r\n" and alone(target)


def test_a_file_that_did_not_exist(tmp_path: Path) -> None:
    long = tmp_path / ("ü" * 127)  # 254 bytes of the 255 a name may have
    with atomic_write(long) as file:
        file.write("new")
    assert long.read_text() == "new" and alone(long)


@pytest.mark.parametrize("exception", [ValueError("bad"), KeyboardInterrupt(), GeneratorExit()])
def test_an_exception_in_the_block_leaves_the_old_file(target: Path, exception: BaseException) -> None:
    with pytest.raises(type(exception)) as caught:
        write_and(target, exception)
    assert caught.value is exception and target.read_text() == "old" and alone(target)


def write_and(path: Path, exception: BaseException) -> None:
    with atomic_write(path) as file:
        file.write("new")
        file.flush()
        raise exception


def test_an_exception_leaves_no_file_where_there_was_none(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), atomic_write(tmp_path / "a.txt"):
        raise RuntimeError
    assert not os.listdir(tmp_path)


def full(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_full_disk_leaves_the_old_file(target: Path, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    monkeypatch.setattr(atomic.os, call, full)
    with (
        pytest.raises(ValueError, match=f"^{re.escape(str(target))}: cannot be written: No space left on device$"),
        atomic_write(target) as file,
    ):
        file.write("new")
    assert target.read_text() == "old" and alone(target)


def test_a_disk_that_is_full_while_writing(target: Path) -> None:
    with pytest.raises(ValueError, match="cannot be written: No space left on device"):
        write_and(target, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
    assert target.read_text() == "old" and alone(target)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_device_is_written_in_place() -> None:
    with atomic_write("/dev/null") as file:
        file.write("new")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    with pytest.raises(ValueError, match="/dev/full: cannot be written: No space left on device"), atomic_write("/dev/full") as file:
        file.write("new")


def test_the_data_is_on_disk_before_the_name_and_the_name_before_the_end(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[str] = []
    sync, replace = os.fsync, os.replace

    def record_sync(descriptor: int) -> None:
        events.append("folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else f"file of {os.fstat(descriptor).st_size}")
        sync(descriptor)

    def record_replace(source: Path, destination: Path) -> None:
        events.append("rename")
        replace(source, destination)

    monkeypatch.setattr(atomic.os, "fsync", record_sync)
    monkeypatch.setattr(atomic.os, "replace", record_replace)
    with atomic_write(target) as file:
        file.write("new")
    assert events == ["file of 3", "rename", "folder"]


def test_a_folder_that_cannot_be_synced_is_no_failure(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sync = os.fsync
    monkeypatch.setattr(atomic.os, "fsync", lambda fd: full() if stat.S_ISDIR(os.fstat(fd).st_mode) else sync(fd))
    with atomic_write(target) as file:
        file.write("new")
    assert target.read_text() == "new" and alone(target)


@pytest.mark.parametrize(("mask", "permissions"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_permissions_are_those_of_any_new_file(target: Path, mask: int, permissions: int) -> None:
    before = os.umask(mask)
    try:
        with atomic_write(target) as file:
            file.write("new")
        with atomic_path(target.with_name("b")) as temporary:
            temporary.unlink()
            temporary.touch(0o400)  # as a library does that replaces the file by one of its own
    finally:
        os.umask(before)
    assert [stat.S_IMODE(path.stat().st_mode) for path in (target, target.with_name("b"))] == [permissions, permissions]


def test_a_library_that_wants_a_name(target: Path) -> None:
    with atomic_path(target) as temporary:
        assert temporary.parent == target.parent and temporary.name.startswith(".a.txt.") and temporary.read_bytes() == b""
        temporary.write_text("new")
        assert target.read_text() == "old"
    assert target.read_text() == "new" and alone(target)


def test_a_library_that_fails(target: Path) -> None:
    with pytest.raises(ValueError, match=r"a\.txt: cannot be written: No such file or directory"), atomic_path(target) as temporary:
        temporary.unlink()  # and writes nothing
    assert target.read_text() == "old" and alone(target)


def test_writers_of_one_path_do_not_clash(target: Path) -> None:
    """Each has a temporary file of its own; one of them comes last, and its content is complete."""
    writers, together = 8, threading.Barrier(8)

    def write(letter: str) -> None:
        with atomic_write(target) as file:
            file.write(letter * 50_000)
            together.wait()
            file.write(letter * 50_000)
            together.wait()

    threads = [threading.Thread(target=write, args=(chr(ord("a") + i),)) for i in range(writers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    content = target.read_text()
    assert len(content) == 100_000 and len(set(content)) == 1 and alone(target)


def test_a_symbolic_link_stays_one(target: Path, tmp_path: Path) -> None:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    link = folder / "link"
    link.symlink_to(target)
    with atomic_write(link) as file:
        file.write("new")
    assert link.is_symlink() and target.read_text() == "new" and os.listdir(folder) == ["link"]


def test_places_that_cannot_be_written(tmp_path: Path) -> None:
    for path, reason in (
        (tmp_path / "none" / "a.txt", "No such file or directory"),
        (tmp_path, "Is a directory"),
        (tmp_path / "x" / "a.txt", "Not a directory"),
    ):
        (tmp_path / "x").write_text("a file")
        with pytest.raises(ValueError, match=f"^{re.escape(str(path))}: cannot be written: {reason}$"), atomic_write(path) as file:
            file.write("new")
    assert os.listdir(tmp_path) == ["x"]


def test_errors_of_other_files_and_of_pipes_are_not_taken_for_ours(target: Path) -> None:
    with pytest.raises(FileNotFoundError), atomic_write(target):
        target.with_name("input").read_text()
    with pytest.raises(BrokenPipeError), atomic_write(target):
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))
    assert target.read_text() == "old" and alone(target)
