"""A vocabulary whose special tokens are not the last three trains, loads and answers."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import transalg
from tests.tokenization.rearrange import rearranged
from tests.training.runs import WORDS, config, files
from transalg.evaluation.measure import evaluate, held_out
from transalg.hyper import SpecialTokens
from transalg.tokenization import train as train_tokenizer
from transalg.training.start import train


@pytest.mark.parametrize("task", ["lm", "seq2seq", "classify"])
def test_special_tokens_come_from_the_tokenizer(task: str, tmp_path: Path) -> None:
    files(tmp_path)
    rearranged(train_tokenizer("char", WORDS)).save(tmp_path / "tokenizer.json")
    noise = {} if task == "lm" else {"noise": 0.3, "token_drop": 0.2}
    chosen = replace(config(task, tmp_path, **noise), tokenizer=str(tmp_path / "tokenizer.json"))
    outcome = train(chosen, tmp_path / "run")
    run = transalg.load(tmp_path / "run")
    assert run.model.hyper.special == SpecialTokens(mask=None, bos=0, eos=7) == run.tokenizer.special_tokens
    ids, lengths = held_out(run).batch(np.arange(1)).streams["x"]
    assert ids[0, lengths[0] - 1] == 7 and (task == "lm" or ids[0, 0] == 0), "a few documents are split anywhere"
    assert evaluate(run).figures["loss"] == pytest.approx(outcome.state.best["val_loss"], rel=1e-5)


def test_masks_need_a_mask_token(tmp_path: Path) -> None:
    files(tmp_path)
    rearranged(train_tokenizer("char", WORDS)).save(tmp_path / "tokenizer.json")
    with pytest.raises(ValueError, match="mask_token: this vocabulary has none"):
        train(replace(config("mlm", tmp_path), tokenizer=str(tmp_path / "tokenizer.json")), tmp_path / "run")
