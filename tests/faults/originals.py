"""What is damaged: small runs of every task, made once, with their data, caches and episodes; and checkpoints of other tools."""

import gzip
import os
import shutil
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import torch.distributed as dist
from PIL import Image

from tests.interop.runs import random_run
from tests.tasks import episodes
from tests.training.runs import TASKS, WORDS, config, files
from transalg.interop.save import export_run
from transalg.runs import checkpoints
from transalg.training.start import train

CANARY = "canary"  # a folder beside the damaged one, which links in it lead to
RUN_FILES = ("config.toml", "tokenizer.json", "metrics.jsonl", "best.safetensors", "last.safetensors")
LLAMA = {"L": 1, "d_e": 12, "positions": "rotary", "norm": "RMSnorm", "activation": "SwiGLU", "bias": "none", "H_kv": 1, "tied": True}

FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("lm", LLAMA),
    "gpt2": ("lm", {"L": 1, "positions": "learned", "activation": "tanh_GELU", "tied": True}),
    "bert": (
        "mlm",
        {"L": 1, "positions": "learned", "norm_first": False, "segments": 2, "embedding_norm": True, "output_bias": True, "tied": True},
    ),
    "marian": ("seq2seq", {"norm_first": False, "positions": "split_sinusoids", "output_bias": True, "scaled": True, "tied": True}),
}


def make_all(base: Path) -> None:
    """Every original as a folder of `base`/original. All are made at `base`/work, where they will be used: some files name their place."""
    (base / "original" / CANARY).mkdir(parents=True)
    (base / "original" / CANARY / "file").write_text("untouched\n")
    shutil.copytree(base / "original" / CANARY, base / CANARY)
    os.chdir(base)
    for name, make in MAKERS.items():
        work = base / "work"
        work.mkdir()
        make(work)
        work.rename(base / "original" / name)


def data_files(work: Path) -> None:
    """Lines, pairs, labels and tables, with eight rows each."""
    files(work)
    labels = ["cat" if "cat" in one else "other" for one in WORDS]
    rows = list(zip(labels, WORDS, strict=True))
    (work / "table.csv").write_text("label,text\n" + "".join(f"{label},{text}\n" for label, text in rows))
    (work / "table.tsv").write_text("label\ttext\n" + "".join(f"{label}\t{text}\n" for label, text in rows))
    (work / "table.jsonl").write_text(
        "".join(f'{{"label": "{label}", "text": "{text}", "input": "{text}", "output": "{label}"}}\n' for label, text in rows)
    )
    with gzip.GzipFile(work / "lines.txt.gz", "wb", mtime=0) as file:
        file.write((work / "lines.txt").read_bytes())


def _trained(task: str) -> Callable[[Path], None]:
    def make(work: Path) -> None:
        data_files(work)
        train(config(task, work, steps=4, eval_every=2), work / "run")

    return make


def _gato(work: Path) -> None:
    from transalg.worlds.taxi import Taxi

    Taxi.limit = 11  # rides of every command that plays
    folders = episodes.write(work)
    del folders["car"]
    shutil.rmtree(work / "car")
    train(episodes.config(folders, steps=2, eval_every=2), work / "run")
    Image.new("L", (32, 16)).save(work / "image.png")


def _sharded(work: Path) -> None:
    """As one process of FSDP2 writes it. In a process of its own: torch.distributed does not end well."""
    _trained("lm")(work)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            dist.init_process_group("gloo", store=dist.FileStore(str(work / "store"), 1), rank=0, world_size=1)
            for name in ("best", "last"):
                tensors, metadata = checkpoints.load(work / "run" / f"{name}.safetensors")
                checkpoints.save_sharded(work / "run" / name, tensors, replace(metadata, files=None))
                (work / "run" / f"{name}.safetensors").unlink()
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    (work / "store").unlink(missing_ok=True)


def _huggingface(work: Path) -> None:
    """One folder for each family that our runs can be written as."""
    for name, (task, model) in FAMILIES.items():
        random_run(work / "run", task, **model)
        export_run(work / "run", "huggingface", work / name)
        shutil.rmtree(work / "run")


def _gguf(work: Path) -> None:
    random_run(work / "run", "lm", **LLAMA)
    export_run(work / "run", "gguf", work / "out")
    (work / "out" / "model.gguf").rename(work / "model.gguf")
    shutil.rmtree(work / "out")
    shutil.rmtree(work / "run")


def _llama2c(work: Path) -> None:
    """A model of width 4 with 11 tokens, and its tokenizer."""
    d, hidden, layers, heads, vocabulary, length = 4, 6, 1, 2, 11, 7
    sizes = vocabulary * d + layers * (2 * d + 4 * d * d + 3 * d * hidden) + d + length * d // heads
    numbers = np.random.default_rng(0).normal(size=sizes).astype("<f4")
    (work / "model.bin").write_bytes(struct.pack("<7i", d, hidden, layers, heads, heads, vocabulary, length) + numbers.tobytes())
    pieces = ["<unk>", "<s>", "</s>", *"abc dots"][:vocabulary]
    pieces[-1] = "at"
    tokens = b"".join(struct.pack("<fi", float(-i), len(piece)) + piece.encode() for i, piece in enumerate(pieces))
    (work / "tokenizer.bin").write_bytes(struct.pack("<i", 4) + tokens)


MAKERS: dict[str, Callable[[Path], None]] = {
    **{task: _trained(task) for task in TASKS},
    "gato": _gato,
    "sharded": _sharded,
    "huggingface": _huggingface,
    "gguf": _gguf,
    "llama2c": _llama2c,
}


def caches(original: Path) -> list[str]:
    """The files of the token caches of an original, one cache after the other."""
    return sorted(str(path.relative_to(original)) for path in original.glob(".transalg-cache/*/*"))


def drawn(seed: str) -> Random:
    """Numbers that depend on the seed alone."""
    return Random(f"faults {seed}")
