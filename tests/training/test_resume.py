"""A run that was interrupted, killed or damaged: what it resumes to, and what it says."""

import errno
import json
import os
import random
import resource
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.tolerance import tolerance
from tests.training.runs import TASKS, assert_same, config, files
from transalg.hyper import DHyper
from transalg.runs import checkpoints
from transalg.runs.metadata import Metadata
from transalg.training.loop import Outcome
from transalg.training.report import Report
from transalg.training.start import train
from transalg.verify.cases import small

pytestmark = pytest.mark.slow

MODEL = {"dropout": 0.1, "attention_dropout": 0.1}


class At(Report):
    """Does something after a step."""

    def __init__(self, step: int, act: Any) -> None:
        self.at, self.act = step, act

    def step(self, step: int, loss: float, tokens_per_second: float) -> None:
        if step == self.at:
            self.act()


class Crash(Exception):
    pass


def crash() -> None:
    raise Crash


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def run(task: str, folder: Path, out: str, model: dict[str, Any] = MODEL, **train_options: Any) -> Outcome:
    more = {"noise": 0.1, "token_drop": 0.1} if task in ("seq2seq", "classify") else {}
    chosen = {"steps": 11, "batch_size": 4, "accumulate": 2, **more, **train_options}
    report = chosen.pop("report", None)
    return train(config(task, folder, model, **chosen), folder / out, report=report)


@pytest.mark.parametrize("task", TASKS)
def test_resuming_is_bit_for_bit(task: str, tmp_path: Path) -> None:
    files(tmp_path)
    assert run(task, tmp_path, "whole").reason == "done"
    stopped = run(task, tmp_path, "stopped", report=At(5, interrupt))
    assert stopped.reason == "interrupted" and stopped.state.step == 6  # the step that was running is completed and saved
    with pytest.raises(Crash):
        run(task, tmp_path, "crashed", report=At(7, crash))
    assert checkpoints.load_metadata(tmp_path / "crashed" / "last.safetensors").state["step"] == 6
    for out in ("stopped", "crashed"):
        done = train(None, tmp_path / out, resume=True)
        assert done.reason == "done" and done.state.step == 11
        assert_same(tmp_path, "whole", out)


def test_dropout_and_order_do_change_from_step_to_step(tmp_path: Path) -> None:
    """The test above would pass if nothing were random."""
    files(tmp_path)
    run("lm", tmp_path, "one")
    run("lm", tmp_path, "two", seed=1)
    losses = [
        [json.loads(line).get("loss") for line in (tmp_path / out / "metrics.jsonl").read_text().splitlines()] for out in ("one", "two")
    ]
    assert losses[0] != losses[1]


@pytest.mark.parametrize("optimizer", ["adamw", "sgd"])
def test_every_optimiser_resumes(optimizer: str, tmp_path: Path) -> None:
    """And a line of metrics tells the mean over all its steps, those before the crash too."""
    files(tmp_path)
    run("lm", tmp_path, "whole", optimizer=optimizer, log_every=5)
    with pytest.raises(Crash):
        run("lm", tmp_path, "crashed", optimizer=optimizer, log_every=5, report=At(9, crash))
    train(None, tmp_path / "crashed", resume=True)
    assert_same(tmp_path, "whole", "crashed")


@pytest.mark.parametrize("model", [{"norm": "batch_norm"}, {"L": 3, "shared": 2}], ids=str)
def test_running_statistics_and_shared_layers_resume(model: dict[str, Any], tmp_path: Path) -> None:
    files(tmp_path)
    run("lm", tmp_path, "whole", model)
    with pytest.raises(Crash):
        run("lm", tmp_path, "crashed", model, report=At(9, crash))
    train(None, tmp_path / "crashed", resume=True)
    assert_same(tmp_path, "whole", "crashed")


def test_parts_of_a_batch_add_up(tmp_path: Path) -> None:
    """With SGD: AdamW would divide the rounding noise of a gradient that is 0, as that of the keys' bias, by its ε."""
    files(tmp_path)
    steps = 6
    for parts in (1, 3, 5):
        chosen = config("seq2seq", tmp_path, dtype="float64", batch_size=4, steps=steps, optimizer="sgd", accumulate=parts)
        train(chosen, tmp_path / str(parts))
    tensors = [checkpoints.load(tmp_path / str(parts) / "last.safetensors")[0] for parts in (1, 3, 5)]
    longest = 4 * 29  # tokens of a batch, which a gradient is summed over
    for other in tensors[1:]:
        torch.testing.assert_close(other, tensors[0], rtol=0, atol=tolerance(torch.float64, longest, depth=2 * 2 * steps))


