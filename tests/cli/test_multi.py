"""Several data sets through the command line: two tables, one run, a head for each."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

Transalg = Callable[..., tuple[int, str, str]]
LINES = ["a cat sat", "the dog ran", "on a mat", "for the cat", "a dog and a cat", "the mat", "sat on the dog", "ran far"]
SMALL = "--model.L 1 --model.H 2 --model.d-e 10 --model.d-mlp 13 --train.steps 4 --train.threads 1 --train.dtype float32 --split 0.25"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("multi")
    for name, word in (("cats", "cat"), ("dogs", "dog")):
        rows = [f"{line},{'yes' if word in line else 'no'}" for line in LINES * 2]
        (folder / f"{name}.csv").write_text("text,label\n" + "\n".join(rows) + "\n")
    return folder


def test_two_tables_one_run(folder: Path, transalg: Transalg) -> None:
    run, data = str(folder / "run"), [str(folder / "cats.csv"), str(folder / "dogs.csv")]
    status, shown, error = transalg("train", "multi", "--data", *data, "--weights", "1", "0.5", "--out", run, *SMALL.split())
    assert status == 0, error
    assert "--head cats" in shown and "accuracy of cats" in " ".join(shown.split())
    lines = [json.loads(line) for line in (folder / "run" / "metrics.jsonl").read_text().splitlines()]
    last = next(line for line in reversed(lines) if "val_accuracy" in line)
    assert last["val_accuracy"] == pytest.approx((last["val_accuracy_cats"] + last["val_accuracy_dogs"]) / 2)

    status, shown, _ = transalg("classify", run, "--text", "a cat", "--head", "dogs", "--json")
    assert status == 0 and set(json.loads(shown)["P"]) == {"yes", "no"}
    for words in (["classify", run, "--text", "a cat"], ["evaluate", run, "--data", data[0]]):
        status, _, error = transalg(*words)
        assert status == 2 and "expected one of the heads of" in error and "cats, dogs; got none" in " ".join(error.split())
    status, _, error = transalg("classify", run, "--text", "a", "--head", "birds")
    assert status == 2 and "cats, dogs; got birds" in " ".join(error.split())

    status, shown, _ = transalg("evaluate", run, "--data", data[0], "--head", "cats", "--json")
    assert status == 0 and json.loads(shown)["texts"] == 16 and set(json.loads(shown)["classes"]) == {"yes", "no"}
    status, shown, _ = transalg("evaluate", run, run, "--json")
    figures = json.loads(shown)
    assert status == 0 and figures["texts"] == 8
    assert figures["accuracy"] == pytest.approx((figures["accuracy of cats"] + figures["accuracy of dogs"]) / 2)
    for words in (["embed", run, "--text", "a cat"], ["verify", run]):
        status, _, error = transalg(*words)
        assert status == 0, error
    more = f"--init {run} --train.steps 1 --train.threads 1"
    status, shown, error = transalg("train", "classify", "--data", data[1], "--out", str(folder / "next"), *more.split())
    assert status == 0 and "new: W_c, b_c" in " ".join(shown.split()), error


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("multi --data cats.csv dogs.csv --weights 1", "--weights: expected 2, one for each data set (cats, dogs), got 1"),
        ("multi --data cats.csv dogs.csv --weights 1 -2", "--weights: expected numbers more than 0, got -2 for dogs"),
        ("multi --data cats.csv cats.csv", "--data: expected data sets of different names, got cats twice"),
        ("--data cats.csv dogs.csv classify", "--data: expected one for classify, got 2; several are for multi"),
    ],
)
def test_what_is_refused(folder: Path, transalg: Transalg, monkeypatch: pytest.MonkeyPatch, words: str, message: str) -> None:
    monkeypatch.chdir(folder)
    status, _, error = transalg("train", *words.split(), "--out", "other")
    assert status == 2 and message in " ".join(error.split()) and not (folder / "other").exists()
