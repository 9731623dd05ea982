"""transalg clean, through the command line."""

import json
from math import exp, log
from pathlib import Path
from typing import Any

import pytest

import transalg as package
from tests.training.runs import config, files
from transalg.cli.clean import language_model
from transalg.data.cleaning import NAMES, REASONS
from transalg.training.start import train

ROWS = [
    {"id": 1, "text": "The  cat sat on the mat.", "label": "a"},
    {"id": 2, "text": "The cat sat on the mat.", "label": "a"},
    {"id": 3, "text": "The cat sat on the mat!", "label": "a"},
    {"id": 5, "text": "The cat sat on the mat.", "label": "b"},
    {"id": 7, "text": "\u00a0", "label": "b"},
    {"id": 11, "text": "A dog", "label": "b"},
    {"id": 13, "text": "Seven rivers run to the sea", "label": "b"},
]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "x.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return path


def rows(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_the_report(transalg: Any, data: Path) -> None:
    out, removed = data.with_name("y.jsonl"), data.with_name("r.jsonl")
    status, printed, err = transalg(
        "clean", str(data), "--out", str(out), "--removed", str(removed), "--near", "0.7", "--min-words", "3", "--shingle-size", "3"
    )
    assert (status, err) == (0, "")
    assert [row["id"] for row in rows(out)] == [1, 13]
    assert [(row["row"], row["reason"]) for row in rows(removed)] == [
        (2, "duplicate"),
        (3, "near"),
        (4, "contradiction"),
        (5, "empty"),
        (6, "min_words"),
    ]
    assert printed.splitlines() == [
        f"7 rows in {data}",
        "1 removed: empty",
        "    row 5: ''",
        "1 removed: too few words",
        "    row 6: 'A dog'",
        "1 removed: duplicate",
        "    row 2, as row 1: 'The cat sat on the mat.'",
        "1 removed: duplicate with another label",
        "    row 4, as row 1: 'The cat sat on the mat.'",
        "1 removed: near-duplicate",
        "    row 3, as row 1: 'The cat sat on the mat!'",
        f"2 rows in {out}, 1 of them with a changed text",
        "1 of the removed rows had another label than an equal text; --drop-contradictions removes that too",
    ]
    status, printed, _ = transalg("clean", str(data), "--out", str(out), "--json", "--drop-contradictions")
    report = json.loads(printed)
    assert status == 0 and report["removed"] == {"empty": 1, "duplicate": 1, "contradiction": 2} and report["left"] == 3
    assert report["examples"]["contradiction"]["row"] == 1 and report["rows"] == 7 and report["contradictions"] == 1
    assert [row["id"] for row in rows(out)] == [3, 11, 13]


def test_columns_by_name_and_number(transalg: Any, tmp_path: Path) -> None:
    data, out = tmp_path / "x.csv", tmp_path / "y.csv"
    data.write_text("one,a  b\ntwo,c\nthree,a b\n")
    status, _, err = transalg("clean", str(data), "--out", str(out))
    assert status == 2 and "x.csv: expected columns text, text and label, or source and target; got one, a  b" in err and not out.exists()
    status, _, err = transalg("clean", str(data), "--out", str(out), "--records", "documents", "--text-column", "2")
    assert status == 0 and "the first line is data" in err and out.read_text() == "one,a b\ntwo,c\n"
    data.write_text("q,en,de\n1,a,b c\n2,a,b\n")
    columns = ("--source-column", "en", "--target-column", "de")
    status, printed, _ = transalg("clean", str(data), "--out", str(out), *columns, "--max-ratio", "2")
    assert status == 0 and out.read_text() == "q,en,de\n2,a,b\n" and "removed: texts of a pair too unequal" in printed


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["x.jsonl", "--out", "x.jsonl"], "--out: expected another file than the data, got x.jsonl"),
        (["x.jsonl", "--out", "link.jsonl"], "--out: expected another file than the data, got link.jsonl"),
        (["x.jsonl", "--out", "y.jsonl", "--removed", "x.jsonl"], "--removed: expected another file than the data"),
        (["x.jsonl", "--out", "y.jsonl", "--removed", "y.jsonl"], "--removed: expected another file than --out"),
        (["x.jsonl", "--out", "no/y.jsonl"], "no/y.jsonl: expected a file in a folder that exists"),
        (["x.jsonl", "--out", "y.csv"], "--out: expected a file of the form of the data, *.jsonl, got y.csv"),
        (["none.txt", "--out", "y.txt"], "none.txt: no such file or folder"),
        (["folder", "--out", "y.txt"], "--out: expected a .jsonl for the files of a folder"),
        (["folder", "--out", "folder/y.jsonl"], "--out: expected a file outside of the data's folder"),
        (["folder", "--out", "y.txt", "--records", "pairs"], "folder: expected a file of lines with source and target, got a folder"),
        (["tables", "--out", "y.jsonl"], "t.csv: expected only text files in a folder"),
        (["folder/a.txt", "--out", "y.csv"], "--out: expected a text file or JSON lines, got y.csv"),
        (["folder/a.txt", "--out", "y.jsonl", "--records", "pairs"], "--out: expected a text file, as the data, got y.jsonl"),
        (["folder/a.txt", "--out", "y.txt", "--records", "pairs"], "a.txt:1: expected source, a tab, target, got no tab"),
        (["folder/a.txt", "--out", "y.txt", "--drop-contradictions"], "--drop-contradictions: expected texts with labels, got documents"),
        (["x.jsonl", "--out", "y.jsonl", "--max-ratio", "2"], "--max-ratio: expected pairs, got labelled"),
        (["x.jsonl", "--out", "y.jsonl", "--near", "2"], "--near: expected a number in (0, 1], got 2.0"),
        (["x.jsonl", "--out", "y.jsonl", "--keep", "0.5"], "--model: expected a run of lm, for --max-perplexity and --keep, got nothing"),
        (["x.jsonl", "--out", "y.jsonl", "--model", "run"], "--model: expected --max-perplexity or --keep with it, got neither"),
        (["x.jsonl", "--out", "y.jsonl", "--min-chars", "99"], "no row would stay (1 empty, 6 too few characters); nothing is written"),
        (["half.jsonl", "--out", "y.jsonl"], "half.jsonl:1: half of a surrogate pair"),
        (["bad.jsonl", "--out", "y.jsonl", "--removed", "r.jsonl"], "bad.jsonl:2: not JSON"),
    ],
)
def test_errors(transalg: Any, data: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str) -> None:
    monkeypatch.chdir(data.parent)
    Path("folder").mkdir()
    Path("folder/a.txt").write_text("a cat\n")
    Path("tables").mkdir()
    Path("tables/t.csv").write_text("text\na\n")
    Path("link.jsonl").symlink_to(data)
    Path("bad.jsonl").write_text('{"text": "a"}\n{\n')
    Path("half.jsonl").write_text('{"text": "a  b", "more": "\\ud800"}\n')
    before = {path: path.read_bytes() for path in data.parent.rglob("*") if path.is_file()}
    status, printed, err = transalg("clean", *arguments)
    assert (status, printed) == (2, "") and message in err and err.count("\n") <= 2
    assert {path: path.read_bytes() for path in data.parent.rglob("*") if path.is_file()} == before


