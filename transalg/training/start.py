"""A run starts, or continues: what the folder may contain already, which options may change, what is written first."""

import os
import re
from contextlib import nullcontext
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from transalg.atomic import SUFFIX, atomic_write, discard
from transalg.reading import read_text, shown
from transalg.runs import folder as run_folder
from transalg.runs import swap
from transalg.runs.config import Config, several
from transalg.runs.lock import LOCK, locked
from transalg.runs.metadata import Metadata
from transalg.runs.paths import load_config, read_options, with_paths
from transalg.runs.texts import TEXTS, Texts
from transalg.tasks import find
from transalg.tokenization import Tokenizer
from transalg.training.loop import Loop, Outcome, first_checkpoint
from transalg.training.machine import (
    bfloat16_speed,
    busy_cores,
    choose_dtype,
    choose_threads,
    computes_in_bfloat16,
    flushed_denormals,
    usable_cores,
)
from transalg.training.memory import keep_memory
from transalg.training.metrics import last_step
from transalg.training.prepare import Prepared, prepare
from transalg.training.prepare_episodes import prepare_episodes
from transalg.training.processes import World, connect, launch, restarted
from transalg.training.report import Report

FILLED = ("optimizer", "eta", "warmup", "seed", "eval_every", "save_every")  # of `train`: every run's config.toml has them
OF_SAFETENSORS = re.compile(r"\.tmp[0-9A-Za-z]{6}")
RESUMABLE_OPTIONS = (  # of `train`: they may change when a run continues
    "steps",
    "epochs",
    "eval_every",
    "save_every",
    "log_every",
    "patience",
    "threads",
    "device",
    "tensorboard",
    "compile",
    "recompute",
    "shard",
    "accumulate",
)


def train(
    config: Config | None,
    out: Path,
    *,
    resume: bool = False,
    changes: dict[str, Any] | None = None,
    overwrite: bool = False,
    report: Report | None = None,
    texts: Texts | None = None,
) -> Outcome:
    """Train what the options say into the folder `out`; or, to resume, continue the run in it with its options and the changes.

    Texts of a Python program are written to the run's folder first, where the options name them as files. To resume, they have to be the same.
    """
    first = os.environ.get("RANK", "0") == "0"
    with locked(out) if first else nullcontext(), flushed_denormals():
        if first:
            swap.require_no_links(out)
            swap.settle(out)
        try:
            return _train(config, out, resume, changes or {}, overwrite, report or Report(), texts)
        finally:
            if first:
                discard(out / swap.NEW)


def _train(
    config: Config | None, out: Path, resume: bool, changes: dict[str, Any], overwrite: bool, report: Report, texts: Texts | None
) -> Outcome:
    may_continue = resume or (restarted() and _launched_by(out) == launch())
    resume = may_continue and (out / run_folder.CONFIG).exists()
    options = _resumed_options(out, changes) if resume else config
    if options is None:
        raise ValueError(f"{out}: there is no run to resume")
    if not options.data:
        raise ValueError(
            f"{out}: an imported model has no data to train on; transalg train {options.task} --init {out} --data FILE --out RUN"
        )
    if options.train.tensorboard and find_spec("tensorboard") is None:
        raise ValueError("train.tensorboard: TensorBoard is not installed; pip install 'transalg[tensorboard]'")
    world = connect(options.train.device, sharded=options.train.shard)
    try:
        if world.size > 1:  # the first process may have made the folder before another looks
            resume = world.agreed(resume)
            options = _resumed_options(out, changes) if resume else config or options
        if not resume and world.first:
            _check_new(options, out, may_continue, overwrite)
        report = report if world.first else Report()
        if options.train.threads is None and world.size == 1 and world.device.type == "cpu":
            options = _with_threads(options, report)
        if options.train.threads:
            torch.set_num_threads(options.train.threads)
        replaces = world.agreed(not resume and overwrite and any((out / name).exists() for name in swap.FILES))
        place = out / swap.NEW if replaces else out
        if replaces and world.first:
            swap.begin(out, () if texts else (*several(options.data), *several(options.valid)))
        if not world.first:
            world.wait()
        with texts.written(place) if texts and world.first and not resume else nullcontext():
            if texts and world.first and resume:
                texts.compare(out)
            if texts and replaces:
                options = _renamed(options, out, place)
            prepared, last = _prepare(options, out, place, world, report, resume=resume)
        keep_memory()
        loop = Loop(prepared, out, world, report, last is not None, place)
        if resume and world.first:  # nothing of a run that cannot be resumed is changed
            last_step(out)  # the metrics can be read
            _remove_incomplete(out)
            _write_config(out, prepared)
        return loop.run()
    finally:
        world.end()


