"""From options and files to what a training loop needs: tokenizer, token files, rows, hyperparameters. Nothing is written if something is wrong."""

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from transalg.data.batches import Plan
from transalg.data.episode_batches import NumberedRows
from transalg.data.rows import AnyRows, RowSource
from transalg.data.sources import Source
from transalg.data.store import Store, store
from transalg.hyper import Hyper
from transalg.runs import folder as run_folder
from transalg.runs.config import Config
from transalg.tasks import find
from transalg.tokenization import KINDS, Tokenizer, kind_of_text, size_for_text, train
from transalg.training.memory import check_memory
from transalg.training.report import Report
from transalg.training.validation import mean_tokens

VOCABULARY = 2**27  # bytes of text that a vocabulary is made from; of more, every second, third, … piece
FEW_TARGETS = 1000  # texts that are looked at
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
    train: RowSource | NumberedRows
    valid: AnyRows | None
    row_tokens: float  # of a row, on average
    step_tokens: float  # of a step, on average
    epoch_batches: int  # steps of the first epoch
    episodes: list[dict[str, Any]] | None = None  # of each task of gato, what the run keeps of it


def prepare(
    config: Config, out: Path, report: Report, tokenizer: Tokenizer | None = None, labels: tuple[str, ...] | None = None
) -> Prepared:
    """Read, tokenise and split the data, and fill in the defaults. A resumed run brings its tokenizer and its labels."""
    task, base, resumed = find(config.task), None, labels is not None
    if config.init and not resumed:
        start = run_folder.model_metadata(Path(config.init))
        base = start.hyper
        if task.has_labels and start.task == task.name:
            labels = start.labels
        tokenizer = run_folder.load_tokenizer(Path(config.init), base)
        if config.tokenizer or config.vocab_size:
            raise ValueError(
                f"--tokenizer: the weights of {config.init} belong to its own tokenizer; leave --tokenizer and --vocab-size out"
            )
        config = config.with_optimizer(imported=not start.data)
    source = config.source(config.data)
    tokenizer = tokenizer or vocabulary(config, source, report)
    data = tokens(source, tokenizer, out, report, labels or (), in_summary=True)
    labels = data.meta.labels
    other = tokens(config.source(config.valid), tokenizer, out, report, labels) if config.valid else None
    longest = max(_longest(each) for each in (data, other) if each)
    hyper = config.hyper(tokenizer.N_V, longest, len(labels), base, tokenizer.special_tokens, tokenizer.kind)
    documents, valid = rows(config, data, source, hyper, config.share())
    if other:
        assert config.valid
        valid = rows(replace(config, pack=False), other, config.source(config.valid), hyper, None)[0]
    documents = task.bound(labels).drawn(documents, config.shares)
    config = config.with_optimizer()
    options = config.train
    shift = options.shift and task.records == "documents"
    plan = Plan(options.batch_size or task.batch_size, options.batch_tokens, options.seed, options.shuffle, shift)
    batches = plan.count(documents)
    train_rows = documents.rows()
    tokens_per_row = mean_tokens(train_rows)
    step_tokens = options.batch_tokens or plan.rows * tokens_per_row
    check_memory(hyper, options, min(step_tokens, len(train_rows) * tokens_per_row), tokens_per_row, _processes(config))
    config, steps = config.filled(hyper, batches, len(train_rows), tokens_per_row)
    if options.select == "auto":
        config = replace(config, train=replace(config.train, select=_select(config, train_rows, tokenizer)))
    valid_rows = valid.rows() if valid else None
    return Prepared(
        config, steps, tokenizer, hyper, labels, data.meta.digest, plan, documents, valid_rows, tokens_per_row, step_tokens, batches
    )


def _processes(config: Config) -> int:
    """How many processes share the memory for a model."""
    return int(os.environ.get("WORLD_SIZE", "1")) if config.train.shard else 1


def _select(config: Config, train_rows: AnyRows, tokenizer: Tokenizer) -> str:
    """The figure that decides which model is best: the task's own."""
    task = find(config.task)
    if not task.has_context:
        return task.select("phrases")
    if config.train.shard:
        return "loss"  # a sharded model does not decode
    ids, lengths = train_rows.batch(np.arange(min(len(train_rows), FEW_TARGETS))).streams["x"]
    return task.select(kind_of_text(tokenizer.decode(row[:length].tolist()) for row, length in zip(ids, lengths, strict=True)))


def vocabulary(config: Config, source: Source, report: Report) -> Tokenizer:
    """The tokenizer that the options name, made from the data if it is not a file."""
    kind = config.tokenizer
    if not kind:
        kind = find(config.task).default_tokenizer(config.vocab_size, kind_of_text(_texts(source)))
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

        vocab_size = config.vocab_size or (size_for_text(_texts(source)) if kind == "bpe" else None)
        lowercase = (kind == "word" and find(config.task).lowercase) if config.lowercase is None else config.lowercase
        return train(kind, texts(), vocab_size, min_count=2, lowercase=lowercase)  # a word seen once is <unk>, so that <unk> is learned


def _texts(source: Source) -> Iterator[str]:
    return (text for record in source.records() for text in record.texts)


def tokens(
    source: Source, tokenizer: Tokenizer, out: Path, report: Report, labels: tuple[str, ...] = (), *, in_summary: bool = False
) -> Store:
    """The data's token files, beside the run. A note says what the vocabulary lacks, unless the summary of a run says it."""
    for note in source.notes():
        report.note(note)
    with report.work(f"Tokenising {source.name}", source.size(), least=LONG) as progress:
        data = store(source, tokenizer, out.absolute().parent / CACHE, labels=labels, progress=progress)
    if data.meta.unknown and not in_summary:
        report.note(f"{source.name}: {tokenizer.unknown_note(data.meta.unknown, data.meta.parts)}")
    return data


def rows(
    config: Config, data: Store, source: Source, hyper: Hyper, share: tuple[float, float] | None
) -> tuple[RowSource, RowSource | None]:
    """The data as rows that the model can take, for training and for validation."""
    task = find(config.task).bound(data.meta.labels)
    return task.rows(data, hyper.ell_max, source.where, pack=config.pack, too_long=config.treats_long, share=share)


def _longest(data: Store) -> int:
    return max(int(np.diff(bounds).max()) for bounds in data.bounds.values())
