"""Batches as the losses take them, validation, augmentation, fine-tuning, folds, early stopping."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.training.runs import TASKS, WORDS, config, files
from transalg.data.rows import Batch
from transalg.hyper import DHyper
from transalg.runs import checkpoints
from transalg.runs import folder as run_folder
from transalg.tasks import find
from transalg.tasks.examples import augmented
from transalg.training.start import train
from transalg.verify.cases import small

HYPER = small(DHyper)


def batch(rows: list[list[int]], classes: bool = False) -> Batch:
    lengths = np.array([len(row) for row in rows])
    ids = np.full((len(rows), lengths.max()), 7)
    for i, row in enumerate(rows):
        ids[i, : len(row)] = row
    return Batch({"x": (ids, lengths)}, np.arange(len(rows)) if classes else None)


ROWS = [[HYPER.bos_token, 1, 2, 3, HYPER.eos_token], [HYPER.bos_token, 4, HYPER.eos_token], [HYPER.bos_token, 5, 6, HYPER.eos_token]]


def test_parts_are_all_rows_once() -> None:
    example = find("classify").example(batch(ROWS, classes=True), HYPER, 0)
    seen = []
    for i in range(4):
        (x, c, lengths), has_rows = example.part(i, 4, torch.device("cpu"))
        assert has_rows == (i < 3) and x.shape == (1, max(lengths))
        seen += c.tolist() if has_rows else []
    assert sorted(seen) == [0, 1, 2] and example.count == 3


def test_augmentation_spares_the_ends_and_nothing_else() -> None:
    rows = [[HYPER.bos_token, *([i % 19 for i in range(200)]), HYPER.eos_token], ROWS[1]]
    plain = batch(rows)
    same = augmented(plain, "x", HYPER, 0.0, 0.0, 1)
    assert same is plain
    noisy, lengths = augmented(plain, "x", HYPER, 0.5, 0.0, 1).streams["x"]
    changed = (noisy[0, 1:201] != plain.streams["x"][0][0, 1:201]).mean()
    assert lengths.tolist() == [202, 3] and 0.35 < changed < 0.6 and noisy[0, :202].max() == HYPER.eos_token
    assert noisy[0, 0] == HYPER.bos_token and noisy[0, 201] == HYPER.eos_token and (noisy[0, 1:201] < HYPER.mask_token).all()
    dropped, lengths = augmented(plain, "x", HYPER, 0.0, 0.3, 1).streams["x"]
    assert 110 < lengths[0] < 170 and dropped[0, 0] == HYPER.bos_token and dropped[0, lengths[0] - 1] == HYPER.eos_token
    remaining = dropped[0, 1 : lengths[0] - 1].tolist()
    rest = iter(rows[0][1:-1])
    assert all(one in rest for one in remaining), "what is kept is in its old order"
    again = augmented(plain, "x", HYPER, 0.0, 0.3, 1).streams["x"]
    assert again[0].tolist() == dropped.tolist() and augmented(plain, "x", HYPER, 0, 0.3, 2).streams["x"][1][0] != lengths[0]


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS)
def test_a_model_learns(task: str, tmp_path: Path) -> None:
    files(tmp_path)
    often = {"p_mask": 0.5} if task == "mlm" else {}
    eta = 0.005 if task == "mlm" else 0.02
    outcome = train(config(task, tmp_path, often, steps=60, eta=eta, eval_every=20), tmp_path / "run")
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    losses = [line["loss"] for line in lines if "loss" in line]
    assert len(losses) == 60 and sum(losses[-15:]) < 0.9 * sum(losses[:15])
    evaluations = [line for line in lines if "val_loss" in line]
    assert [line["step"] for line in evaluations] == [20, 40, 60]
    select = "val_exact_match" if task == "seq2seq" else "val_accuracy" if find(task).has_labels else "val_loss"
    best = min(evaluations, key=lambda line: (-line[select] if select != "val_loss" else 0, line["val_loss"]))
    assert outcome.figures == outcome.state.best and outcome.state.best_step == best["step"]
    assert outcome.figures == {name: value for name, value in best.items() if name.startswith("val")}
    metadata = run_folder.model_metadata(tmp_path / "run")
    assert metadata.val_loss == outcome.figures["val_loss"] and metadata.task == task and metadata.step == outcome.state.best_step
    assert ("val_accuracy" in outcome.figures) == find(task).has_labels
    assert all(line["tokens"] > 0 and line["seconds"] > 0 for line in lines)


def test_early_stopping_and_the_best_model(tmp_path: Path) -> None:
    files(tmp_path)
    outcome = train(config("lm", tmp_path, steps=400, eta=0.3, warmup=0, eval_every=1, patience=3, clip=0), tmp_path / "run")
    assert outcome.reason == "patience" and outcome.state.step == outcome.state.best_step + 3 < 400
    assert run_folder.model_metadata(tmp_path / "run").step == outcome.state.best_step
    assert checkpoints.load_metadata(tmp_path / "run" / "last.safetensors").state["step"] == outcome.state.step


def test_folds_validate_on_every_record_once(tmp_path: Path) -> None:
    files(tmp_path)
    seen = []
    for fold in (1, 2, 3, 4):
        from transalg.training.prepare import prepare
        from transalg.training.report import Report

        prepared = prepare(replace(config("classify", tmp_path), folds=4, fold=fold), tmp_path / "run", Report())
        assert prepared.valid is not None and len(prepared.valid) == 2 and len(prepared.train.rows()) == 6
        ids, lengths = prepared.valid.batch(np.arange(2)).streams["x"]
        seen += [prepared.tokenizer.decode(row[:length].tolist()) for row, length in zip(ids, lengths, strict=True)]
    assert sorted(seen) == sorted(WORDS)


def test_fine_tuning_starts_from_the_other_model(tmp_path: Path) -> None:
    files(tmp_path)
    train(config("mlm", tmp_path, steps=3), tmp_path / "first")
    chosen = replace(config("classify", tmp_path, steps=1, eta=1e-12, warmup=0), init=str(tmp_path / "first"), tokenizer="", model={})
    train(chosen, tmp_path / "second")
    first, second = run_folder.model_tensors(tmp_path / "first"), run_folder.model_tensors(tmp_path / "second")
    shared = first.keys() & second.keys()
    assert second.keys() - first.keys() == {"W_c", "b_c"} and len(shared) > 10
    assert all(torch.allclose(first[name], second[name], atol=1e-9) for name in shared)
    assert (tmp_path / "first" / "tokenizer.json").read_text() == (tmp_path / "second" / "tokenizer.json").read_text()
    with pytest.raises(ValueError, match="belong to its own tokenizer"):
        train(replace(chosen, tokenizer="word"), tmp_path / "third")
    with pytest.raises(ValueError, match="a model of Algorithm 9; lm takes Algorithm 10"):
        train(replace(config("lm", tmp_path), init=str(tmp_path / "first"), tokenizer="", model={}), tmp_path / "third")
    with pytest.raises(ValueError, match="there is none"):
        train(replace(chosen, init=str(tmp_path / "none")), tmp_path / "third")
    assert not (tmp_path / "third").exists()


def test_a_loss_that_is_no_number_ends_the_run(tmp_path: Path) -> None:
    files(tmp_path)
    chosen = config("lm", tmp_path, {"norm_first": False}, steps=200, eta=1000.0, optimizer="sgd", clip=0, loss="sum", warmup=0)
    with pytest.raises(ValueError, match=r"is (nan|inf) at step \d+: start over with a smaller --train\.eta \(it was"):
        train(chosen, tmp_path / "run")


@pytest.mark.slow
def test_bfloat16_computes_in_bfloat16_and_keeps_float32(tmp_path: Path) -> None:
    files(tmp_path)
    for task in TASKS:
        outcome = train(config(task, tmp_path, dtype="bfloat16", steps=8), tmp_path / task)
        exact = train(config(task, tmp_path, dtype="float32", steps=8), tmp_path / f"{task}-32")
        losses = outcome.figures["val_loss"], exact.figures["val_loss"]
        assert losses[0] == pytest.approx(losses[1], rel=0.05) and losses[0] != losses[1]
        assert all(tensor.dtype == torch.float32 for tensor in run_folder.model_tensors(tmp_path / task).values())


def test_bad_devices_are_named(tmp_path: Path) -> None:
    files(tmp_path)
    for device in ("cuda:99", "tpu", "meta", "cpu:99", "cuda:x", "cuda:99999999999999999999", ""):
        said = "is not available on this machine" if device == "cuda:99" else f"expected cpu, cuda, cuda:1, mps or auto, got '{device}'"
        with pytest.raises(ValueError, match=f"^device: .*{said}"):
            train(config("lm", tmp_path, device=device), tmp_path / "run")
    assert not (tmp_path / "run").exists()