def test_options_of_a_resumed_run(tmp_path: Path) -> None:
    files(tmp_path)
    run("lm", tmp_path, "run", report=At(3, interrupt))
    for changes, said in (
        ({"train": {"eta": 0.5}}, "--train.eta: .* was started with 0.015; a resumed run keeps its options"),
        ({"model": {"L": 9}}, "--model.L: .* was started with 1"),
        ({"data": "other.txt"}, "--data: .* was started with .*lines.txt"),
    ):
        with pytest.raises(ValueError, match=said):
            train(None, tmp_path / "run", resume=True, changes=changes)
    same = {"data": os.path.relpath(tmp_path / "lines.txt")}  # another name of the same file
    longer = train(None, tmp_path / "run", resume=True, changes={**same, "task": "lm", "train": {"steps": 13, "batch_size": 4}})
    assert longer.state.step == 13
    epochs = train(config("classify", tmp_path, steps=None, epochs=2), tmp_path / "epochs")  # of 6 rows in batches of 3
    more = train(None, tmp_path / "epochs", resume=True, changes={"train": {"epochs": 3}})
    assert (epochs.state.step, more.state.step) == (4, 6)
    again = train(None, tmp_path / "run", resume=True)
    assert again.state.step == 13 and again.figures["val_loss"] > 0
    with pytest.raises(ValueError, match="exists already; --resume continues it, --overwrite starts over"):
        run("lm", tmp_path, "run")
    with pytest.raises(ValueError, match="there is no run to resume"):
        train(None, tmp_path / "none", resume=True)


def test_a_run_that_died_before_its_first_checkpoint(tmp_path: Path) -> None:
    """It begins again as it began, from the weights of another run too."""
    files(tmp_path)
    run("lm", tmp_path, "first")
    chosen = replace(config("lm", tmp_path, steps=5), init=str(tmp_path / "first"), tokenizer="", model={})
    train(chosen, tmp_path / "whole")
    with pytest.raises(Crash):
        train(chosen, tmp_path / "crashed", report=At(1, crash))
    assert not (tmp_path / "crashed" / "last.safetensors").exists()
    train(None, tmp_path / "crashed", resume=True)
    assert_same(tmp_path, "whole", "crashed")
    (tmp_path / "early").mkdir()
    (tmp_path / "early" / "tokenizer.json").write_text("{}")
    assert train(chosen, tmp_path / "early", resume=True).state.step == 5


def test_what_a_new_run_may_not_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files(tmp_path)
    run("lm", tmp_path, "first")
    best = (tmp_path / "first" / "best.safetensors").read_bytes()
    chosen = replace(config("lm", tmp_path), init=str(tmp_path / "first"), tokenizer="", model={})
    with pytest.raises(ValueError, match="cannot be both the run to start from and the run to make"):
        train(chosen, tmp_path / "first", overwrite=True)
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "1")  # started again, but by another torchrun than began this run
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "another")
    with pytest.raises(ValueError, match="exists already"):
        train(config("lm", tmp_path), tmp_path / "first")
    assert (tmp_path / "first" / "best.safetensors").read_bytes() == best
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("mine")
    with pytest.raises(ValueError, match="exists already"):
        train(config("lm", tmp_path), tmp_path / "mine", resume=True)
    with pytest.raises(ValueError, match="lies in the data"):
        train(replace(config("lm", tmp_path), data=str(tmp_path)), tmp_path / "inside")
    with pytest.raises(ValueError, match="expected data to validate on"):
        train(replace(config("lm", tmp_path, patience=2), split=0.0), tmp_path / "inside")
    assert not (tmp_path / "inside").exists()


def test_data_that_changed_is_noticed(tmp_path: Path) -> None:
    files(tmp_path)
    run("lm", tmp_path, "run", report=At(3, interrupt))
    with (tmp_path / "lines.txt").open("a") as file:
        file.write("a cat\n")
    with pytest.raises(ValueError, match=r"lines\.txt: is not what it was when .*run was started"):
        train(None, tmp_path / "run", resume=True)


