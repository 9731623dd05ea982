"""Validation: figures that do not depend on batches, a sample that the work pays for, and the best model by the selected figure."""

import json
import tomllib
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.strategies import rng
from tests.training.runs import TASKS, config, files
from transalg.data.rows import Rows
from transalg.evaluation.measure import evaluate, held_out
from transalg.hyper import Hyper
from transalg.inference.run import Run
from transalg.model import EDTransformer, build
from transalg.runs import checkpoints
from transalg.runs import folder as run_folder
from transalg.tasks import evaluation, find
from transalg.tasks.losses import Objective
from transalg.tasks.task import HIGHER, better
from transalg.training import loop, validation
from transalg.training.prepare import prepare
from transalg.training.processes import World
from transalg.training.report import Report
from transalg.training.start import train
from transalg.training.validation import (
    ALWAYS,
    BUDGET,
    FORWARD,
    WRITING,
    ValidationSample,
    decoded_figure,
    fixed_sample,
    last_sample,
    longest_target,
    mean_tokens,
    validate,
    validation_sample,
)

HERE = World(0, 1, torch.device("cpu"))


def inputs(task: str, rows: Rows, hyper: Hyper) -> list[list[list[int]]]:
    """What the model reads of each row, and which tokens of it are predicted, without padding."""
    rows_read = []
    for _, example in evaluation.evaluation_examples(find(task), rows, hyper):
        for i, length in enumerate(example.lengths[0].tolist()):
            rows_read.append([tensor[i, :length].tolist() for tensor in example.tensors if tensor.ndim == 2])
    return rows_read


