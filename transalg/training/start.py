"""A run starts, or continues: what the folder may contain already, which options may change, what is written first."""

import os
import shutil
from contextlib import nullcontext
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from transalg.atomic import SUFFIX, atomic_write
from transalg.runs import folder as run_folder
from transalg.runs.config import Config, several
from transalg.runs.metadata import Metadata
from transalg.runs.paths import read_options, with_paths
from transalg.runs.texts import TEXTS, Texts, remove_unused
from transalg.tasks import find
from transalg.tokenization import Tokenizer
from transalg.training.loop import Loop, Outcome
from transalg.training.machine import busy_cores, choose_dtype, choose_threads, computes_in_bfloat16
from transalg.training.memory import keep_memory
from transalg.training.prepare import Prepared, prepare
from transalg.training.prepare_episodes import prepare_episodes
from transalg.training.processes import World, connect, launch, restarted
from transalg.training.report import Report

LAUNCH = ".launch"  # the file that tells which torchrun started a run
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
    report = report or Report()
    may_continue = resume or (restarted() and _launched_by(out) == launch())
    resume = may_continue and (out / run_folder.CONFIG).exists()
    options = _resumed_options(out, changes or {}) if resume else config
    if options is None:
        raise ValueError(f"{out}: there is no run to resume")
    if not options.data:
        raise ValueError(
            f"{out}: an imported model has no data to train on; transalg train {options.task} --init {out} --data FILE --out RUN"
        )
    world = connect(options.train.device, sharded=options.train.shard)
    try:
        if world.size > 1:  # the first process may have made the folder before another looks
            resume = world.agreed(resume)
            options = _resumed_options(out, changes or {}) if resume else config or options
        if not resume and world.first:
            _check_new(options, out, may_continue, overwrite)
        report = report if world.first else Report()
        if options.train.threads is None and world.size == 1 and world.device.type == "cpu":
            options = _with_threads(options, report)
        if options.train.threads:
            torch.set_num_threads(options.train.threads)
        if not world.first:
            world.wait()
        with texts.written(out) if texts and world.first and not resume else nullcontext():
            if texts and world.first and resume:
                texts.compare(out)
            prepared, last = _prepare(options, out, world, report, resume=resume, overwrite=overwrite)
        keep_memory()
        return Loop(prepared, out, world, report, last is not None).run()
    finally:
        world.end()


def _prepare(
    options: Config, out: Path, world: World, report: Report, *, resume: bool, overwrite: bool
) -> tuple[Prepared, Metadata | None]:
    """Everything but the model, once the run's first files are written; and what the last checkpoint says, if the run has one."""
    last = run_folder.last_metadata(out) if resume else None
    tokenizer = None
    if last:
        tokenizer = run_folder.load_tokenizer(out, last.hyper)
    elif resume or not world.first:
        tokenizer = Tokenizer.load(out / run_folder.TOKENIZER)
    if find(options.task).records == "episodes":
        prepared = prepare_episodes(options, out, report, tokenizer, resumed=last is not None)
    else:
        prepared = prepare(options, out, report, tokenizer, last.labels if last else None)
    if options.train.dtype == "auto":
        prepared = _with_dtype(prepared, world.device, report)
    if last and (last.data or prepared.digest) != prepared.digest:
        raise ValueError(f"{', '.join(several(options.data))}: is not what it was when {out} was started; restore it, or start over")
    if world.first:
        if resume:
            _remove_incomplete(out)
            _write_config(out, prepared)
            if last is None:
                report.note("No checkpoint yet: from the start")
                (out / run_folder.METRICS).unlink(missing_ok=True)
        else:
            _write_new(out, prepared, overwrite)
        world.wait()
    return prepared, last


def _with_threads(options: Config, report: Report) -> Config:
    """The options with as many threads as the other processes leave cores for."""
    threads, note = choose_threads(torch.get_num_threads(), os.cpu_count() or 1, busy_cores)
    if note:
        report.note(note)
    return replace(options, train=replace(options.train, threads=threads))


def _with_dtype(prepared: Prepared, device: torch.device, report: Report) -> Prepared:
    dtype, note = choose_dtype(prepared.hyper.d_e, computes_in_bfloat16(device))
    if note:
        report.note(note)
    return replace(prepared, config=replace(prepared.config, train=replace(prepared.config.train, dtype=dtype)))