def test_weights_that_are_no_numbers_are_not_saved(tmp_path: Path) -> None:
    files(tmp_path)
    chosen = config("lm", tmp_path, steps=30, eta=1000.0, optimizer="sgd", clip=0, warmup=0, save_every=1, eval_every=1)
    with pytest.raises(ValueError, match=r"start over with a smaller --train\.eta"):
        train(chosen, tmp_path / "run")
    for name in ("best.safetensors", "last.safetensors"):
        if (tmp_path / "run" / name).exists():
            assert all(tensor.isfinite().all() for tensor in checkpoints.load(tmp_path / "run" / name)[0].values())


# Whole or not at all ---------------------------------------------------------------------------------------------------


def test_killed_at_any_moment_it_resumes_bit_for_bit() -> None:
    """Sixty kills over all tasks; `make faults` has a thousand."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.faults", "--kills", "60"], cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_full_disk_leaves_the_last_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "last.safetensors"
    metadata = Metadata(task="lm", hyper=small(DHyper), step=1)
    checkpoints.save(path, {"a": torch.ones(10)}, metadata)
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, limit[1]))
    try:
        with pytest.raises(ValueError, match=r"last\.safetensors: cannot be written: .*; the previous checkpoint is unchanged"):
            checkpoints.save(path, {"a": torch.ones(10_000)}, replace(metadata, step=2))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert checkpoints.load(path)[1] == metadata and [each.name for each in tmp_path.iterdir()] == [path.name]


def test_a_full_disk_ends_the_run_with_a_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files(tmp_path)

    def full(_: Any, path: Path, *__: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def fill() -> None:
        monkeypatch.setattr(checkpoints, "save_file", full)

    with pytest.raises(ValueError, match="cannot be written: No space left on device; the previous checkpoint is unchanged"):
        run("lm", tmp_path, "run", report=At(7, fill))
    monkeypatch.undo()
    assert train(None, tmp_path / "run", resume=True).state.step == 11


def test_damaged_checkpoints_are_named(tmp_path: Path) -> None:
    files(tmp_path)
    run("lm", tmp_path, "run", report=At(3, interrupt))
    path = tmp_path / "run" / "last.safetensors"
    intact = path.read_bytes()
    for damaged in (intact[:-5], intact[:50], b"", b"no safetensors"):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=r"last\.safetensors: not a complete checkpoint of transalg"):
            train(None, tmp_path / "run", resume=True)
        assert path.read_bytes() == damaged
    state = {"step": 4, "tokens": 4, "seconds": 1.0, "place": {"epoch": 0, "batch": 4}}
    other = Metadata(task="lm", hyper=small(DHyper, N_V=19), state=state)
    checkpoints.save(path, {"model.W_e": torch.ones(2, 3)}, other)
    with pytest.raises(ValueError, match=r"run: the model has N_V = 19, but tokenizer\.json has 17 tokens"):
        train(None, tmp_path / "run", resume=True)
    path.write_bytes(intact)
    tensors, metadata = checkpoints.load(path)
    checkpoints.save(path, {"model.W_e": tensors["model.W_e"].clone()}, metadata)
    with pytest.raises(ValueError, match=r"last\.safetensors: lacks tensors of the run's model: model\.gamma"):
        train(None, tmp_path / "run", resume=True)
    path.write_bytes(intact)
    (tmp_path / "run" / "config.toml").write_text("task = lm")
    with pytest.raises(ValueError, match=r"config\.toml: not TOML"):
        train(None, tmp_path / "run", resume=True)


def test_nothing_is_pickled(tmp_path: Path) -> None:
    files(tmp_path)
    run("lm", tmp_path, "run")
    kinds = {path.suffix for path in (tmp_path / "run").iterdir()}
    assert kinds == {".safetensors", ".json", ".toml", ".jsonl"}
    assert (tmp_path / "run" / "last.safetensors").stat().st_mode & 0o044, "others may read it, as they may read any new file here"


def test_half_a_line_of_metrics_is_forgotten(tmp_path: Path) -> None:
    files(tmp_path)
    run("lm", tmp_path, "whole")
    with pytest.raises(Crash):
        run("lm", tmp_path, "crashed", report=At(7, crash))
    with (tmp_path / "crashed" / "metrics.jsonl").open("a") as file:
        file.write('{"step": 8, "lo')
    train(None, tmp_path / "crashed", resume=True)
    assert_same(tmp_path, "whole", "crashed")


@pytest.mark.parametrize("seed", [random.Random(1).randrange(2**62)])
def test_large_seeds(seed: int, tmp_path: Path) -> None:
    files(tmp_path)
    assert run("mlm", tmp_path, "run", seed=seed, steps=2).state.step == 2
