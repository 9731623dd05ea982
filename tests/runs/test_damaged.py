"""Checkpoints that someone damaged or edited are refused, in words that name the file and the field; nothing is changed."""

import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import transalg
from tests.runs.damage import RUNS, contents, copied, read, rewrite, write
from transalg.runs.metadata import Metadata
from transalg.runs.tensors import require_finite
from transalg.training.start import train


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return copied(tmp_path)


def resumed(run: Path) -> None:
    train(None, run, resume=True, changes={"train": {"steps": 7, "threads": 1}})


def refused(run: Path, action: Callable[[Path], object], said: str) -> None:
    before = contents(run)
    with pytest.raises(ValueError, match=said) as caught:
        action(run)
    assert len(str(caught.value)) < 1000 and str(caught.value).count("\n") <= 1
    assert contents(run) == before


NOTHING = object()  # for a key that is absent


def put(data: dict[str, Any], path: str, value: object) -> None:
    *parents, last = path.split(".")
    for name in parents:
        data = data[name]
    if value is NOTHING:
        del data[last]
    else:
        data[last] = value


def named(cases: list[tuple[str, object, str]]) -> list[str]:
    """A short name for every case, without spaces."""
    return [f"{field}={'nothing' if value is NOTHING else ''.join(str(value).split())[:20]}" for field, value, _ in cases]


FACTS: list[tuple[str, object, str]] = [
    ("format", 2, "written by a newer transalg"),
    ("format", True, "format: expected a whole number"),
    ("task", NOTHING, "task: is missing"),
    ("task", None, "task: expected lm or "),
    ("task", "mlm", "hyper.kind: expected EHyper for the task mlm, got DHyper"),
    ("task", ["lm"], "task: expected lm or "),
    ("labels", NOTHING, "labels: is missing"),
    ("labels", None, "labels: expected a list, got None"),
    ("labels", {"a": 1}, "labels: expected a list"),
    ("labels", [1], r"labels\[0\]: expected a text, got 1"),
    ("hyper", None, "hyper: expected an object, got None"),
    ("hyper", [], "hyper: expected an object"),
    ("hyper", {}, "hyper.kind: expected DHyper, "),
    ("hyper.kind", "EHyper", "hyper.*: Algorithm 9 has no such hyperparameter"),
    ("hyper.kind", [], "hyper.kind: expected DHyper, "),
    ("hyper.d_e", "12", "hyper.d_e: expected a whole number from 1 to 1,000,000, got '12'"),
    ("hyper.d_e", NOTHING, "hyper.d_e: is missing"),
    ("hyper.L", -1, "hyper.L: expected a whole number from 1 to 1,000, got -1"),
    ("hyper.L", 1000, "expected the tensors of 1000 layers"),
    ("hyper.L", 10_000, "hyper.L: expected a whole number from 1 to 1,000, got 10000"),
    ("hyper.L", 10**12, "hyper.L: expected at most 100,000 layers"),
    ("hyper.d_mlp", 999_983, "expected float32"),
    ("hyper.N_V", 2**62, "hyper.N_V: expected a whole number from 1 to 100,000,000, got 4611686018427387904"),
    ("hyper.norm", ["layer_norm"], "hyper.norm: expected "),
    ("hyper.eps", math.nan, "hyper.eps: expected a number"),
    ("hyper.special", {"mask": 1}, "hyper.special.bos: is missing"),
    ("hyper.special", {"mask": 0, "bos": 1, "eos": 2, "never": 3}, "hyper.special: expected a list of IDs as never"),
    ("hyper.special", {"mask": 0, "bos": 1, "eos": 2, "pad": 3}, "hyper.special: expected .* got 'pad' as well"),
    ("hyper.special", 7, "hyper.special: expected IDs"),
    ("hyper.zzz", 1, "hyper.zzz: Algorithm 10 has no such hyperparameter"),
    ("data", 3, "data: expected a text, got 3"),
    ("embedding", {"pooling": "sum"}, "embedding.pooling: expected mean or first or max, got 'sum'"),
    ("embedding", [1], "embedding: expected an object"),
    ("episodes", {}, "episodes: expected a list"),
    ("episodes", [{"name": "taxi"}], r"episodes\[0\].world: is missing"),
    ("step", -1, "step: expected a whole number of 0 or more, got -1"),
    ("step", 1.5, "step: expected a whole number of 0 or more, got 1.5"),
    ("val_loss", "low", "val_loss: expected a finite number, got 'low'"),
    ("val_loss", math.nan, "val_loss: expected a finite number, got nan"),
    ("files", {"../x": 1}, "files.../x: expected the name of a file"),
]


@pytest.mark.parametrize(("field", "value", "said"), FACTS, ids=named(FACTS))
def test_every_fact_of_a_model_is_checked(field: str, value: object, said: str, run: Path) -> None:
    rewrite(run / "best.safetensors", lambda _, facts: put(facts, field, value))
    refused(run, transalg.load, f"best.safetensors: .*{said}")


