"""Which checkpoint: one is written early, and the last can be used where there is no best."""

import shutil
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch

import transalg as package
from tests.training.runs import config, files
from transalg.inference.results import NoBest
from transalg.inference.run import Run
from transalg.runs import checkpoints
from transalg.training import loop
from transalg.training.report import Report
from transalg.training.start import train


class Killed(Exception):
    pass


class KilledAfter(Report):
    """Ends a run as a kill would, without a word, when this step is done and before it is saved."""

    def __init__(self, step: int) -> None:
        self.last = step

    def step(self, step: int, loss: float, tokens_per_second: float) -> None:
        if step == self.last:
            raise Killed


def killed(folder: Path, step: int, **train_options: Any) -> Path:
    out = folder / "run"
    with pytest.raises(Killed):
        train(
            config("lm", files(folder), **{"steps": 200, "eval_every": 100, "save_every": 100} | train_options),
            out,
            report=KilledAfter(step),
        )
    return out


def saved_step(run: Path) -> Any:
    return checkpoints.load_metadata(run / "last.safetensors").state["step"]


def test_the_first_checkpoint_comes_after_a_hundredth_of_the_steps(tmp_path: Path) -> None:
    assert not (killed(tmp_path / "early", 2) / "last.safetensors").exists()
    assert saved_step(killed(tmp_path / "later", 7)) == 2


def test_or_after_a_minute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once: afterwards `save_every` decides."""
    monkeypatch.setattr(loop, "EARLY_SECONDS", -1.0)
    assert saved_step(killed(tmp_path, 5, steps=900)) == 1


def test_a_run_without_a_validation_can_be_used(tmp_path: Path, transalg: Any) -> None:
    run = killed(tmp_path, 7)
    with pytest.warns(NoBest, match="run: there is no best checkpoint before the first validation; this is the last one"):
        text = Run.load(run).generate("a", ell_gen=5, seed=3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert package.load(run, checkpoint="last").generate("a", ell_gen=5, seed=3) == text
    status, out, err = transalg("generate", str(run), "--prompt", "a", "--ell-gen", "5", "--seed", "3")
    assert status == 0 and "there is no best checkpoint" in " ".join(err.split()) and text.strip() in out
    assert transalg("generate", str(run), "--prompt", "a", "--checkpoint", "last")[::2] == (0, "")
    status, out, _ = transalg("trace", "10", "--run", str(run), "--prompt", "a")
    assert status == 0 and "the last model of" in " ".join(out.split()), "a trace says which model it is of"


def test_a_trace_has_one_thread_and_gives_back_the_others(transalg: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = list[int]()
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    monkeypatch.setattr(torch, "set_num_threads", chosen.append)
    assert transalg("trace", "4")[0] == 0 and chosen == [1, 3]


def test_every_verb_takes_the_last_checkpoint(tmp_path: Path, transalg: Any) -> None:
    """The best is that of another seed, so that the two differ."""
    for seed, name in enumerate(("run", "other")):
        train(config("lm", files(tmp_path), steps=2, seed=seed), tmp_path / name)
    run = str(tmp_path / "run")
    shutil.copy(tmp_path / "other" / "best.safetensors", run)
    for arguments in (
        ["evaluate", run],
        ["score", run, "--text", "a cat"],
        ["embed", run, "--text", "a cat", "--json"],
        ["trace", "10", "--run", run, "--prompt", "a cat", "--json"],
    ):
        best, last = transalg(*arguments), transalg(*arguments, "--checkpoint", "last")
        assert best[0] == last[0] == 0 and best[1] != last[1], arguments
    assert transalg("verify", run, "--checkpoint", "last", "--json")[0] == 0
    with pytest.raises(ValueError, match="checkpoint: expected best or last, got 'first'"):
        package.load(run, checkpoint="first")  # type: ignore[arg-type]
    (tmp_path / "run" / "last.safetensors").unlink()
    with pytest.raises(ValueError, match=r"there is no trained model in this folder \(no last\.safetensors\)"):
        package.load(run, checkpoint="last")
