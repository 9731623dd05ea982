"""Whether there is enough memory, before a model is made; and what is left when there was not."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tests.training.runs import config, files
from transalg import memory
from transalg.hyper import DHyper
from transalg.hyper.cost import activations, flops_per_token, parameters
from transalg.runs.config import Train
from transalg.training import memory as training_memory
from transalg.training import start
from transalg.training import train as trained
from transalg.training.memory import check_memory, least_memory
from transalg.training.train import train

HYPER = DHyper(N_V=31, ell_max=17, L=3, H=2, d_e=14, d_mlp=23)


def test_the_least_that_training_takes() -> None:
    of = least_memory(HYPER, Train(optimizer="adamw"), 100, 13)
    model = 4 * parameters(HYPER)
    assert of == {"weights and gradients": 2 * model, "the optimiser": 2 * model, "activations": 400 * activations(HYPER, 13)}
    assert least_memory(HYPER, Train(optimizer="sgd"), 100, 13)["the optimiser"] == 0
    assert least_memory(HYPER, Train(accumulate=5), 100, 13)["activations"] == of["activations"] / 5
    assert least_memory(HYPER, Train(recompute=True), 100, 13)["activations"] < of["activations"] / 2


@pytest.mark.parametrize(
    ("hyper", "tokens", "said"),
    [
        (
            replace(HYPER, L=700, d_mlp=900_000),
            1,
            r"of it for weights and gradients .*a smaller --model\.d-e, --model\.d-mlp, --model\.L",
        ),
        (HYPER, 10**10, r"of it for activations .*a smaller --train\.batch-size or --train\.batch-tokens"),
    ],
)
def test_what_a_machine_does_not_have(monkeypatch: pytest.MonkeyPatch, hyper: DHyper, tokens: int, said: str) -> None:
    monkeypatch.setattr(training_memory, "available", lambda: 8e9)
    with pytest.raises(ValueError, match=rf"^memory: training takes at least [\d.]+ [GT]B, .*{said}") as refusal:
        check_memory(hyper, Train(device="cpu"), tokens, 13)
    assert "8 GB are free" in str(refusal.value)
    check_memory(HYPER, Train(device="cpu"), 100, 13)
    monkeypatch.setattr(training_memory, "available", lambda: None)
    check_memory(hyper, Train(device="cpu"), tokens, 13)


def test_training_is_refused_before_anything_is_made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(training_memory, "available", lambda: 1e3)
    options = config("lm", files(tmp_path))
    with pytest.raises(ValueError, match="memory: training takes at least"):
        start.train(options, tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "error", [MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 8000 bytes.")]
)
def test_memory_that_runs_out_later(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, error: Exception) -> None:
    """One line, and no folder that was only begun; one that was there stays."""
    folder = files(tmp_path)

    def run_out(*_: object) -> None:
        raise error

    monkeypatch.setattr(torch.optim.Optimizer, "zero_grad", run_out)
    monkeypatch.setattr(start.Loop, "run", run_out)
    for existed in (False, True):
        if existed:
            (tmp_path / "run").mkdir()
        with pytest.raises(ValueError, match=r"^memory: there is too little for the model and its training.*--train\.batch-size"):
            train("lm", str(folder / "lines.txt"), out=tmp_path / "run", steps=1, progress=False, threads=1)
        assert (tmp_path / "run").exists() == existed


def test_other_errors_are_not_taken_for_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("shape '[2]' is invalid")

    monkeypatch.setattr(trained.start, "train", fail)
    with pytest.raises(RuntimeError, match="shape"):
        train("lm", str(files(tmp_path) / "lines.txt"), out=tmp_path / "run", progress=False)


def test_how_much_there_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The least of what the system, the container and the process may still have."""
    for name in ("MEMINFO", "GROUP"):
        monkeypatch.setattr(memory, name, tmp_path / name.lower())
    monkeypatch.setattr(memory, "_of_process", lambda: None)
    (tmp_path / "meminfo").write_text("MemTotal: 900 kB\nMemAvailable:  700 kB\nSwapFree: 100 kB\n")
    assert memory.available() == 800 * 1024
    (tmp_path / "group").mkdir()
    (tmp_path / "group" / "memory.max").write_text("max\n")
    (tmp_path / "group" / "memory.current").write_text("500\n")
    assert memory.available() == 800 * 1024
    (tmp_path / "group" / "memory.max").write_text("1700\n")
    assert memory.available() == 1200
    monkeypatch.setattr(memory, "_of_process", lambda: 70.0)
    assert memory.available() == 70


def test_many_layers_are_counted_at_once() -> None:
    """The operations of n layers are n times those of one, shared parameters or not."""
    one, many = (flops_per_token(replace(HYPER, L=n, tied=True), 5) for n in (1, 7))
    fewer = flops_per_token(replace(HYPER, L=7, shared=3, tied=True), 5)
    none = one - (many - one) / 6
    assert many == pytest.approx(none + 7 * (one - none)) and fewer == many
