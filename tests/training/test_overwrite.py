"""--overwrite: the old run is there until the new one has a checkpoint, whatever ends the process. --resume: nothing is replaced that was lost."""

import os
import re
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
import torch

import transalg as package
from tests.runs.damage import contents, copied
from tests.training.runs import WORDS, config, files
from transalg.runs import checkpoints, swap
from transalg.runs.config import Config
from transalg.training.loop import Loop
from transalg.training.report import Report
from transalg.training.start import train


class Crash(Exception):
    pass


class CrashAt(Report):
    def __init__(self, step: int) -> None:
        self.at = step

    def step(self, step: int, loss: float, tokens_per_second: float) -> None:
        if step == self.at:
            raise Crash


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with data and a run."""
    folder = files(tmp_path_factory.mktemp("first"))
    train(config("lm", folder, steps=2), folder / "run")
    return folder


@pytest.fixture
def folder(first: Path, tmp_path: Path) -> Path:
    shutil.copytree(first, tmp_path / "a")
    (tmp_path / "a" / "run" / "notes.txt").write_text("mine")
    return tmp_path / "a"


def other(folder: Path, **train_options: Any) -> Config:
    """A run that differs from the first in its model."""
    return config("lm", folder, {"d_e": 14}, **{"save_every": 3, "steps": 3} | train_options)


def d_e(run: Path, checkpoint: Any = "best") -> int:
    size: int = package.load(run, checkpoint=checkpoint).model.hyper.d_e
    return size


def metrics(run: Path) -> str:
    return re.sub('"seconds": [^,]*', "", (run / "metrics.jsonl").read_text())


def test_a_run_that_ends_before_its_first_checkpoint_leaves_the_old_one(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = folder / "run"
    before = contents(run)
    with pytest.raises(Crash):
        train(other(folder, steps=999, save_every=9, eval_every=900), run, overwrite=True, report=CrashAt(3))
    assert contents(run) == before
    with pytest.raises(ValueError, match=r"loss is .* there is no checkpoint yet, and the earlier run in .*run is unchanged"):
        train(other(folder, steps=999, save_every=9, eval_every=9, eta=1000.0, optimizer="sgd", clip=0, warmup=0), run, overwrite=True)
    assert contents(run) == before

    def no_memory(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr(Loop, "__init__", no_memory)
    with pytest.raises(MemoryError):
        train(other(folder), run, overwrite=True)
    assert contents(run) == before and d_e(run) == 10


def test_the_first_checkpoint_takes_its_place(folder: Path) -> None:
    run = folder / "run"
    with pytest.raises(Crash):
        train(other(folder, steps=7, save_every=2, eval_every=7), run, overwrite=True, report=CrashAt(4))
    assert d_e(run, "last") == 14 and not (run / "best.safetensors").exists(), "the old best is gone"
    assert {path.name for path in run.iterdir()} == {"config.toml", "tokenizer.json", "metrics.jsonl", "last.safetensors", "notes.txt"}
    assert checkpoints.load_metadata(run / "last.safetensors").state["step"] in (1, 2)
    assert train(None, run, resume=True).state.step == 7 and d_e(run) == 14
    whole = folder / "whole"
    train(other(folder, steps=7, save_every=2, eval_every=7), whole)
    ours, expected = (checkpoints.load(each / "last.safetensors")[0] for each in (run, whole))
    assert all(ours[name].equal(expected[name]) for name in expected)
    assert metrics(run) == metrics(whole)


@pytest.mark.parametrize("moment", range(14))
def test_killed_at_any_moment_there_is_one_of_the_two(moment: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The moments are the renamings and removals of `swap`, one after the other."""
    run, count = folder / "run", iter(range(99))
    rename, discard = Path.rename, swap.discard

    class Killed(BaseException):
        pass

    def counted(function: Any) -> Any:
        def call(*arguments: Any) -> Any:
            if next(count) == moment:
                raise Killed
            return function(*arguments)

        return call

    part = swap.begin(run, ())
    train(other(folder, steps=1), folder / "new")
    for path in (folder / "new").iterdir():
        shutil.copy(path, part)
    monkeypatch.setattr(Path, "rename", counted(rename))
    monkeypatch.setattr(swap, "discard", counted(discard))
    try:
        swap.complete(run)
    except Killed:
        pass
    else:
        assert moment >= 13, "there are more moments"
    monkeypatch.undo()
    if any((run / name).exists() for name in (swap.READY, swap.MOVING)):
        with pytest.raises(ValueError, match=r"--overwrite was killed while .*transalg train --resume --out .*run completes it"):
            package.load(run)
    swap.settle(run)
    assert d_e(run) == (10 if moment == 0 else 14)
    assert (run / "notes.txt").exists() and not any((run / name).exists() for name in (swap.NEW, swap.READY, swap.MOVING))
    saved = {name for name in contents(run) if name != "notes.txt"}
    assert saved == set(contents(folder / ("new" if moment else "run"))) - {"notes.txt"}


