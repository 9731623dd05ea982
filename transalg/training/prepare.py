"""From options and files to what a loop needs: tokenizer, token files, rows, hyperparameters. Nothing is written if something is wrong."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from transalg.data.batches import Plan
from transalg.data.rows import Rows, RowSource, chunks, whole_records
from transalg.data.sources import Source
from transalg.data.store import Store, store
from transalg.hyper import Hyper, from_dict
from transalg.runs import folder as run_folder
from transalg.runs.config import Config
from transalg.tokenization import KINDS, Tokenizer, train
from transalg.training.report import Report

VOCABULARY = 2**27  # bytes of text that a vocabulary is made from; of more, every second, third, … piece
LONG = 2**22  # bytes: less is read before anyone looks
CACHE = ".transalg-cache"
SPLIT = 0


@dataclass(frozen=True)
class Prepared:
    """All but the model."""

    config: Config  # nothing left to choose
    steps: int
    tokenizer: Tokenizer
    hyper: Any
    labels: tuple[str, ...]
    digest: str  # of the data
    plan: Plan
    train: RowSource
    valid: Rows | None


def prepare(
    config: Config, out: Path, report: Report, tokenizer: Tokenizer | None = None, labels: tuple[str, ...] | None = None
) -> Prepared:
    """Read, tokenise and split the data, and choose what is left to choose. A run that is resumed has its tokenizer and its labels."""
    base, resumed = None, labels is not None
    if config.init and not resumed:
        start = run_folder.facts(Path(config.init))
        base = from_dict(start["hyper"])
        if config.task == start["task"] == "classify":
            labels = tuple(start["labels"])
        tokenizer = tokenizer or Tokenizer.load(Path(config.init) / "tokenizer.json")
        if config.tokenizer or config.vocab_size:
            raise ValueError(
                f"--tokenizer: the weights of {config.init} belong to its own tokenizer; leave --tokenizer and --vocab-size out"
            )
    source = config.source(config.data)
    tokenizer = tokenizer or vocabulary(config, source, report)
    data = tokens(source, tokenizer, out, report, labels or ())
    labels = data.meta.labels
    other = tokens(config.source(config.valid), tokenizer, out, report, labels) if config.valid else None
    longest = max(_longest(each) for each in (data, other) if each)
    hyper = config.hyper(tokenizer.N_V, longest, len(labels), base)
    documents, valid = rows(config, data, source, hyper, config.share())
    if other:
        assert config.valid
        valid = rows(replace(config, pack=False), other, config.source(config.valid), hyper, None)[0]
    train = config.train
    shift = train.shift and config.task in ("lm", "mlm")
    plan = Plan(train.batch_size, train.batch_tokens, train.seed, train.shuffle, shift)
    config, steps = config.filled(hyper, plan.count(documents))
    return Prepared(config, steps, tokenizer, hyper, labels, data.meta.digest, plan, documents, valid.rows() if valid else None)


def vocabulary(config: Config, source: Source, report: Report) -> Tokenizer:
    """The tokenizer the options name, made from the data if it is not a file."""
    kind = config.tokenizer or ("word" if config.task == "classify" else "bpe" if config.vocab_size else "char")
    if kind not in KINDS:
        if not Path(kind).is_file():
            raise ValueError(f"--tokenizer: expected {', '.join(KINDS)}, or a tokenizer.json, got {kind!r}")
        if config.vocab_size:
            raise ValueError(f"--vocab-size: {kind} has its vocabulary already")
        return Tokenizer.load(kind)
    every = 1 if kind == "char" else -(-source.size() // VOCABULARY) or 1
    with report.work("Reading the vocabulary", source.size(), least=LONG) as progress:

        def texts() -> Iterator[str]:
            for i, record in enumerate(source.records(progress)):
                if i % every == 0:
                    yield from record.texts

        return train(kind, texts(), config.vocab_size, min_count=2)  # a word seen once is <unk>, so that <unk> is learned


def tokens(source: Source, tokenizer: Tokenizer, out: Path, report: Report, labels: tuple[str, ...] = ()) -> Store:
    """The data's token files, beside the run."""
    for note in source.notes():
        report.note(note)
    with report.work(f"Tokenising {source.name}", source.size(), least=LONG) as progress:
        found = store(source, tokenizer, out.absolute().parent / CACHE, labels=labels, progress=progress)
    if found.meta.unknown:
        what = "characters, which are left out" if tokenizer.kind == "char" else "words, which become <unk>"
        report.note(f"{source.name}: {found.meta.unknown:,} {what}, are not in the vocabulary")
    return found


def rows(
    config: Config, data: Store, source: Source, hyper: Hyper, share: tuple[float, float] | None
) -> tuple[RowSource, RowSource | None]:
    """The data as rows that the model can take, for training and for validation."""
    seed, ell = SPLIT, hyper.ell_max  # whatever the seed of a run, what it holds back is the same
    if config.task in ("lm", "mlm"):
        predicts_next = config.task == "lm"  # a row of ℓ + 1 tokens has ℓ to predict
        return chunks(data, ell + predicts_next, int(predicts_next), pack=config.pack, validation_range=share, seed=seed)
    limits = {"z": ell, "x": ell + 1} if config.task == "seq2seq" else {"x": ell}
    return whole_records(data, limits, source.where, too_long=config.too_long, validation_range=share, seed=seed)


def _longest(data: Store) -> int:
    return max(int(np.diff(bounds).max()) for bounds in data.bounds.values())
