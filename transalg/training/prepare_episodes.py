"""What a training loop needs to learn from episodes: folders, recorded first if they are built in, vocabulary, rows, hyperparameters."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from transalg.data.episode_batches import EpisodePlan, NumberedRows, digest, numbered_rows
from transalg.data.episode_rows import EpisodeRows
from transalg.data.episodes import Episodes
from transalg.runs import folder as run_folder
from transalg.runs.config import Config, several
from transalg.tasks import find
from transalg.tokenization import Tokenizer, size_for_text, train
from transalg.tokenization.modalities import Image, Vocabulary
from transalg.tokenization.spaces import leaves, to_json
from transalg.training.memory import check_memory
from transalg.training.prepare import CACHE, Prepared
from transalg.training.report import Report
from transalg.worlds.builtin import Builtin, episode_folder

PROMPTS = 0.25  # the share of rows that begin with a demonstration
VALIDATION_ROWS = 64  # of each folder
VALIDATION_SEED = 0
TRAIN, VALID = "train", "valid"


def prepare_episodes(config: Config, out: Path, report: Report, tokenizer: Tokenizer | None = None, *, resumed: bool = False) -> Prepared:
    """Open the folders, and fill in the defaults. A resumed run brings its tokenizer."""
    base = None
    if config.init and not resumed:
        base = run_folder.model_metadata(Path(config.init)).hyper
        tokenizer = run_folder.load_tokenizer(Path(config.init), base)
        if config.tokenizer or config.vocab_size:
            raise ValueError(
                f"--tokenizer: the weights of {config.init} belong to its own tokenizer; leave --tokenizer and --vocab-size out"
            )
    tasks = folders(several(config.data), out, report)
    tokenizer = tokenizer or vocabulary_of(config, tasks)
    channels = max([leaf.c for task in tasks for leaf in leaves(task.spaces.observation).values() if isinstance(leaf, Image)], default=1)
    if base is None and not config.preset:
        config = replace(config, model={"C": channels} | config.model)
    vocabulary = Vocabulary.of(tokenizer)
    hyper = config.hyper(vocabulary.N_V, 0, base=base, special=tokenizer.special_tokens, tokenizer=tokenizer.kind)
    vocabulary = Vocabulary.of(tokenizer, hyper.to_dict()["C"])
    config = config.with_optimizer()
    options, task, weights = config.train, find(config.task), list(config.shares.values())
    rows = numbered_rows(tasks, vocabulary, hyper.ell_max, weights, options.seed, prompts=PROMPTS)
    tokens = options.batch_tokens or (task.batch_tokens if options.batch_size is None else None)
    plan = EpisodePlan(options.batch_size or task.batch_size, tokens, options.seed)
    batches, row_tokens = plan.count(rows), rows.mean_tokens
    check_memory(hyper, options, tokens or plan.rows * row_tokens, row_tokens)
    config, steps = config.filled(hyper, batches, len(rows), row_tokens)
    config = replace(config, train=replace(config.train, select="loss"))
    return Prepared(
        config,
        steps,
        tokenizer,
        hyper,
        config.heads,
        digest(tasks),
        plan,
        rows,
        validation_rows(tasks, vocabulary, hyper.ell_max),
        row_tokens,
        tokens or plan.rows * row_tokens,
        batches,
        [described(name, each) for name, each in zip(config.heads, tasks, strict=True)],
    )


def folders(names: Sequence[str], out: Path, report: Report) -> tuple[Episodes, ...]:
    """The episodes of these folders and built-in tasks; those are recorded beside the run when they are first used."""
    return tuple(Episodes(episode_folder(name, out.absolute().parent / CACHE, partial(_record, report=report))) for name in names)


def _record(builtin: Builtin, folder: Path, *, report: Report) -> None:
    report.note(f"Recording {builtin.name}: {builtin.doc}")
    with report.work(f"Recording {builtin.name}", builtin.work) as progress:
        builtin.record(folder, progress)


def vocabulary_of(config: Config, tasks: Sequence[Episodes]) -> Tokenizer:
    """The tokenizer that the options name, made from all texts of the training episodes if it is not a file."""
    kind = config.tokenizer or find(config.task).default_tokenizer(config.vocab_size, "phrases")
    if kind not in ("char", "word", "bpe"):
        if not Path(kind).is_file():
            raise ValueError(f"--tokenizer: expected char, word, bpe, or a tokenizer.json, got {kind!r}")
        return Tokenizer.load(kind)
    texts = [text for task in tasks for text in _vocabulary_texts(task)]
    size = config.vocab_size or (size_for_text(texts) if kind == "bpe" else None)
    return train(kind, texts or [" "], size, min_count=2, lowercase=bool(config.lowercase))  # type: ignore[arg-type]


def _vocabulary_texts(task: Episodes) -> list[str]:
    """What a model is to write, as often as it is there; but what it only reads once: the same mission has thousands of episodes."""
    texts = [text for number in task.members(TRAIN) for text in task.texts(int(number))]
    return texts if task.spaces.answers else list(dict.fromkeys(texts))


def validation_rows(tasks: Sequence[Episodes], vocabulary: Vocabulary, ell_max: int) -> NumberedRows | None:
    """Rows of the episodes that validate, equally many of every folder that has some; the same in every run."""
    which = [i for i, task in enumerate(tasks) if VALID in task.splits]
    if not which:
        return None
    rows = EpisodeRows(tuple(tasks[i] for i in which), vocabulary, ell_max, prompts=0.0, split=VALID)
    return NumberedRows(rows, VALIDATION_SEED, VALIDATION_ROWS * len(which), tuple(which))


def described(name: str, task: Episodes) -> dict[str, Any]:
    """What a run keeps of a task: all that is needed to use the model without its data."""
    spaces = {"observation": to_json(task.spaces.observation), "action": to_json(task.spaces.action)}
    return {"name": name, "world": task.name, **spaces, "expert": task.expert, "random": task.random}
