"""`transalg.train`: texts of a Python program train as the same texts in files do, and the run is a run like any other."""

import json
from collections.abc import Iterator
from dataclasses import fields
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import torch

import transalg
from tests.training.runs import SIZES, WORDS
from transalg import cli
from transalg.runs import checkpoints
from transalg.runs.config import Config
from transalg.runs.options import TABLES, in_tables, override
from transalg.runs.texts import Texts
from transalg.training import notebook, start
from transalg.training.curves import curves, read_metrics
from transalg.training.machine import flushes_denormals

TINY = {**SIZES, "L": 1, "ell_max": 29, "tokenizer": "char", "split": 0.25, "steps": 4, "batch_size": 3, "eval_every": 2, "threads": 1}
QUIET = {**TINY, "dtype": "float32", "progress": False}


def main(monkeypatch: pytest.MonkeyPatch, *words: str) -> None:
    monkeypatch.setattr("sys.argv", ["transalg", *words])
    cli.main()


def weights(run: Path) -> dict[str, torch.Tensor]:
    return checkpoints.load(run / "last.safetensors")[0]


def assert_same(one: Path, other: Path) -> None:
    ours, theirs = weights(one), weights(other)
    assert ours.keys() == theirs.keys() and all(ours[name].equal(theirs[name]) for name in ours)


@pytest.mark.slow
def test_texts_train_as_the_same_texts_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "lines.jsonl").write_text("".join(json.dumps({"text": word}) + "\n" for word in WORDS), encoding="utf-8")
    transalg.train("lm", tmp_path / "lines.jsonl", out=tmp_path / "file", **QUIET)
    outcome = transalg.train("lm", iter(WORDS), out=tmp_path / "texts", **QUIET)
    assert_same(tmp_path / "file", tmp_path / "texts")
    assert outcome.reason == "done" and outcome.figures["val_loss"] > 0
    same = [load().generate("a", ell_gen=3, seed=0) for load in (outcome.load, lambda: transalg.load(tmp_path / "texts"))]
    assert same[0] == same[1] and transalg.load(tmp_path / "texts").score("a cat").total < 0


@pytest.mark.slow
def test_the_command_line_trains_the_same_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """And uses a run of Python's: it says the same, evaluates and resumes it."""
    monkeypatch.chdir(tmp_path)
    Path("texts.txt").write_text("".join(f"{word}\n" for word in WORDS), encoding="utf-8")
    own = {"documents", "tokenizer", "split"}
    flags = [f"--{'' if name in own else 'model.' if name in TABLES['model'] else 'train.'}{name}" for name in TINY]
    words = chain.from_iterable(zip(flags, map(str, TINY.values()), strict=True))
    command = ["train", "lm", "--data", "texts.txt", "--documents", "line", "--out", "shell", "--train.dtype", "float32", *words]
    main(monkeypatch, *command)
    of_shell = capsys.readouterr().out
    transalg.train("lm", "texts.txt", documents="line", out="python", dtype="float32", **TINY)
    of_python = capsys.readouterr().out
    assert_same(Path("shell"), Path("python"))
    shown = [line for line in of_python.splitlines() if line.startswith(("data ", "tokenizer ", "model ", "training "))]
    assert len(shown) == 4 and all(line in of_shell for line in shown)
    transalg.train("lm", WORDS, out="texts", **QUIET)
    main(monkeypatch, "evaluate", "texts")
    assert "loss" in capsys.readouterr().out
    main(monkeypatch, "train", "--out", "texts", "--resume", "--train.steps", "5")
    assert "Resuming at step 4" in capsys.readouterr().out


PAIRS = [(word, word[::-1]) for word in WORDS]
LABELS = [(word, "cat" if "cat" in word else "other") for word in WORDS]


@pytest.mark.parametrize(
    ("task", "data", "more"),
    [
        ("seq2seq", PAIRS, {"L_enc": 1, "L_dec": 1}),
        ("classify", {"review": [text for text, _ in LABELS], "stars": [label for _, label in LABELS]}, {}),
        ("multi", {"cats": LABELS, "again": (pair for pair in LABELS)}, {}),
    ],
)
def test_other_records(task: str, data: Any, more: dict[str, Any], tmp_path: Path) -> None:
    options = {name: value for name, value in QUIET.items() if name != "L" or task != "seq2seq"} | {"steps": 1} | more
    if task == "classify":
        options |= {"text_column": "review", "label_column": "stars"}
    outcome = transalg.train(task, data, out=tmp_path / "run", **options)
    run = outcome.load()
    if task == "seq2seq":
        assert isinstance(run.predict("a cat"), str)
    else:
        assert set(run.heads) == ({"cats", "again"} if task == "multi" else set())
        assert "cat" in " ".join(run.labels)


