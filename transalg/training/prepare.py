"""From options and files to what a training loop needs: tokenizer, token files, rows, hyperparameters. Nothing is written if something is wrong."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from transalg.data.batches import Plan
from transalg.data.rows import Rows, RowSource
from transalg.data.sources import Source
from transalg.data.store import Store, store
from transalg.hyper import Hyper
from transalg.runs import folder as run_folder
from transalg.runs.config import Config
from transalg.tasks import find
from transalg.tokenization import KINDS, Tokenizer, train
from transalg.training.report import Report

VOCABULARY = 2**27  # bytes of text that a vocabulary is made from; of more, every second, third, … piece
LONG = 2**22  # bytes that take long enough to read for a progress bar
CACHE = ".transalg-cache"


@dataclass(frozen=True)
class Prepared:
    """Everything but the model."""

    config: Config  # with every default filled in
    steps: int
    tokenizer: Tokenizer
    hyper: Hyper
    labels: tuple[str, ...]
    digest: str  # of the data
    plan: Plan
    train: RowSource
    valid: Rows | None


def prepare(
    config: Config, out: Path, report: Report, tokenizer: Tokenizer | None = None, labels: tuple[str, ...] | None = None
) -> Prepared:
    """Read, tokenise and split the data, and fill in the defaults. A resumed run brings its tokenizer and its labels."""
    task, base, resumed = find(config.task), None, labels is not None
    if config.init and not resumed:
        start = run_folder.best_metadata(Path(config.init))
        base = start.hyper
        if task.has_labels and find(start.task).has_labels:
            labels = start.labels
        tokenizer = run_folder.load_tokenizer(Path(config.init), base)
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
    hyper = config.hyper(tokenizer.N_V, longest, len(labels), base, tokenizer.special_tokens)
    documents, valid = rows(config, data, source, hyper, config.share())
    if other:
        assert config.valid
        valid = rows(replace(config, pack=False), other, config.source(config.valid), hyper, None)[0]
    options = config.train
    shift = options.shift and task.records == "documents"
    plan = Plan(options.batch_size, options.batch_tokens, options.seed, options.shuffle, shift)
    config, steps = config.filled(hyper, plan.count(documents))
    return Prepared(config, steps, tokenizer, hyper, labels, data.meta.digest, plan, documents, valid.rows() if valid else None)


def vocabulary(config: Config, source: Source, report: Report) -> Tokenizer:
    """The tokenizer that the options name, made from the data if it is not a file."""
    kind = config.tokenizer or find(config.task).default_tokenizer(config.vocab_size)
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
        data = store(source, tokenizer, out.absolute().parent / CACHE, labels=labels, progress=progress)
    if data.meta.unknown:
        report.note(f"{source.name}: {tokenizer.unknown_note(data.meta.unknown, data.meta.parts)}")
    return data


def rows(
    config: Config, data: Store, source: Source, hyper: Hyper, share: tuple[float, float] | None
) -> tuple[RowSource, RowSource | None]:
    """The data as rows that the model can take, for training and for validation."""
    task = find(config.task)
    return task.rows(data, hyper.ell_max, source.where, pack=config.pack, too_long=config.too_long, share=share)


def _longest(data: Store) -> int:
    return max(int(np.diff(bounds).max()) for bounds in data.bounds.values())