@pytest.mark.parametrize("task", TASKS)
def test_figures_do_not_depend_on_the_batches(task: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prepared = prepare(config(task, files(tmp_path), {"p_mask": 0.5} if task == "mlm" else {}), tmp_path / "run", Report())
    rows, hyper = prepared.train.rows(), prepared.hyper
    bound = find(task).bound(prepared.labels)
    objective = Objective(bound, build(hyper, dtype=torch.float64, generator=rng(0)))
    seen, figures, batches = [], [], []
    for tokens in (1, 40, 10**6):
        monkeypatch.setattr(evaluation, "BATCH_TOKENS", tokens)
        batches.append(len(list(evaluation.evaluation_examples(find(task), rows, hyper))))
        seen.append(inputs(task, rows, hyper))
        figures.append(validate(objective, bound, rows, hyper, World(0, 1, torch.device("cpu")), nullcontext()))
    assert len(rows) == batches[0] > batches[1] > batches[2] == 1
    assert seen[0] == seen[1] == seen[2]
    for other in figures[1:]:
        assert other == pytest.approx(figures[0], rel=1e-12) and set(other) >= set(find(task).figures)


# The sample ------------------------------------------------------------------------------------------------------------


def test_the_sample_is_fixed() -> None:
    """A larger one contains a smaller one, each row once."""
    small, large = fixed_sample(101, 7), fixed_sample(101, 53)
    assert set(small) < set(large) < set(range(101)) and len(large) == 53 and (np.diff(large) > 0).all()
    assert set(large) != set(range(53)), "rows from all of the set"


@pytest.mark.parametrize("task", TASKS)
def test_the_sample_costs_what_validation_may_cost(task: str, tmp_path: Path) -> None:
    """All rows up to a tenth of the training between two validations; of more, as many as cost a twentieth."""
    prepared = prepare(replace(config(task, files(tmp_path)), split=0.0), tmp_path / "run", Report())
    rows, decoded = prepared.train.rows(), task == "seq2seq"
    costs = [FORWARD * mean_tokens(rows)] + [WRITING * longest_target(rows)] * decoded
    enough = len(rows) * max(costs) * len(costs) / BUDGET
    fits = validation_sample(rows, enough, decoded=decoded, least=1)
    assert (fits.read, fits.written) == (None, None)
    few = validation_sample(rows, 0.9 * enough, decoded=decoded, least=1)
    sizes = [len(rows) if each is None else len(each) for each in (few.read, few.written)[: len(costs)]]
    assert min(sizes) < len(rows) and sum(size * cost for size, cost in zip(sizes, costs, strict=True)) <= BUDGET * 0.9 * enough
    assert sizes[-1] == int(0.9 * len(rows) / 2), "the figure that costs most has a twentieth"
    none = validation_sample(rows, 0.0, decoded=decoded, least=3)
    assert none.read is not None and len(none.read) == 3


def test_the_last_validation_costs_at_most_a_twentieth_of_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All rows if that is enough for them, or if the run is so short that they may always be read; else as many as it pays for."""
    prepared = prepare(replace(config("lm", files(tmp_path)), split=0.0), tmp_path / "run", Report())
    rows = prepared.train.rows()
    cost = FORWARD * mean_tokens(rows) * len(rows)
    assert cost < ALWAYS and last_sample(rows, 0.0, least=1).read is None
    monkeypatch.setattr(validation, "ALWAYS", 0)
    assert last_sample(rows, 2 * cost / BUDGET, least=1).read is None
    part = last_sample(rows, 0.6 * 2 * cost / BUDGET, least=1).read
    assert part is not None and len(part) == int(0.6 * len(rows)) > 1
    few = last_sample(rows, 0.0, least=2).read
    assert few is not None and len(few) == 2


def test_a_long_validation_set_is_not_read_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The figure of the best model says how many rows it is of."""
    monkeypatch.setattr(loop, "last_sample", lambda rows, *_, **__: ValidationSample(fixed_sample(len(rows), 3), None))
    outcome = train(sampled("lm", tmp_path, steps=5), tmp_path / "run")
    run = Run.load(tmp_path / "run")
    assert len(held_out(run)) > 3 and outcome.figures["val_rows"] == 3
    assert outcome.figures["val_loss"] != pytest.approx(evaluate(run).figures["loss"], rel=1e-5), "of three rows, and not of all"
    last = json.loads((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()[-1])
    assert last["best_val_rows"] == 3 and last["best_val_loss"] == outcome.figures["val_loss"]


def sampled(task: str, folder: Path, **train_options: Any) -> Any:
    """A run whose budget pays for one of its four validation rows."""
    return replace(config(task, files(folder), batch_size=1, **{"eval_every": 1} | train_options), split=0.5)


@pytest.mark.parametrize("task", TASKS)
def test_a_sample_chooses_and_all_rows_measure_the_best(task: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Here the first validation is the best, so that the best model is not the last."""
    monkeypatch.setattr(loop, "better", lambda _, __, best: best is None)
    outcome = train(sampled(task, tmp_path, steps=5, dtype="float64"), tmp_path / "run")
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    between, last = [line for line in lines if "val_loss" in line], lines[-1]
    run = Run.load(tmp_path / "run")
    rows = len(held_out(run))
    assert [line["step"] for line in between] == [1, 2, 3, 4, 5] and {line["val_rows"] for line in between} == {1} and rows > 1
    assert last["best_val_rows"] == outcome.figures["val_rows"] == rows and last["best_step"] == outcome.state.best_step == 1
    assert last["best_val_loss"] != between[0]["val_loss"], "one row is not all"
    weights = [run_folder.model_tensors(tmp_path / "run", which)["W_e"] for which in (run_folder.BEST, run_folder.LAST)]
    assert not weights[0].equal(weights[1])
    figures = evaluate(run).figures
    assert figures["loss"] == pytest.approx(last["best_val_loss"], rel=1e-9) == run_folder.model_metadata(tmp_path / "run").val_loss
    if task == "classify":
        assert figures["accuracy"] == last["best_val_accuracy"] == outcome.figures["val_accuracy"]
    again = train(None, tmp_path / "run", resume=True)
    assert again.figures == outcome.figures and (tmp_path / "run" / "metrics.jsonl").read_text().count("best_step") == 1


def test_validation_changes_no_weight(tmp_path: Path) -> None:
    for every in (1, 5):
        train(sampled("seq2seq", tmp_path, steps=5, eval_every=every, save_every=5), tmp_path / str(every))
    one, five = (checkpoints.load(tmp_path / str(every) / "last.safetensors")[0] for every in (1, 5))
    assert all(one[name].equal(five[name]) for name in one)


# The best model --------------------------------------------------------------------------------------------------------


def test_what_is_better() -> None:
    for select, higher in HIGHER.items():
        low, high = ({"val_loss": 2.0} | {f"val_{select}": value} for value in (1.0, 3.0))
        assert better(select, low, None)
        assert (better(select, high, low), better(select, low, high)) == (higher, not higher)
        assert not better(select, low, low)
    same = {"val_accuracy": 0.5, "val_loss": 2.0}
    assert better("accuracy", same | {"val_loss": 1.5}, same) and not better("accuracy", same | {"val_loss": 2.5}, same)
    assert better("accuracy", same, {"val_loss": 2.5}), "a run of an earlier version has the loss alone"


def test_the_selected_figure_chooses_and_stops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of accuracies 1/3, 2/3, 2/3, 1/3, 1/3 with falling losses, the third: the lower loss of two that are equal."""
    chosen: dict[str, int] = {}
    for select in ("accuracy", "loss"):
        values = iter([(5.0, 1 / 3), (4.0, 2 / 3), (3.0, 2 / 3), (2.0, 1 / 3), (1.0, 1 / 3)])
        monkeypatch.setattr(loop, "validate", lambda *_, values=values: dict(zip(("val_loss", "val_accuracy"), next(values), strict=True)))
        outcome = train(config("classify", files(tmp_path), steps=5, eval_every=1, patience=2, select=select), tmp_path / select)
        chosen[select] = outcome.state.best_step
        assert outcome.reason == ("patience" if select == "accuracy" else "done")
    assert chosen == {"accuracy": 3, "loss": 5}


def test_a_run_that_had_stopped_early_stays_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless it is given more patience."""
    values = iter([(1.0, 0.5)] + [(2.0, 0.5)] * 9)
    monkeypatch.setattr(loop, "validate", lambda *_: dict(zip(("val_loss", "val_accuracy"), next(values), strict=True)))
    outcome = train(config("classify", files(tmp_path), steps=11, eval_every=1, patience=2, select="loss"), tmp_path / "run")
    last = (tmp_path / "run" / "last.safetensors").read_bytes()
    again = train(None, tmp_path / "run", resume=True)
    assert (outcome.reason, outcome.state.step) == (again.reason, again.state.step) == ("patience", 3)
    assert (tmp_path / "run" / "last.safetensors").read_bytes() == last
    more = train(None, tmp_path / "run", resume=True, changes={"train": {"patience": 4}})
    assert (more.reason, more.state.step) == ("patience", 5)


def test_the_last_measurement_can_be_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With Ctrl-C: all is saved by then, and the figures of the sample stay."""

    def pressed(*_: object) -> dict[str, float]:
        raise KeyboardInterrupt

    notes = list[str]()

    class Notes(Report):
        def note(self, text: str) -> None:
            notes.append(text)

        def validation(self, step: int, figures: dict[str, float], best: bool) -> None:
            if step == 5:
                monkeypatch.setattr(loop, "validate", pressed)

    outcome = train(sampled("lm", tmp_path, steps=5), tmp_path / "run", report=Notes())
    assert outcome.reason == "done" and outcome.figures["val_rows"] == 1 and notes[-1].startswith("Stopped measuring the best model on ")
    assert {"best.safetensors", "last.safetensors"} <= {path.name for path in (tmp_path / "run").iterdir()}


def test_auto_is_the_figure_of_the_task(tmp_path: Path) -> None:
    def selected(task: str, **train_options: Any) -> str:
        return prepare(config(task, tmp_path, **train_options), tmp_path / "run", Report()).config.train.select

    files(tmp_path)
    assert [selected(task) for task in TASKS] == ["loss", "loss", "exact_match", "accuracy", "accuracy"]
    (tmp_path / "pairs.txt").write_text("a\tthe cat sat on it\nb\ta dog ran off again\n" * 3)
    assert (selected("seq2seq"), selected("seq2seq", shard=True), selected("seq2seq", select="loss")) == ("bleu", "loss", "loss")
    (tmp_path / "pairs.txt").write_text("word\tW ER1 D Z AH L\nbook\tB UH1 K IH N G\n" * 3)
    assert selected("seq2seq") == "exact_match", "phonemes are no sentence"
    for task, select, said in (("lm", "accuracy", "expected auto, loss for lm"), ("classify", "best", "expected auto, loss")):
        with pytest.raises(ValueError, match=rf"train\.select: {said}"):
            config(task, tmp_path, select=select)
    with pytest.raises(ValueError, match=r"train\.select: a sharded model does not decode"):
        config("seq2seq", tmp_path, select="bleu", shard=True)


def test_predictions_are_counted_as_evaluation_counts_them(tmp_path: Path) -> None:
    (tmp_path / "pairs.txt").write_text("".join(f"{i} a\t{'x y z w v'[: 1 + 2 * (i % 5)]}\n" for i in range(20)))
    chosen = config("seq2seq", tmp_path, steps=300, eta=0.01, eval_every=300, select="bleu")
    outcome = train(chosen, tmp_path / "run")
    run = Run.load(tmp_path / "run")
    assert isinstance(run.model, EDTransformer)
    rows, expected = held_out(run), evaluate(run).figures
    exact, bleu = (decoded_figure(name, run.model, find("seq2seq"), rows, HERE, run.tokenizer) for name in ("exact_match", "bleu"))
    assert exact == expected["exact match"] and bleu == pytest.approx(expected["BLEU"])
    assert bleu > 0, "the model writes something of what it should"
    assert outcome.figures["val_bleu"] == pytest.approx(bleu) and "val_exact_match" not in outcome.figures
    saved = tomllib.loads((tmp_path / "run" / "config.toml").read_text())
    assert saved["train"]["select"] == "bleu"