def _check_new(config: Config, out: Path, may_continue: bool, overwrite: bool) -> None:
    """Whether a new run may start here."""
    names = {path.name for path in out.iterdir()} if out.is_dir() else {""} if out.exists() else set()
    before_start = {name for name in names if name in (run_folder.TOKENIZER, LAUNCH, TEXTS) or _incomplete(name)}
    if names and not overwrite and not (may_continue and names == before_start):
        raise ValueError(f"{out}: exists already; --resume continues it, --overwrite starts over")
    if config.init and Path(config.init).resolve() == out.resolve():
        raise ValueError(f"--init: {out} cannot be both the run to start from and the run to make")
    for data in (*several(config.data), *several(config.valid)):
        if Path(data).is_dir() and Path(data).resolve() in (out.resolve(), *out.resolve().parents):
            raise ValueError(f"--out: {out} lies in the data, {data}; a run would be its own text")
    if config.train.tensorboard and find_spec("tensorboard") is None:
        raise ValueError("train.tensorboard: TensorBoard is not installed; pip install 'transalg[tensorboard]'")
    if config.train.patience is not None and not config.valid and config.share() is None:
        raise ValueError("train.patience: expected data to validate on; give --valid or --split")


def _launched_by(out: Path) -> str | None:
    """Which torchrun started the run in this folder."""
    return (out / LAUNCH).read_text(encoding="utf-8") if (out / LAUNCH).exists() else None


def _resumed_options(out: Path, changes: dict[str, Any]) -> Config:
    """The options of the run in this folder, with those changed that may change."""
    saved = read_options(out / run_folder.CONFIG)
    for table, prefix in ((changes, "--"), (changes.get("model", {}), "--model."), (changes.get("train", {}), "--train.")):
        saved_table = saved if table is changes else saved[prefix.strip("-.")]
        for name, value in table.items():
            value = list(value) if isinstance(value, tuple) else value  # as TOML has it
            may_change = name in ("model", "train") or (prefix == "--train." and (name in RESUMABLE_OPTIONS or value == "auto"))
            if saved_table.get(name) != value and not may_change:
                raise ValueError(
                    f"{prefix}{name.replace('_', '-')}: {out} was started with {saved_table.get(name, 'none')}; a resumed run keeps its "
                    f"options, except train's {', '.join(RESUMABLE_OPTIONS)}"
                )
    changed = {name: value for name, value in changes.get("train", {}).items() if name in RESUMABLE_OPTIONS}
    if "steps" in changed or "epochs" in changed:
        changed = {"steps": None, "epochs": None} | changed
    config = Config.from_dict(saved)
    one_process = {} if "RANK" in os.environ else {"shard": False}
    return replace(config, train=replace(config.train, **changed | one_process))


def _write_new(out: Path, prepared: Prepared, overwrite: bool) -> None:
    """The files that a run has before its first step."""
    if overwrite and out.exists():
        checkpoint_files = (run_folder.checkpoint_file(out, name).name for name in (run_folder.BEST, run_folder.LAST))
        for name in (run_folder.CONFIG, run_folder.TOKENIZER, run_folder.METRICS, *checkpoint_files):
            (out / name).unlink(missing_ok=True)
        for name in (run_folder.BEST, run_folder.LAST, run_folder.TENSORBOARD):
            shutil.rmtree(out / name, ignore_errors=True)
        remove_unused(out, (*several(prepared.config.data), *several(prepared.config.valid)))
    out.mkdir(parents=True, exist_ok=True)
    _remove_incomplete(out)
    if (name := launch()) is not None:
        with atomic_write(out / LAUNCH) as file:
            file.write(name)
    prepared.tokenizer.save(out / run_folder.TOKENIZER)
    _write_config(out, prepared)


def _write_config(out: Path, prepared: Prepared) -> None:
    with atomic_write(out / run_folder.CONFIG) as file:
        file.write(with_paths(prepared.config, out))


def _incomplete(name: str) -> bool:
    """Whether a file is an atomic write that a process did not live to complete."""
    return name.startswith(".") and name.endswith(SUFFIX)


def _remove_incomplete(out: Path) -> None:
    for path in out.iterdir():
        if _incomplete(path.name) and path.is_file():
            path.unlink(missing_ok=True)