@pytest.mark.parametrize("facts", [{}, [], None, 3, "text"], ids=str)
def test_metadata_is_an_object(facts: object, run: Path) -> None:
    write(run / "best.safetensors", read(run / "best.safetensors")[0], facts)
    refused(run, transalg.load, "best.safetensors: .*(metadata: expected an object|format: expected)")


def test_a_classifier_has_a_name_for_every_class(tmp_path: Path) -> None:
    run = copied(tmp_path, "classify")
    rewrite(run / "best.safetensors", lambda _, facts: facts["labels"].append("third"))
    refused(run, transalg.load, "best.safetensors: .*labels: expected N_C = 2 names, got 3")


STATE: list[tuple[str, object, str]] = [
    ("state", NOTHING, "state: is missing in the metadata"),
    ("state", {}, "state.step: is missing"),
    ("state", [], "state: expected an object"),
    ("state.step", "6", "state.step: expected a whole number"),
    ("state.step", -6, "state.step: expected a whole number of 0 or more, got -6"),
    ("state.step", 0, "state.step: expected a step that was done"),
    ("state.step", 6.0, "state.step: expected a whole number"),
    ("state.step", 10**30, "state.step: expected a whole number"),
    ("state.tokens", -1, "state.tokens: expected a whole number"),
    ("state.seconds", math.inf, "state.seconds: expected a finite number"),
    ("state.seconds", -1.0, "state.seconds: expected a number of 0 or more"),
    ("state.place", None, "state.place: expected an object"),
    ("state.place.batch", -1, "state.place.batch: expected a whole number"),
    ("state.place.batches", 1, "state.place: expected epoch, batch, got 'batches' as well"),
    ("state.best", "low", "state.best: expected an object"),
    ("state.best", math.nan, "state.best: expected a finite number"),
    ("state.best", {"val_accuracy": 0.5}, "state.best: expected val_loss among the figures"),
    ("state.best_step", 7, "state.best_step: expected at most step = 6, got 7"),
    ("state.waited", None, "state.waited: expected a whole number"),
    ("state.losses", [math.nan], r"state.losses\[0\]: expected a finite number"),
    ("state.rng", 1, "state: expected .* got 'rng' as well"),
    ("task", "classify", "hyper.kind: expected ClassifierHyper"),
    ("data", "other", "is not what it was"),
    ("hyper.dropout", 0.5, r"config.toml: model.dropout: expected 0.5, as in the last checkpoint, got 0.0"),
]


@pytest.mark.parametrize(("field", "value", "said"), STATE, ids=named(STATE))
def test_every_part_of_the_state_is_checked(field: str, value: object, said: str, run: Path) -> None:
    rewrite(run / "last.safetensors", lambda _, facts: put(facts, field, value))
    refused(run, resumed, said)


def broadcast(tensors: dict[str, torch.Tensor], name: str) -> None:
    tensors[name] = tensors[name][:1]


TENSORS: list[tuple[str, Callable[[dict[str, torch.Tensor]], object], str]] = [
    ("missing", lambda t: t.pop("W_e"), "lacks tensors of its model: W_e"),
    ("extra", lambda t: t.update(W_x=torch.ones(3)), "has tensors that its model does not have: W_x"),
    ("many extra", lambda t: t.update({f"x{i}": torch.ones(1) for i in range(99)}), "x0, x1, x10 and 96 more"),
    ("broadcast", lambda t: broadcast(t, "W_e"), r"W_e: expected float32 \[\d+, \d+\] for its model, got float32 \[1, \d+\]"),
    ("half", lambda t: t.update(W_e=t["W_e"].half()), r"W_e: expected float32 .* got F16"),
    ("double", lambda t: t.update(W_e=t["W_e"].double()), "expected float64"),
    ("whole", lambda t: t.update(W_e=t["W_e"].long()), "W_e: expected float32 .* got I64"),
    ("scalar", lambda t: t.update(W_e=torch.tensor(1.0)), r"got float32 \[\]"),
    ("twice", lambda t: t.update({"model.W_e": t["W_e"].clone()}), "some tensors come twice"),
    ("nothing", lambda t: t.clear(), "got 0 tensors"),
    ("nan", lambda t: t["W_e"][3, 1:2].fill_(math.nan), "W_e: NaN among the weights"),
    ("infinite", lambda t: t["W_e"][2, 1:2].fill_(-math.inf), "W_e: an infinite number among the weights"),
]


@pytest.mark.parametrize(("change", "said"), [each[1:] for each in TENSORS], ids=[each[0] for each in TENSORS])
def test_every_tensor_of_a_model_is_checked(change: Callable[[dict[str, torch.Tensor]], object], said: str, run: Path) -> None:
    rewrite(run / "best.safetensors", lambda tensors, _: change(tensors))
    refused(run, transalg.load, f"best.safetensors: .*{said}")


