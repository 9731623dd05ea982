"""Runs with random weights, made without training."""

from pathlib import Path
from typing import Any

import torch

from tests.strategies import rng
from tests.training.runs import WORDS
from transalg.hyper.shapes import shapes
from transalg.interop.checkpoint import Checkpoint, write_run
from transalg.model import build
from transalg.tasks import find
from transalg.tokenization import train as train_tokenizer
from transalg.verify.cases import randomised

SIZES: dict[str, Any] = {"ell_max": 29, "H": 2, "d_e": 10, "d_mlp": 13}


def random_run(out: Path, task: str, kind: str = "char", **model: Any) -> Path:
    """A run for a task, with a vocabulary of characters, words or byte pairs."""
    tokenizer = train_tokenizer(kind, [*WORDS, *(one[::-1] for one in WORDS)])  # type: ignore[arg-type]
    depth = {"L_enc": 2, "L_dec": 1} if task == "seq2seq" else {"L": 2}
    classes = {"N_C": 3} if task == "classify" else {}
    hyper = find(task).hyper_class(N_V=tokenizer.N_V, **SIZES | depth | classes | model)  # type: ignore[arg-type]
    state = randomised(build(hyper, dtype=torch.float32), rng(0)).state_dict()
    labels = tuple(f"label {i}" for i in range(classes.get("N_C", 0)))
    write_run(Checkpoint(hyper, ((name, state[name]) for name in shapes(hyper)), torch.float32, tokenizer.core, labels), out, "nowhere")
    return out
