"""What the README shows runs, and what it counts is so."""

import re
import shlex
from pathlib import Path

import pytest
import torch
import tyro

from tests.test_mutants import MUTANTS
from tests.training.runs import config, files
from transalg.cli import Verb
from transalg.formal import DTheta, DTransformer
from transalg.training.start import train

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_code_runs_and_gives_what_is_said() -> None:
    _, _, first, second, engine = re.findall(r"```python\n(.*?)```", README, re.S)
    torch.manual_seed(0)
    names: dict = {}
    exec(first + second, names)
    assert names["P"].shape == (11, 7)
    assert names["y"].tolist() == [1, 4, 1, 5, 10]
    exec(engine, names)
    assert names["logits"].shape == (2, 2, 300) and names["cache"].lengths == [2, 2]
    assert all(ours.equal(same) for ours, same in zip(names["model"].parameters(), names["same"].parameters(), strict=True))


def test_a_trained_model_does_what_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    train(config("lm", files(tmp_path), {"ell_max": 61}), tmp_path / "runs" / "docs")
    exec(re.search(r"```python\n(.*?)```", README, re.S)[1], {})
    text, _, perplexity = capsys.readouterr().out.strip().rpartition("\n")
    assert text and float(perplexity) > 1


def test_every_command_shown_is_understood() -> None:
    """Each line that begins with transalg, up to its explanation, is parsed as the command line parses it."""
    blocks = "".join(block for block in README.split("```")[1::2] if block.startswith("\n"))
    shown = re.findall(r"^transalg (\w+ .*?)(?: {2,}.*)?$", blocks, re.M)
    assert len(shown) > 20
    for line in shown:
        words = shlex.split(line.split(" > ")[0].replace("…", ""))
        tyro.cli(Verb, args=words, config=(tyro.conf.OmitSubcommandPrefixes, tyro.conf.FlagCreatePairsOff))


def test_the_excerpt_is_the_source() -> None:
    excerpt = re.findall(r"```python\n(.*?)```", README, re.S)[1]
    source = re.sub(r" +", " ", (ROOT / "transalg/formal/architectures.py").read_text(encoding="utf-8"))
    for line in excerpt.strip().splitlines():
        statement, _, math = re.sub(r" +", " ", line).partition(" # ")
        assert re.search(re.escape(statement.strip()) + r" # " + re.escape(math), source)


def test_the_numbers_are_so() -> None:
    assert f"none of {len(MUTANTS)} one-place changes" in README
    assert "all 112 of them" in README  # counted by test_paper_map.py


def test_the_message_shown_is_the_real_one() -> None:
    theta = DTheta.init(N_V=11, ell_max=12, L=1, H=2, d_e=16, d_mlp=32)
    with pytest.raises(ValueError) as refusal:  # noqa: PT011
        DTransformer([1] * 13, theta)
    assert f"`{refusal.value}`" in README
