"""A run's folder from a stranger: no link in it is followed when something is written."""

import os
from pathlib import Path
from typing import Any

import pytest

from tests.runs.damage import contents, copied
from transalg.atomic import atomic_write
from transalg.runs import checkpoints
from transalg.training.metrics import Metrics
from transalg.training.start import train

WRITTEN = ["config.toml", "tokenizer.json", "metrics.jsonl", "best.safetensors", "last.safetensors"]


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    path = tmp_path / "home" / ".bashrc"
    path.parent.mkdir()
    path.write_text("mine")
    return path


@pytest.mark.parametrize("name", [*WRITTEN, "best", "last", ".best.old", "tensorboard", "texts", "texts/data.jsonl", ".launch"])
@pytest.mark.parametrize("overwrite", [True, False])
def test_training_refuses_links(name: str, overwrite: bool, tmp_path: Path, victim: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run = copied(tmp_path)
    path = run / name
    path.parent.mkdir(exist_ok=True)
    target = victim.parent if "." not in path.name.strip(".") and not name.startswith(".l") else victim
    if path.exists():
        path.rename(target)
    path.symlink_to(target)
    before = contents(victim.parent)
    with pytest.raises(ValueError, match=rf"{name}: is a link, and a run is not written through links; remove it, or copy"):
        train(None, run, resume=not overwrite, overwrite=overwrite)
    assert contents(victim.parent) == before and path.is_symlink()


def test_names_that_a_temporary_file_might_have_are_not_used(
    tmp_path: Path, victim: Path, transalg: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run = copied(tmp_path)
    (run / "metrics.jsonl").write_text('{"step": 1, "tokens": 1, "seconds": 1, "loss": 1}\n')
    for name in (*WRITTEN, "last", "best", "curves.png"):
        (run / f".{name}.part").symlink_to(victim)
    for name in (".new", ".ready", ".moving"):
        (run / name).symlink_to(victim.parent)
    assert transalg("plot", str(run))[0] == 0
    train(None, run, resume=True, changes={"train": {"steps": 7, "threads": 1}})
    assert contents(victim.parent) == {".bashrc": b"mine"}


def test_a_file_of_the_users_may_be_a_link_but_not_one_in_a_run(tmp_path: Path, victim: Path, transalg: Any) -> None:
    run = copied(tmp_path)
    (run / "metrics.jsonl").write_text('{"step": 1, "tokens": 1, "seconds": 1, "loss": 1}\n')
    classes, labels = copied(tmp_path, "classify"), tmp_path / "labels.txt"
    labels.write_text("high\tone two\nlow\tthree four\n")
    for name in ("curves.png", "a.jsonl", "a.html"):
        (run / name).symlink_to(victim)
    (run / "pictures").symlink_to(victim.parent)
    for arguments in (
        ("plot", str(run)),
        ("plot", str(run), "--out", str(run / "pictures" / "a.png")),
        ("generate", str(run), "--prompt", "The", "--ell-gen", "2", "--out", str(run / "a.jsonl")),
        ("evaluate", str(classes), "--data", str(labels), "--predictions", str(run / "a.jsonl")),
        ("trace", "10", "--run", str(run), "--prompt", "The", "--html", str(run / "a.html")),
        ("trace", "10", "--save-theta", str(run / "a.html")),
        ("export", str(run), "--format", "huggingface", "--out", str(run / "pictures"), "--overwrite"),
    ):
        status, _, err = transalg(*arguments)
        assert status == 2, arguments
        assert victim.read_text() == "mine" and os.listdir(victim.parent) == [".bashrc"], arguments
        assert "is a link in the folder of a run, and nothing is written through it" in " ".join(err.split()), err
    (tmp_path / "mine.png").symlink_to(victim.parent / "picture.png")
    (tmp_path / "link").symlink_to(run)
    assert transalg("plot", str(tmp_path / "link"), "--out", str(tmp_path / "mine.png"))[0] == 0
    assert (victim.parent / "picture.png").stat().st_size > 1000
    with atomic_write(tmp_path / "link" / "new.txt") as file:
        file.write("new")
    assert (run / "new.txt").read_text() == "new"


def test_metrics_are_not_appended_to_a_link(tmp_path: Path, victim: Path) -> None:
    (tmp_path / "metrics.jsonl").symlink_to(victim)
    with Metrics(tmp_path, True, tensorboard=False) as metrics, pytest.raises(ValueError, match=r"metrics\.jsonl: cannot be written"):
        metrics.write(1, 2, 3.0, loss=1.0)
    assert victim.read_text() == "mine"


def test_a_pipe_does_not_wait_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run = copied(tmp_path)
    for name in ("config.toml", "metrics.jsonl", "last.safetensors"):
        kept = (run / name).read_bytes() if (run / name).exists() else None
        (run / name).unlink(missing_ok=True)
        os.mkfifo(run / name)
        with pytest.raises(ValueError, match=f"{name}: expected a file or a folder, got a pipe or a device"):
            train(None, run, resume=True)
        if name.endswith("safetensors"):
            with pytest.raises(ValueError, match="expected a file"):
                checkpoints.load(run / name)
        (run / name).unlink()
        if kept is not None:
            (run / name).write_bytes(kept)