def _prepare(options: Config, out: Path, place: Path, world: World, report: Report, *, resume: bool) -> tuple[Prepared, Metadata | None]:
    """Everything but the model, once a new run's first files are written; and what the last checkpoint says, if the run has one."""
    last = run_folder.last_metadata(out) if resume else None
    tokenizer = None
    if last:
        _require_same_task(options, last, out)
        tokenizer = run_folder.load_tokenizer(out, last.hyper)
    elif (resume or not world.first) and not options.init:  # whose run has the tokenizer, perhaps with other special tokens
        tokenizer = Tokenizer.load(place / run_folder.TOKENIZER)
    if find(options.task).records == "episodes":
        prepared = prepare_episodes(options, out, report, tokenizer, resumed=last is not None)
    else:
        prepared = prepare(options, out, report, tokenizer, last.labels if last else None)
    prepared = replace(prepared, config=_renamed(prepared.config, place, out))
    if options.train.dtype == "auto":
        prepared = _with_dtype(prepared, place, world, report)
    if last:
        _require_same(prepared, last, out)
    if world.first:
        if resume and last is None:
            _require_nothing(prepared, out)
            report.note("No checkpoint yet: from the start")
        elif not resume:
            _write_new(out, place, prepared)
        world.wait()
    return prepared, last


def _require_same_task(options: Config, last: Metadata, out: Path) -> None:
    if options.task != last.task:
        raise ValueError(f"{out / run_folder.CONFIG}: task: expected {last.task}, as in the last checkpoint, got {options.task}")


def _require_same(prepared: Prepared, last: Metadata, out: Path) -> None:
    """A ValueError unless data and model of a resumed run are those of its last checkpoint."""
    if (last.data or prepared.digest) != prepared.digest:
        data = ", ".join(several(prepared.config.data))
        raise ValueError(f"{data}: is not what it was when {out} was started; restore it, or start over")
    saved, ours = last.hyper.to_dict(), prepared.hyper.to_dict()
    for name, value in saved.items():
        if ours[name] != value:
            raise ValueError(
                f"{out / run_folder.CONFIG}: model.{name}: expected {shown(value)}, as in the last checkpoint, got {shown(ours[name])}; "
                "a resumed run keeps its model"
            )


def _require_nothing(prepared: Prepared, out: Path) -> None:
    """A ValueError if a run without a last checkpoint had one: it would start over, and replace what is left of it."""
    found = [name for name in swap.CHECKPOINTS if (out / name).exists()]
    done, first = last_step(out), first_checkpoint(prepared)
    if found or done > first:
        left = found[0] if found else f"{run_folder.METRICS} with {done:,} steps"
        raise ValueError(
            f"{run_folder.checkpoint_file(out, run_folder.LAST)}: is missing, but {out} has {left}; restore it from a copy, "
            "or --overwrite starts over, or --init fine-tunes what is left into another --out"
        )