class Stopped(Exception):
    pass


@pytest.mark.slow
def test_a_run_resumes_with_the_same_texts_and_only_with_them(tmp_path: Path) -> None:
    seen: list[int] = []

    def stop(step: int, loss: float, tokens_per_second: float) -> None:
        seen.append(step)
        if step == 3:
            raise Stopped

    options = QUIET | {"save_every": 1}
    transalg.train("lm", WORDS, out=tmp_path / "whole", **options)
    with pytest.raises(Stopped):
        transalg.train("lm", WORDS, out=tmp_path / "run", on_step=stop, **options)
    assert seen == [1, 2, 3]
    for other, record in (([*WORDS[:4], "a rat", *WORDS[5:]], 5), (WORDS[:-1], 8), ([*WORDS, "more"], 9)):
        with pytest.raises(ValueError, match=f"data, record {record}: is not what it was when .*run was started"):
            transalg.train("lm", other, out=tmp_path / "run", resume=True, **options)
    transalg.train("lm", iter(WORDS), out=tmp_path / "run", resume=True, **options)
    assert_same(tmp_path / "whole", tmp_path / "run")
    again = transalg.train(out=tmp_path / "run", resume=True, steps=5, progress=False)
    assert again.state.step == 5


def test_callbacks(tmp_path: Path) -> None:
    steps: list[tuple[int, float]] = []
    validations: list[tuple[int, dict[str, float], bool]] = []
    transalg.train(
        "lm",
        WORDS,
        out=tmp_path / "run",
        on_step=lambda step, loss, _: steps.append((step, loss)),
        on_validation=lambda *figures: validations.append(figures),
        **QUIET,
    )
    assert [step for step, _ in steps] == [1, 2, 3, 4] and all(loss > 0 for _, loss in steps)
    assert [step for step, _, _ in validations] == [2, 4] and validations[0][1]["val_loss"] > 0 and validations[0][2] is True


def broken() -> Iterator[str]:
    yield "a cat"
    raise Stopped


@pytest.mark.parametrize("data", [broken(), ["a", 7], [" ", "\n"]], ids=["iterator", "number", "nothing"])
def test_nothing_is_left_of_what_could_not_start(data: Any, tmp_path: Path) -> None:
    with pytest.raises((ValueError, Stopped)):
        transalg.train("lm", data, out=tmp_path / "run", **QUIET)
    assert not (tmp_path / "run").exists()


