"""The programs of examples/ run, at a tiny size."""

import importlib.util
import re
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from tests.training.runs import SIZES
from transalg.formal import DTransformer

EXAMPLES = Path(__file__).parents[1] / "examples"
TINY: dict[str, Any] = SIZES | {"steps": 2, "batch_size": 3, "threads": 1, "dtype": "float32", "progress": False}


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_example_is_here() -> None:
    tested = re.findall(r'load\("(\w+)"\)', Path(__file__).read_text(encoding="utf-8"))
    assert sorted(set(tested)) == sorted(path.stem for path in EXAMPLES.glob("*.py"))


@pytest.mark.slow
def test_language_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "book.txt").write_text("a cat sat\n\nthe dog ran\n\non a mat\n\nand the cat\n", encoding="utf-8")
    load("language_model").main(str(tmp_path / "book.txt"), str(tmp_path / "run"), **TINY, L=1, split=0.25)
    assert "validation loss: " in capsys.readouterr().out


@pytest.mark.slow
def test_translate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    module = load("translate")
    assert [module.in_words(number) for number in (0, 20, 700, 999)] == ["zero", "twenty", "seven hundred", "nine hundred ninety nine"]
    module.main(str(tmp_path / "run"), **TINY, L_enc=1, L_dec=1)
    assert "exact match" in (shown := capsys.readouterr().out) and "forty two → " in shown


@pytest.mark.slow
def test_sentence_classifier(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """On the real MiniLM."""
    module = load("sentence_classifier")
    try:
        module.minilm()
    except SystemExit as missing:
        pytest.skip(str(missing))
    run = module.main(str(tmp_path), steps=2, eval_every=2, threads=1, dtype="float32", progress=False)
    assert run.labels == ("food", "sport", "weather") and run.model.hyper.N_V == 30522
    assert "accuracy on texts it has not seen: " in (shown := capsys.readouterr().out) and "The team scored twice." in shown


@pytest.mark.slow
def test_llama_cpp(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "book.txt").write_text("a cat sat\n\nthe dog ran\n\non a mat\n\nand the cat\n" * 3, encoding="utf-8")
    try:
        written = load("llama_cpp").main(str(tmp_path / "book.txt"), str(tmp_path / "run"), **TINY | {"d_e": 12}, L=1, tokenizer="char")
    except SystemExit as missing:
        pytest.skip(str(missing))
    assert written["transalg"] == written["llama.cpp"] and "llama.cpp  a cat" in capsys.readouterr().out


def test_attention_variant() -> None:
    module = load("attention_variant")
    torch.manual_seed(0)
    findings = module.main()
    assert findings.holds and findings["P"].error < 1e-10, str(findings)

    def inverted(X: torch.Tensor, Z: torch.Tensor, W: Any, Mask: torch.Tensor) -> torch.Tensor:
        return module.TemperedMHAttention(X, Z, replace(W, log_tau=-W.log_tau), Mask)

    other = module.check(module.Tempered(), theta=module.theta, formal=partial(DTransformer, MHAttention=inverted))
    assert other.broken == ("P",) and "with one on: the attention layers.0.W" in other["P"].text
