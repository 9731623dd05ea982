"""The benchmark of §8's practice has a row for every item, and its commands are understood. Nothing is trained here."""

import doctest
import importlib
import json
import random
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks import practice
from benchmarks.practice import ROWS, SIDES, TASKS, WITHOUT_A_ROW, Outcome, combined, command, digits, dirty, parsed, problem
from transalg.data.cleaning import Rules, decide, normalise

PAPER = Path(__file__).parents[2] / "shared" / "paper" / "formal-algorithms-for-transformers.tex"
ITEMS = [
    *("cleaning", "augmentation", "adding noise", "shuffling"),
    *("sparse layers", "weight sharing"),
    *("improved optimizers", "minibatches", "batch normalization", "learning rate scheduling", "weight initialization"),
    *("pre-training", "ensembling", "multi-task", "adversarial"),
    *("weight decay", "early stopping", "cross-validation", "dropout", "adding noise"),
    *("scratchpad prompting", "few-shot prompting", "chain of thought", "majority voting"),
    "Others",
]


def test_the_items_are_those_of_the_paper() -> None:
    if not PAPER.exists():
        pytest.skip("the paper's source is not here")
    section = re.search(r"label\{sec:practice\}.*?\\end\{itemize\}", PAPER.read_text(encoding="utf-8"), re.S)
    assert section
    named = list[str]()
    for part in re.findall(r"\\item \{\\bf (.*)", section[0]):
        name, _, items = re.sub(r" *\\cite\w*\{.*?\}| *\(.*?\)", "", part).partition("}")
        named += [" ".join(item.split()) for item in items.strip(" .").split(",")] if items.strip() else [name.strip(".")]
    assert named == ITEMS


def test_every_item_has_a_row_or_a_reason() -> None:
    rows = Counter(row.item for row in ROWS)
    assert set(rows) | set(WITHOUT_A_ROW) == set(ITEMS) and not set(rows) & set(WITHOUT_A_ROW)
    assert all(rows[item] >= count for item, count in Counter(ITEMS).items() if item not in WITHOUT_A_ROW)
    assert len({row.name for row in ROWS}) == len(ROWS) and {row.task for row in ROWS} == set(TASKS)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_flags_are_understood(row: practice.Row) -> None:
    assert problem(row) == ""
    if row.measure is None:
        assert command(row, "without") != command(row, "with")
        assert row.flag.split()[0] in [word for side in SIDES for word in command(row, side)]


def test_the_commands_of_both_sides_are_printed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.argv", ["practice", "--commands", "minibatches", "noise"])
    practice.main()
    noise, without, with_it, minibatches, *_ = capsys.readouterr().out.splitlines()
    assert (noise, minibatches) == ("noise", "minibatches") and "--train.noise" not in without and "--train.noise 0.1" in with_it


def test_what_is_wrong_with_flags_is_said() -> None:
    row = next(row for row in ROWS if row.name == "noise")
    assert problem(replace(row, flags="--train.nosie 0.1")) == "this version does not take --train.noise"
    assert problem(replace(row, flags="--train.noise 2")) == "train.noise: expected a number in [0, 1), got 2.0"
    assert problem(replace(row, task="lm")).startswith("--train.noise, --train.token-drop: for ")


@pytest.mark.parametrize("row", [row for row in ROWS if row.statement], ids=lambda row: row.name)
def test_formal_statements_exist(row: practice.Row) -> None:
    module, name = row.statement.split(".")
    assert callable(getattr(importlib.import_module(f"transalg.formal.{module}"), name))


def test_a_flag_may_have_several_values() -> None:
    assert combined("--model.mask-split 1 0 0 --train.no-shuffle", "--init 'a b'") == [
        *("--model.mask-split", "1", "0", "0", "--train.no-shuffle", "--init", "a b")
    ]


def test_the_examples_in_docstrings() -> None:
    assert doctest.testmod(practice) == (0, 3)


