"""metrics.jsonl: lines that are none are dropped when a run continues, and refused by number when they are drawn."""

from pathlib import Path

import pytest

from transalg.training.curves import read_metrics
from transalg.training.metrics import forget_after, last_step

GOOD = '{"step": 1, "tokens": 3, "seconds": 0.5, "loss": 2.5}'
NONE = [
    "3",
    "null",
    "[]",
    '"step"',
    "{}",
    '{"step": "1"}',
    '{"step": null}',
    '{"step": true}',
    "[" * 10**5,
    "{",
    '{"step": ' + "9" * 5000 + "}",
]


@pytest.mark.parametrize("line", NONE, ids=lambda line: line[:15])
def test_lines_that_are_none(line: str, tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text(f"{GOOD}\n{line}\n{GOOD}\n")
    with pytest.raises(ValueError, match=r"metrics\.jsonl:2: ") as caught:
        read_metrics(tmp_path)
    assert len(str(caught.value)) < 400
    assert last_step(tmp_path) == 1
    forget_after(tmp_path, 1)
    assert path.read_text() == f"{GOOD}\n{GOOD}\n" and len(read_metrics(tmp_path)) == 2


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"loss": 2.5', '"loss": "low"', "metrics.loss: expected a finite number, got 'low'"),
        ('"loss": 2.5', '"loss": NaN', "metrics.loss: expected a finite number, got nan"),
        ('"tokens": 3, ', "", "metrics.tokens: is missing"),
        ('"step": 1', '"step": -1', "metrics.step: expected a whole number of 0 or more, got -1"),
    ],
)
def test_values_that_cannot_be_drawn(old: str, new: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_text(f"{GOOD}\n{GOOD.replace(old, new)}\n")
    with pytest.raises(ValueError, match=rf"metrics\.jsonl:2: {said}"):
        read_metrics(tmp_path)


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_bytes(b"{}\n\xff\n")
    for read in (read_metrics, last_step):
        with pytest.raises(ValueError, match=r"metrics\.jsonl: expected UTF-8, got the byte 0xff at 3"):
            read(tmp_path)
