"""The demo, with less data and fewer steps."""

from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from transalg.cli import demo
from transalg.data import builtin

pytestmark = pytest.mark.slow


def test_the_demo_trains_uses_and_verifies_three_models(transalg: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, many in (("pydocs", 3), ("dates", 120), ("stdlib", 120)):
        made = builtin.NAMES[name]
        monkeypatch.setitem(builtin.NAMES, name, replace(made, make=lambda made=made, many=many: islice(made.make(), many)))
        sizes = {"H": 2, "d_e": 10} | ({"ell_max": 24} if name == "pydocs" else {})
        short = {"vocab_size": 300} if name == "pydocs" else {}
        monkeypatch.setitem(
            demo.RUNS, name, demo.RUNS[name] | short | {"model": sizes, "train": {"steps": 4, "batch_size": 8, "threads": 1}}
        )
    status, out, err = transalg("demo", "--out", str(tmp_path / "demo"))
    assert (status, err) == (0, "")
    flat = " ".join(out.split())
    for said in (
        "It continues a prompt",
        "› JULY 4TH, 1976 →",
        "are exactly right",
        "by naive Bayes",
        "by always predicting",
        "Now yours:",
    ):
        assert said in flat, said
    assert flat.count("equal") == 3 and "NOT equal" not in flat
    assert (tmp_path / "demo" / "curves.png").read_bytes().startswith(b"\x89PNG")
    assert all((tmp_path / "demo" / name / "best.safetensors").exists() for name in demo.RUNS)