def test_a_file_is_one_document(transalg: Any, tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text("a cat\n\n\n\na cat\n")
    status, printed, _ = transalg("clean", str(tmp_path / "x.txt"), "--out", str(tmp_path / "y.txt"))
    assert status == 0 and "A file is one document; with --documents paragraph or line its parts are" in printed
    assert (tmp_path / "y.txt").read_text() == "a cat\n\na cat\n"


def test_every_rule_has_words() -> None:
    assert tuple(REASONS) == NAMES


@pytest.mark.slow
def test_a_language_model_scores(transalg: Any, tmp_path: Path) -> None:
    folder = files(tmp_path)
    for task in ("lm", "mlm"):
        train(config(task, folder), folder / task)
    lines = ["a cat sat on the mat", "tttttnnnnnddddd", "the dog ran", "ΩΩΩΩ", "a dΩg ran"]
    (tmp_path / "x.txt").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    model = package.load(folder / "lm")
    losses = language_model(folder / "lm", "cpu")(lines)
    guess = log(model.tokenizer.N_V)
    expected = [-model.score(line).total / len(line) for line in lines[:3]]
    expected += [guess, (guess - model.score("a dg ran").total) / 9]  # what the vocabulary lacks is guessed
    assert losses == pytest.approx(expected, rel=1e-5)  # one batch or single rows
    run = ("clean", str(tmp_path / "x.txt"), "--out", str(tmp_path / "y.txt"), "--documents", "line", "--model", str(folder / "lm"))
    status, printed, _ = transalg(*run, "--keep", "0.4", "--removed", str(tmp_path / "r.jsonl"))
    best = sorted(losses)[:3]
    assert status == 0 and (tmp_path / "y.txt").read_text().splitlines() == [
        line for line, loss in zip(lines, losses, strict=True) if loss in best[:2]
    ]
    assert "3 removed: loss not among the lowest" in printed and ", perplexity " in printed
    assert [(row["reason"], log(row["perplexity"])) for row in rows(tmp_path / "r.jsonl")] == [
        ("keep", pytest.approx(loss)) for loss in losses if loss not in best[:2]
    ]
    status, printed, _ = transalg(*run, "--max-perplexity", str(exp((best[1] + best[2]) / 2)))
    assert status == 0 and len((tmp_path / "y.txt").read_text().splitlines()) == 2 and "3 removed: perplexity too high" in printed
    status, _, err = transalg(*run[:-1], str(folder / "mlm"), "--keep", "0.4")
    assert status == 2 and "--model: expected a language model, got a run of mlm" in err