def _renamed(options: Config, old: Path, new: Path) -> Config:
    """The options with the texts of a Python program, which lie in a run's folder, under another name of that folder."""
    before, after = f"{old / TEXTS}{os.sep}", f"{new / TEXTS}{os.sep}"

    def name(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(name(each) for each in value)
        return after + value.removeprefix(before) if isinstance(value, str) and value.startswith(before) else value

    return options if old == new else replace(options, data=name(options.data), valid=name(options.valid))


def _with_threads(options: Config, report: Report) -> Config:
    """The options with as many threads as the other processes leave cores for."""
    threads, note = choose_threads(min(torch.get_num_threads(), usable_cores()), os.cpu_count() or 1, busy_cores)
    if note:
        report.note(note)
    return replace(options, train=replace(options.train, threads=threads))


def _with_dtype(prepared: Prepared, place: Path, world: World, report: Report) -> Prepared:
    """The options with the arithmetic that is faster here. The first process measures; the others, which come after it, read what it wrote."""
    if world.first:
        d_e, device = prepared.hyper.d_e, world.device
        dtype, note = choose_dtype(d_e, computes_in_bfloat16(device), lambda: bfloat16_speed(d_e, device))
        if note:
            report.note(note)
    else:
        dtype = load_config(place / run_folder.CONFIG).train.dtype
    return replace(prepared, config=replace(prepared.config, train=replace(prepared.config.train, dtype=dtype)))


def _check_new(config: Config, out: Path, may_continue: bool, overwrite: bool) -> None:
    """Whether a new run may start here."""
    names = {path.name for path in out.iterdir()} if out.is_dir() else {""} if out.exists() else set()
    names.discard(LOCK)  # this process's
    before_start = {name for name in names if name in (run_folder.TOKENIZER, swap.LAUNCH, TEXTS) or _incomplete(name)}
    if names and not overwrite and not (may_continue and names == before_start):
        raise ValueError(f"{out}: exists already; --resume continues it, --overwrite starts over")
    if config.init and Path(config.init).resolve() == out.resolve():
        raise ValueError(f"--init: {out} cannot be both the run to start from and the run to make")
    for data in (*several(config.data), *several(config.valid)):
        if Path(data).is_dir() and Path(data).resolve() in (out.resolve(), *out.resolve().parents):
            raise ValueError(f"--out: {out} lies in the data, {data}; a run would be its own text")
    if config.train.patience is not None and not config.valid and config.share() is None:
        raise ValueError("train.patience: expected data to validate on; give --valid or --split")


def _launched_by(out: Path) -> str | None:
    """Which torchrun started the run in this folder."""
    return read_text(out / swap.LAUNCH) if (out / swap.LAUNCH).exists() else None


def _resumed_options(out: Path, changes: dict[str, Any]) -> Config:
    """The options of the run in this folder, with those changed that may change."""
    file = out / run_folder.CONFIG
    saved, config = read_options(file), load_config(file)
    saved = {"train": {}, "model": {}} | saved
    for name in FILLED if config.data else ():
        if name not in saved["train"]:
            raise ValueError(f"{file}: train.{name}: is missing, which every run has; restore the file from a copy")
    for table, prefix in ((changes, "--"), (changes.get("model", {}), "--model."), (changes.get("train", {}), "--train.")):
        saved_table = saved if table is changes else saved[prefix.strip("-.")]
        for name, value in table.items():
            value = list(value) if isinstance(value, tuple) else value  # as TOML has it
            may_change = name in ("model", "train") or (prefix == "--train." and (name in RESUMABLE_OPTIONS or value == "auto"))
            if not _is_same(name, saved_table.get(name), value) and not may_change:
                raise ValueError(
                    f"{prefix}{name.replace('_', '-')}: {out} was started with {saved_table.get(name, 'none')}; a resumed run keeps its "
                    f"options, except train's {', '.join(RESUMABLE_OPTIONS)}"
                )
    changed = {name: value for name, value in changes.get("train", {}).items() if name in RESUMABLE_OPTIONS}
    if "steps" in changed or "epochs" in changed:
        changed = {"steps": None, "epochs": None} | changed
    one_process = {} if "RANK" in os.environ else {"shard": False}
    return replace(config, train=replace(config.train, **changed | one_process))


def _is_same(name: str, saved: Any, given: Any) -> bool:
    """Whether an option has the value that it was saved with. Data may be called by another name of the same file."""
    if saved == given or name not in ("data", "valid") or saved is None or given is None:
        return bool(saved == given)
    return [os.path.abspath(each) for each in several(saved)] == [os.path.abspath(each) for each in several(given)]


def _write_new(out: Path, place: Path, prepared: Prepared) -> None:
    """The files that a run has before its first step; in another place if they will replace those of an earlier run."""
    _remove_incomplete(out)
    if (name := launch()) is not None:
        with atomic_write(place / swap.LAUNCH) as file:
            file.write(name)
    prepared.tokenizer.save(place / run_folder.TOKENIZER)
    _write_config(out, prepared, place)


def _write_config(out: Path, prepared: Prepared, place: Path | None = None) -> None:
    with atomic_write((place or out) / run_folder.CONFIG) as file:
        file.write(with_paths(prepared.config, out, place))


def _incomplete(name: str) -> bool:
    """Whether a file is an atomic write that a process did not live to complete: one of ours, or of safetensors, which has its own."""
    return (name.startswith(".") and name.endswith(SUFFIX)) or OF_SAFETENSORS.fullmatch(name) is not None


def _remove_incomplete(out: Path) -> None:
    for path in out.iterdir():
        if _incomplete(path.name):
            discard(path)