def test_a_run_is_overwritten_as_a_whole_or_not_at_all(tmp_path: Path) -> None:
    out = tmp_path / "run"
    transalg.train("lm", WORDS, out=out, valid=["a cat"], **QUIET)
    before = {path.name: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    with pytest.raises(ValueError, match="exists already"):
        transalg.train("lm", broken(), out=out, **QUIET)
    with pytest.raises(Stopped):
        transalg.train("lm", broken(), out=out, overwrite=True, **QUIET)
    with pytest.raises(ValueError, match="nothing but white space"):
        transalg.train("lm", [" "], out=out, overwrite=True, **QUIET)
    assert {path.name: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before
    transalg.train("lm", WORDS[:5], out=out, overwrite=True, **QUIET)
    assert sorted(path.name for path in (out / "texts").iterdir()) == ["data.jsonl"]
    assert len((out / "texts" / "data.jsonl").read_text(encoding="utf-8").splitlines()) == 5


def test_texts_that_cannot_be_written_leave_those_before(tmp_path: Path) -> None:
    with Texts({"data.jsonl": ["one", "two"]}).written(tmp_path / "run"):
        pass
    with pytest.raises(Stopped), Texts({"data.jsonl": broken()}).written(tmp_path / "run"):
        pass
    with pytest.raises(ValueError, match="later"), Texts({"data.jsonl": ["three"]}).written(tmp_path / "run"):
        raise ValueError("later")
    assert [path.read_text(encoding="utf-8") for path in (tmp_path / "run").rglob("*") if path.is_file()] == ["one\ntwo\n"]


def test_folds(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"transalg\.cross_validate trains on all folds"):
        transalg.train("classify", LABELS, out=tmp_path / "run", folds=2, **QUIET)
    folds: list[int] = []
    outcomes = transalg.cross_validate(
        "classify", iter(LABELS), out=tmp_path / "run", folds=2, on_fold=folds.append, **QUIET | {"steps": 1}
    )
    assert folds == [1, 2] and [outcome.out.name for outcome in outcomes] == ["fold-1", "fold-2"]
    assert sum(outcome.figures["val_rows"] for outcome in outcomes) == len(LABELS)


@pytest.mark.slow
def test_torch_is_left_as_it_was(tmp_path: Path) -> None:
    threads = torch.get_num_threads()
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    flushed, before = list[bool](), flushes_denormals()
    steps = {"on_step": lambda *_: flushed.append(flushes_denormals())}
    transalg.train("lm", WORDS, out=tmp_path / "run", **QUIET | steps | {"threads": threads + 1, "steps": 1})
    assert torch.get_num_threads() == threads and torch.rand(3).equal(expected)
    assert flushes_denormals() == before and flushed == [torch.set_flush_denormal(before)], "where the CPU can do so"


# Options ---------------------------------------------------------------------------------------------------------------


def test_a_name_is_in_one_table_only() -> None:
    """So that options can be named alone."""
    of_run = {each.name for each in fields(Config)}
    assert not TABLES["train"] & TABLES["model"] and not of_run & (TABLES["train"] | TABLES["model"])


def test_options_by_name_and_in_tables_are_the_same() -> None:
    alone, nested = in_tables({"steps": 5, "d_e": 8, "pack": True}), in_tables({"train": {"steps": 5}, "model": {"d_e": 8}, "pack": True})
    assert alone == nested == {"train": {"steps": 5}, "model": {"d_e": 8}, "pack": True}


def test_what_a_file_derives_from_an_option_goes_with_it() -> None:
    file = {"task": "lm", "model": {"d_e": 8, "d_mlp": 32, "L": 3}, "train": {"epochs": 2.0, "warmup": 4, "eta": 0.1, "seed": 1}}
    changed = override(file, {"model": {"d_e": 16}, "train": {"steps": 9}})
    assert changed == {"task": "lm", "model": {"L": 3, "d_e": 16}, "train": {"seed": 1, "steps": 9}}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lr": 0.1}, "lr: there is no such option; did you mean train.eta?"),
        ({"steps": -1}, "train.steps: expected a whole number from 1 to 1,000,000,000, got -1"),
        ({"train": 3}, "train: expected a table of options, got 3"),
    ],
)
def test_bad_options_are_refused_before_the_texts_are_read(options: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message.replace("?", r"\?")):
        transalg.train("lm", broken(), out=tmp_path / "run", **options)


def test_the_command_line_is_a_layer_on_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """`transalg train` gives its options to the same function."""
    given: dict[str, Any] = {}
    monkeypatch.setattr(
        start, "train", lambda config, out, **how: given.update(config=config, out=out, **how) or (_ for _ in ()).throw(Stopped)
    )
    with pytest.raises(Stopped):
        main(monkeypatch, "train", "lm", "--data", "pydocs", "--out", str(tmp_path / "run"), "--train.steps", "7", "--model.d-e", "8")
    assert given["config"] == Config.from_dict({"task": "lm", "data": "pydocs", "train": {"steps": 7}, "model": {"d_e": 8}})
    assert given["texts"] is None and given["out"] == tmp_path / "run"


def test_curves_of_several_tasks(tmp_path: Path) -> None:
    """Each has its own validation loss, on a scale that shows small ones; their mean is not drawn."""
    metrics = [{"step": step, "loss": 1.0, "val_loss": 0.3, "val_loss_car": 0.05, "val_loss_prose": 4.0 - step} for step in (1, 2)]
    above, below = curves({"runs/a": metrics, "runs/b": [{"step": 1, "loss": 1.0}, {"step": 2, "loss": 0.5, "eta": 0.1}]}).axes
    assert [line.get_label() for line in above.get_lines() if not line.get_label().startswith("_")] == ["a, car", "a, prose", "b"]
    assert above.get_yscale() == "log" and [line.get_ydata().tolist() for line in above.get_lines()][2] == [3.0, 2.0]
    assert len({line.get_color() for line in above.get_lines()}) == 3 and below.get_yscale() == "linear"


# Notebooks -------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_notebook_shows_a_bar_and_the_curves(tmp_path: Path) -> None:
    shown: list[str] = []
    report = notebook.Notebook(tmp_path / "run", shown.append)
    transalg.train("lm", WORDS, out=tmp_path / "run", **QUIET | {"progress": report})
    assert '<progress value="0" max="4">' in "".join(shown) and '<progress value="4" max="4">' in shown[-1]
    assert "data:image/png;base64," in shown[-1] and "step      2  validation" in shown[-1] and "training " in shown[-1]
    assert read_metrics(tmp_path / "run")[-1]["step"] == 4


def test_this_is_no_notebook() -> None:
    assert not notebook.in_notebook()