# Data ------------------------------------------------------------------------------------------------------------------


def test_sums_digit_by_digit() -> None:
    assert digits(999, 1) == ["0+9+1=10", "1+9+0=10", "1+9+0=10"]


def test_sums_that_are_tested_were_not_trained_on(tmp_path: Path) -> None:
    practice.arithmetic(tmp_path, random.Random(0), 53)
    documents = (tmp_path / "sums.txt").read_text().split("\n\n")
    questions = [json.loads(line) for line in (tmp_path / "sums.jsonl").read_text().splitlines()]
    assert len(questions) == 53 and not {row["input"] for row in questions} & set(re.findall(r"\d+\+\d+(?=\n)", "\n".join(documents)))
    for task in ("sums", "tables"):
        ell_max, texts = int(parsed(TASKS[task].flags)["--model.ell-max"][0]), (tmp_path / f"{task}.txt").read_text().split("\n\n")
        assert max(map(len, texts)) + 2 <= ell_max, "bos, a document and eos are a row"
    assert all(eval(row["input"]) == int(row["output"]) for row in questions)


def test_cleaning_undoes_what_was_spoilt() -> None:
    rows = [{"text": f"what is the number {i} ?", "label": "ab"[i % 2]} for i in range(41)]
    mixed = dirty(rows, random.Random(0))
    assert len(mixed) == 81 and {row["text"] for row in rows} < {row["text"] for row in mixed}
    records = [((normalise(row["text"], Rules()),), row["label"]) for row in mixed]
    reason = decide(records, Rules(drop_contradictions=True)).reason
    left = [{"text": texts[0], "label": label} for (texts, label), each in zip(records, reason, strict=True) if each < 0]
    assert 20 < len(left) < 41 and all(row in rows for row in left)


# The table -------------------------------------------------------------------------------------------------------------


def test_sides_take_turns_and_results_become_a_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    order = list[tuple[str, int]]()

    def measure(_: Any, row: practice.Row, side: practice.Side, seed: int) -> Outcome:
        order.append((side, seed))
        return Outcome(2.0 + seed if side == "without" else 1.5, 11.0 + seed)

    rows = [replace(row, measure=measure) for row in ROWS if row.name in ("sparse", "tied")]
    monkeypatch.setattr(practice, "ROWS", rows)
    monkeypatch.setattr(practice, "DATA", tmp_path)
    practice._measure(rows[0], practice.Bench(tmp_path), 3)
    assert capsys.readouterr().out == "sparse: skipped; lm/tinyshakespeare.txt is not here\n" and not order
    (tmp_path / "lm").mkdir()
    (tmp_path / "lm" / "tinyshakespeare.txt").touch()
    for row in rows[::-1]:
        practice._measure(row, practice.Bench(tmp_path), 3)
    assert order[:6] == [("without", 0), ("with", 0), ("with", 1), ("without", 1), ("without", 2), ("with", 2)]
    printed = capsys.readouterr().out.splitlines()
    line = "| `--model.band 16` | `mask.sparse` | lm | 3.000 (2.000–4.000) → 1.500 (1.500–1.500) | 12 → 12 |"
    assert printed[1] == "| sparse layers " + line
    assert practice.table(tmp_path / "results.jsonl").splitlines() == [*practice.head().splitlines(), *printed[::-1]]
    (tmp_path / "bad.jsonl").write_text('{"row": "tied"}\n')
    with pytest.raises(SystemExit, match=r"bad.jsonl:1: not a result of this benchmark"):
        practice.table(tmp_path / "bad.jsonl")


def test_shares_are_per_cent() -> None:
    result = practice.Result("dropout", {"without": [0.5], "with": [0.613]}, {"without": [1.0], "with": [2.0]})
    assert "50.0 % (50.0–50.0) → 61.3 % (61.3–61.3) | 1 → 2 |" in practice.line(result)