OPTIMISER: list[tuple[str, Callable[[dict[str, torch.Tensor]], object], str]] = [
    (
        "none",
        lambda t: [t.pop(name) for name in list(t) if name.startswith("optimiser.")],
        "lacks tensors of the optimiser that config.toml",
    ),
    ("one missing", lambda t: t.pop("optimiser.W_e.exp_avg"), r"lacks .*: optimiser.W_e.exp_avg"),
    ("extra", lambda t: t.update({"optimiser.W_e.momentum": torch.ones(3)}), "optimiser.W_e.momentum"),
    ("of no parameter", lambda t: t.update({"optimiser.zzz.step": torch.ones(())}), "optimiser.zzz.step"),
    ("broadcast", lambda t: broadcast(t, "optimiser.W_e.exp_avg_sq"), r"optimiser.W_e.exp_avg_sq: expected float32"),
    ("dtype", lambda t: t.update({"optimiser.W_e.step": torch.tensor(3)}), r"optimiser.W_e.step: expected float32 \[\]"),
    ("nan", lambda t: t["optimiser.W_e.exp_avg"].fill_(math.nan), "optimiser.W_e.exp_avg: NaN"),
    ("model", lambda t: t.pop("model.W_e"), "lacks tensors of the run's model: model.W_e"),
    ("broadcast model", lambda t: broadcast(t, "model.W_e"), "model.W_e: expected float32"),
    ("nan model", lambda t: t["model.W_e"].fill_(math.nan), "model.W_e: NaN"),
]


@pytest.mark.parametrize(("change", "said"), [each[1:] for each in OPTIMISER], ids=[each[0] for each in OPTIMISER])
def test_every_tensor_is_checked_before_training_continues(
    change: Callable[[dict[str, torch.Tensor]], object], said: str, run: Path
) -> None:
    rewrite(run / "last.safetensors", lambda tensors, _: change(tensors))
    refused(run, resumed, f"last.safetensors: .*{said}")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('optimizer = "muon"', 'optimizer = "adamw"', "last.safetensors: lacks tensors of the optimiser that config.toml names"),
        ('optimizer = "muon"', 'optimizer = "sgd"', "last.safetensors: has tensors that the optimiser that config.toml names"),
        ('task = "lm"', 'task = "mlm"', "config.toml: "),
        ("(?s).*", "", "config.toml: task: is missing"),
        (r"(?s)\[train\].*", "", "config.toml: train.optimizer: is missing"),
        ("eta = .*", "", "config.toml: train.eta: is missing"),
        (r"(?s)\[train\]", "train = 3\n[other]", "config.toml: "),
        ("d_e = .*", "d_e = {}", "d_e: expected a whole number from 1 to 1,000,000, got {}"),
        ("d_e = .*", "d_e = 20", "config.toml: model.d_e: expected 8, as in the last checkpoint, got 20"),
        ("dtype = .*", 'dtype = "float64"', r"expected float64 .* for the run's model, got float32"),
        ("(?s).*", "a = " + "[" * 9000, "config.toml: not TOML: its values lie too deep"),
    ],
)
def test_an_edited_configuration_is_refused(old: str, new: str, said: str, run: Path) -> None:
    text = (run / "config.toml").read_text()
    changed = re.sub(old, new, text, count=1)
    assert changed != text
    (run / "config.toml").write_text(changed)
    refused(run, resumed, said)


@pytest.mark.parametrize("checkpoint", ["best", "last"])
def test_both_checkpoints_are_checked(checkpoint: str, run: Path) -> None:
    rewrite(run / f"{checkpoint}.safetensors", lambda tensors, _: next(iter(tensors.values())).fill_(math.nan))
    other = "last" if checkpoint == "best" else "best"
    transalg.load(run, checkpoint=other)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=f"{checkpoint}.safetensors: .*NaN"):
        transalg.load(run, checkpoint=checkpoint)  # type: ignore[arg-type]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_one_number_that_is_none_is_found_wherever_it_is(value: float, dtype: torch.dtype) -> None:
    for size in (1, 7, 131):
        for place in (0, size // 2, size - 1):
            tensor = torch.linspace(-1, 1, size, dtype=dtype)
            require_finite({"a": tensor}, Path("x"))
            tensor[place] = value
            with pytest.raises(ValueError, match="x: a: "):
                require_finite({"a": tensor}, Path("x"))


def test_deep_metadata_is_refused() -> None:
    with pytest.raises(ValueError, match="not JSON: its values lie too deep"):
        Metadata.from_json('{"format": 1, "task": ' + "[" * 100_000)
    with pytest.raises(ValueError, match="not JSON: a number in it has too many digits"):
        Metadata.from_json('{"format": ' + "1" * 5000 + "}")
    deep: Any = 1
    for _ in range(300):
        deep = [deep]
    with pytest.raises(ValueError, match="too deep"):
        Metadata.from_json(json.dumps({"format": 1, "task": deep, "hyper": {}, "labels": []}))


def test_the_runs_of_the_first_version_pass() -> None:
    for task in ("lm", "mlm", "seq2seq", "classify"):
        assert transalg.load(RUNS / task).task == task
