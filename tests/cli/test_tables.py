"""Tables on the command line: without a header, by name, by number."""

import json
from pathlib import Path
from typing import Any

import pytest

LABELLED = "".join(f"{label}\tthe {word} film number {i}\n" for i in range(6) for label, word in (("good", "fine"), ("bad", "dull")))
PAIRS = "".join(f"{i}{i},{i}\n" for i in range(10, 40))
TINY = ["--train.steps", "1", "--train.threads", "1", "--train.batch-size", "2", "--model.H", "2", "--model.d-e", "6"]


def train(transalg: Any, task: str, data: Path, *options: str) -> tuple[int, str, str]:
    layers = ["--model.L-enc", "1", "--model.L-dec", "1"] if task == "seq2seq" else ["--model.L", "1"]
    status, out, err = transalg("train", task, "--data", str(data), "--out", str(data.parent / "run"), *TINY, *layers, *options)
    return status, " ".join(out.split()), " ".join(err.split())


@pytest.mark.parametrize("flipped", [False, True])
def test_a_table_without_a_header_is_classified(transalg: Any, tmp_path: Path, flipped: bool) -> None:
    data = tmp_path / "x.tsv"
    rows = [line.split("\t") for line in LABELLED.splitlines()]
    data.write_text("".join("\t".join(row[::-1] if flipped else row) + "\n" for row in rows))
    status, out, err = train(transalg, "classify", data)
    assert (status, err) == (0, "") and "no header with text and label" in out and "Done: step 1," in out
    assert f"the first column is read as {'text, the second as label' if flipped else 'label, the second as text'}" in out
    status, out, _ = transalg("evaluate", str(tmp_path / "run"), "--data", str(data), "--json")
    assert status == 0 and json.loads(out)["texts"] == 12 and sorted(json.loads(out)["classes"]) == ["bad", "good"]


def test_columns_by_number(transalg: Any, tmp_path: Path) -> None:
    data = tmp_path / "x.csv"
    data.write_text("".join(f"{i},{line}\n".replace("\t", ",") for i, line in enumerate(LABELLED.splitlines())))
    status, _, err = train(transalg, "classify", data)
    assert status == 2 and "x.csv:1: expected a column 'text', got 0, good, the fine film number 0; name yours with --text-column" in err
    assert "or give the number of the column, from 1" in err and not (tmp_path / "run").exists()
    status, out, err = train(transalg, "classify", data, "--text-column", "3", "--label-column", "2")
    assert (status, err) == (0, "") and "columns by number (text and label: 3 and 2); the first line is data" in out


def test_a_table_without_a_header_is_translated(transalg: Any, tmp_path: Path) -> None:
    data = tmp_path / "x.csv"
    data.write_text(PAIRS)
    status, out, err = train(transalg, "seq2seq", data)
    assert (status, err) == (0, "") and "the first column is read as source, the second as target" in out


def test_a_vocabulary_from_a_column(transalg: Any, tmp_path: Path) -> None:
    (tmp_path / "x.tsv").write_text("zz\tab\nzz\tba\n")
    out = tmp_path / "tokenizer.json"
    status, printed, _ = transalg(
        "tokenizer", "train", "--kind", "char", "--data", str(tmp_path / "x.tsv"), "--text-column", "2", "--out", str(out)
    )
    assert status == 0 and "5 tokens" in printed and "the first line is data" in printed