def test_killed_before_the_first_checkpoint_the_old_run_is_as_it_was(folder: Path) -> None:
    run = folder / "run"
    before = contents(run)
    child = os.fork()
    if not child:

        class Kill(Report):
            def step(self, step: int, loss: float, tokens_per_second: float) -> None:
                os.kill(os.getpid(), signal.SIGKILL)

        torch.set_num_threads(1)
        train(other(folder, threads=1), run, overwrite=True, report=Kill())
        os._exit(0)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL
    left = contents(run)
    assert before.items() <= left.items() and any(name.startswith(swap.NEW) for name in left)
    assert d_e(run) == 10 and train(None, run, resume=True).state.step == 2
    assert not (run / swap.NEW).exists()


def test_texts_of_python_are_replaced_with_the_run(tmp_path: Path) -> None:
    options: dict[str, Any] = {"out": tmp_path / "run", "progress": False, "tokenizer": "char", "steps": 2, "threads": 1, "split": 0.25}
    options |= {"L": 1, "H": 2, "d_e": 10, "documents": "line"}
    package.train("lm", WORDS, **options)
    before = contents(tmp_path / "run")
    with pytest.raises(Crash):
        package.train("lm", ["other", "texts", "of", "it"] * 3, overwrite=True, **options | {"progress": CrashAt(1)})
    assert contents(tmp_path / "run") == before
    package.train("lm", ["other", "texts", "of", "it"] * 3, overwrite=True, **options)
    text = tmp_path / "run" / "texts" / "data.jsonl"
    assert "other" in text.read_text()
    saved = (tmp_path / "run" / "config.toml").read_text()
    assert ".new" not in saved and f'data = "{text}"' in saved and 'relative = "texts/data.jsonl"' in saved
    assert package.train(resume=True, out=tmp_path / "run", progress=False, steps=3).state.step == 3
    package.train("lm", text, overwrite=True, **options | {"d_e": 14})  # the texts of the old run, by their name
    assert "other" in text.read_text() and d_e(tmp_path / "run") == 14


# Resume ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("left", ["best.safetensors", "metrics.jsonl", "best"])
def test_a_run_that_lost_its_last_checkpoint_is_not_started_over(left: str, folder: Path) -> None:
    run = folder / "run"
    (run / "last.safetensors").unlink()
    if left != "best.safetensors":
        (run / "best.safetensors").unlink()
    if left == "best":
        (run / "best").mkdir()
        (run / "metrics.jsonl").unlink()
    before = contents(run)
    with pytest.raises(ValueError, match=rf"last\.safetensors: is missing, but .*run has {left}.*; restore it from a copy, or --overwrite"):
        train(None, run, resume=True)
    assert contents(run) == before


def test_a_run_that_lost_its_best_checkpoint_is_not_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run = copied(tmp_path)
    (run / "best.safetensors").unlink()
    before = contents(run)
    with pytest.raises(ValueError, match=r"best\.safetensors: is missing, but the best model was reached at step 5; restore it"):
        train(None, run, resume=True, changes={"train": {"steps": 7}})
    assert contents(run) == before


@pytest.mark.parametrize("split", [0.25, 0.0])
def test_a_kill_between_the_first_last_checkpoint_and_the_best(split: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The best one never comes first, and is written when the run continues."""
    from dataclasses import replace

    files(tmp_path)
    chosen = replace(config("lm", tmp_path, steps=3, eval_every=1, save_every=3), split=split)
    train(chosen, tmp_path / "whole")

    def killed(*_: object) -> None:
        raise Crash

    with monkeypatch.context() as patched:
        patched.setattr(Loop, "_save_best", killed)
        with pytest.raises(Crash):
            train(chosen, tmp_path / "run")
    assert (tmp_path / "run" / "last.safetensors").exists() and not (tmp_path / "run" / "best.safetensors").exists()
    train(None, tmp_path / "run", resume=True)
    for name in ("best", "last"):
        ours, expected = (checkpoints.load(tmp_path / run / f"{name}.safetensors")[0] for run in ("run", "whole"))
        assert all(ours[each].equal(expected[each]) for each in expected)


def test_what_a_killed_process_was_writing_is_removed(folder: Path) -> None:
    """Ours, and safetensors' own: its library writes to such a file first."""
    run = folder / "run"
    for name in (".last.safetensors.0a1b2c3d.part", ".tmp5bMHyl", ".tmp5bMHylx", "tmp5bMHyl"):
        (run / name).write_text("half")
    train(None, run, resume=True, changes={"train": {"steps": 3}})
    assert {path.name for path in run.iterdir() if "tmp" in path.name or ".part" in path.name} == {".tmp5bMHylx", "tmp5bMHyl"}
