"""A run begins, or goes on: what may be there already, what may change, what is written first."""

import os
import shutil
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from transalg.runs import checkpoints
from transalg.runs import folder as run_folder
from transalg.runs.config import Config, read
from transalg.tokenization import Tokenizer
from transalg.training.loop import Loop, Outcome
from transalg.training.memory import keep_memory
from transalg.training.metrics import METRICS
from transalg.training.prepare import Prepared, prepare
from transalg.training.processes import begin, launch, restarted
from transalg.training.report import Report

LAUNCH = ".launch"  # the file that tells which torchrun began a run
FREE = (
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
) -> Outcome:
    """Train what the options say into the folder `out`; or, to resume, go on with the run that is there, with its own options but for changes."""
    report = report or Report()
    asked = resume or (restarted() and _launched(out) == launch())
    resume = asked and (out / "config.toml").exists()
    known = _continued(out, changes or {}) if resume else config
    if known is None:
        raise ValueError(f"{out}: there is no run to resume")
    if known.train.threads:
        torch.set_num_threads(known.train.threads)
    world = begin(known.train.device, sharded=known.train.shard)
    try:
        if world.size > 1:  # the first process may have made the folder before another looks
            resume = world.agreed(resume)
            known = _continued(out, changes or {}) if resume else config or known
        if not resume and world.first:
            _check(known, out, asked, overwrite)
        report = report if world.first else Report()
        if not world.first:
            world.wait()
        kept = Tokenizer.load(out / "tokenizer.json") if resume or not world.first else None
        before = run_folder.last(out) if resume else None
        prepared = prepare(known, out, report, kept, tuple(before.get("labels", ())) if before else None)
        if before and before.get("data", prepared.digest) != prepared.digest:
            raise ValueError(f"{known.data}: is not what it was when {out} was begun; restore it, or begin anew")
        if world.first:
            if resume:
                checkpoints.write(out / "config.toml", prepared.config.toml())
                if before is None:
                    report.note("No checkpoint yet: from the start")
                    (out / METRICS).unlink(missing_ok=True)
            else:
                _fresh(out, prepared, overwrite)
            world.wait()
        keep_memory()
        return Loop(prepared, out, world, report, before is not None).run()
    finally:
        world.end()


def _check(config: Config, out: Path, asked: bool, overwrite: bool) -> None:
    """Whether a new run may begin here."""
    there = {path.name for path in out.iterdir()} if out.is_dir() else {""} if out.exists() else set()
    begun = {"tokenizer.json", LAUNCH, ".config.toml.part"}  # of a run that died before it had begun
    if there and not overwrite and not (asked and there <= begun):
        raise ValueError(f"{out}: exists already; --resume goes on with it, --overwrite begins anew")
    if config.init and Path(config.init).resolve() == out.resolve():
        raise ValueError(f"--init: {out} cannot be both the run to start from and the run to make")
    for data in (config.data, config.valid):
        if data and Path(data).is_dir() and Path(data).resolve() in (out.resolve(), *out.resolve().parents):
            raise ValueError(f"--out: {out} lies in the data, {data}; a run would be its own text")
    if config.train.tensorboard and find_spec("tensorboard") is None:
        raise ValueError("train.tensorboard: TensorBoard is not installed; pip install 'transalg[tensorboard]'")
    if config.train.patience is not None and not config.valid and config.share() is None:
        raise ValueError("train.patience: expected data to validate on; give --valid or --split")


def _launched(out: Path) -> str | None:
    """Which torchrun began the run that is there."""
    return (out / LAUNCH).read_text(encoding="utf-8") if (out / LAUNCH).exists() else None


def _continued(out: Path, changes: dict[str, Any]) -> Config:
    """The options of the run that is there, but for those that may change from one start to the next."""
    before = read(out / "config.toml")
    for table, prefix in ((changes, "--"), (changes.get("model", {}), "--model."), (changes.get("train", {}), "--train.")):
        own = before if table is changes else before[prefix.strip("-.")]
        for name, value in table.items():
            value = list(value) if isinstance(value, tuple) else value  # as TOML has it
            if name not in ("model", "train") and own.get(name) != value and not (prefix == "--train." and name in FREE):
                raise ValueError(
                    f"{prefix}{name.replace('_', '-')}: {out} was begun with {own.get(name, 'none')}; a run that is resumed keeps its options "
                    f"but for train's {', '.join(FREE)}"
                )
    free = {name: value for name, value in changes.get("train", {}).items() if name in FREE}
    if "steps" in free or "epochs" in free:
        free = {"steps": None, "epochs": None} | free
    config = Config.from_dict(before)
    alone = {} if "RANK" in os.environ else {"shard": False}
    return replace(config, train=replace(config.train, **free | alone))


def _fresh(out: Path, prepared: Prepared, overwrite: bool) -> None:
    if overwrite and out.exists():
        for name in ("config.toml", "tokenizer.json", METRICS, "best.safetensors", "last.safetensors"):
            (out / name).unlink(missing_ok=True)
        for name in ("best", "last", "tensorboard"):
            shutil.rmtree(out / name, ignore_errors=True)
    out.mkdir(parents=True, exist_ok=True)
    if (name := launch()) is not None:
        checkpoints.write(out / LAUNCH, name)
    prepared.tokenizer.save(out / "tokenizer.json")
    checkpoints.write(out / "config.toml", prepared.config.toml())
