"""Train from Python, on files or on the program's own texts. The command line calls these functions too."""

import shutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from transalg import terminal
from transalg.data import objects
from transalg.memory import is_out_of_memory, out_of_memory
from transalg.runs.config import Config
from transalg.runs.folder import BEST, LAST, METRICS
from transalg.runs.options import in_tables, override
from transalg.runs.paths import read_options
from transalg.runs.texts import Texts, file
from transalg.tasks import TASKS, find, names
from transalg.training import start
from transalg.training.loop import Outcome
from transalg.training.memory import SMALLER
from transalg.training.notebook import Notebook, in_notebook
from transalg.training.prepare import CACHE
from transalg.training.report import Calling, OnStep, OnValidation, Report
from transalg.training.watch import Watch

Name = str | Path  # of a file or a folder, or of built-in data
Data = Name | Iterable[Any]


def train(
    task: str | None = None,
    data: Data | None = None,
    *,
    out: Name,
    valid: Data | None = None,
    config: Name | None = None,
    resume: bool = False,
    overwrite: bool = False,
    progress: bool | Report = True,
    on_step: OnStep | None = None,
    on_validation: OnValidation | None = None,
    **options: Any,
) -> Outcome:
    """Train a transformer into the folder `out`, as `transalg train` does: the same options, defaults and files.

    `data` (and `valid`) is the name of a file, a folder or built-in data, or an iterable of

    - texts, for lm and mlm;
    - (source, target), for seq2seq;
    - (text, label), for classify;
    - mappings with the columns that `text_column`, `label_column`, `source_column` and `target_column` name;

    or a table with such columns: a DataFrame, a `datasets.Dataset`, a mapping of columns. For multi it is a mapping of names to such data.
    It is read once, so an iterator may have more than fits in memory. The run keeps it, in `out`/texts.

    `options` are those of the command line, by name: `steps=500, d_e=64, split=0.2`, or in the tables of config.toml:
    `train={"steps": 500}, model={"d_e": 64}`. They override those of the TOML file `config`.

    With `resume` the run in `out` continues, with its options; task and data may be left out, and otherwise have to be the same. `on_step`
    is called with step, loss and tokens per second, `on_validation` with step, figures and whether they are the best so far; an exception in
    either ends the run, which can be resumed. `progress` prints as the command line does, in a notebook with a bar and the curves.
    """
    request = _request(task, data, valid, config, Path(out), resume, options)
    if request.config is not None and request.config.folds and request.config.fold is None:
        raise ValueError("folds: transalg.cross_validate trains on all folds; fold=1 trains on the first")
    return _run(request, Path(out), resume, overwrite, _report(progress, Path(out)), on_step, on_validation)


def cross_validate(
    task: str | None = None,
    data: Data | None = None,
    *,
    out: Name,
    config: Name | None = None,
    resume: bool = False,
    overwrite: bool = False,
    progress: bool | Report = True,
    on_fold: Callable[[int], object] | None = None,
    **options: Any,
) -> list[Outcome]:
    """Train once for each of `folds`, each time validating on another part of the data, as `transalg train --folds` does; see `train`.

    Runs are in `out`/fold-1, `out`/fold-2, …; `on_fold` is called with the number of each before it starts. An interrupted run is the last.
    """
    request = _request(task, data, None, config, Path(out), resume, options)
    if request.config is None or not request.config.folds:
        raise ValueError("folds: expected how many, got none")
    existed = Path(out).exists()
    if request.texts is not None:
        if resume:
            request.texts.compare(Path(out))
        else:
            if Path(out).exists() and any(Path(out).iterdir()) and not overwrite:
                raise ValueError(f"{out}: exists already; --resume continues it, --overwrite starts over")
            with request.texts.written(Path(out)):
                pass
    outcomes: list[Outcome] = []
    for fold in range(1, request.config.folds + 1):
        if on_fold is not None:
            on_fold(fold)
        of_fold = Request(replace(request.config, fold=fold), request.chosen)
        folder = Path(out) / f"fold-{fold}"
        try:
            outcomes.append(_run(of_fold, folder, resume, overwrite, _report(progress, folder)))
        except ValueError:
            if not existed and {path.name for path in Path(out).glob("*")} <= {CACHE}:
                shutil.rmtree(out, ignore_errors=True)
            raise
        if outcomes[-1].reason == "interrupted":
            break
    return outcomes


@dataclass(frozen=True)
class Request:
    """What a caller wants."""

    config: Config | None  # None to resume a run by its folder alone
    chosen: dict[str, Any]  # the options that were given
    texts: Texts | None = None


def _request(
    task: str | None, data: Data | None, valid: Data | None, file_name: Name | None, out: Path, resume: bool, options: dict[str, Any]
) -> Request:
    saved = read_options(Path(file_name)) if file_name else {}
    named: dict[str, Any] = {"task": task} if task else {}
    lines: dict[str, tuple[str, Any]] = {}
    for option, value in (("data", data), ("valid", valid)):
        if value is not None:
            named[option], of_option = _as_files(option, value, task or saved.get("task"), out)
            lines |= of_option
    chosen = override(saved, in_tables(named | options), file_name or "")
    if not chosen and not resume:
        raise ValueError(f"train: expected a task, {names()}; transalg train lm --data FILE --out RUN")
    complete = chosen.get("task") and chosen.get("data")  # else the run in the folder is meant
    config = Config.from_dict(chosen) if complete or not resume else None
    changes = {name: value for name, value in chosen.items() if not (lines and name in ("data", "valid"))}
    if not lines:
        return Request(config, changes)
    if config is None:
        raise ValueError(f"task: expected one with data from Python, {names()}, got none")
    task_of_run = find(config.task)
    columns = tuple(str(getattr(config, column)) for column in task_of_run.columns)
    texts = Texts({name: objects.lines(label, each, task_of_run.records, columns) for name, (label, each) in lines.items()})
    return Request(config, changes, texts)


def _as_files(option: str, data: Any, task: str | None, out: Path) -> tuple[Any, dict[str, tuple[str, Any]]]:
    """The names of the files that the data are or become, and what is to be written: by the file's name, what messages call it and itself."""
    if isinstance(data, str | Path):
        return str(data), {}
    has_heads = task in TASKS and TASKS[task].has_heads
    if isinstance(data, list | tuple) and data and all(isinstance(one, (Path, str) if has_heads else Path) for one in data):
        return tuple(map(str, data)), {}
    if not has_heads:
        name = f"{option}.jsonl"
        return str(file(out, name)), {name: (option, data)}
    if not isinstance(data, Mapping):
        raise ValueError(f"{option}: expected a mapping of names to labelled texts, or names of files, got {type(data).__name__}")
    files = {f"{option}/{head}.jsonl": (f"{option}[{head!r}]", each) for head, each in data.items()}
    return tuple(str(file(out, name)) for name in files), files


def _report(progress: bool | Report, out: Path) -> Report:
    if isinstance(progress, Report):
        return progress
    if not progress:
        return Report()
    return Notebook(out) if in_notebook() else Watch(terminal.console())


def _run(
    request: Request,
    out: Path,
    resume: bool,
    overwrite: bool,
    report: Report,
    on_step: OnStep | None = None,
    on_validation: OnValidation | None = None,
) -> Outcome:
    """Train, and leave torch's threads and random numbers as they were."""
    threads, existed = torch.get_num_threads(), out.exists()
    try:
        with torch.random.fork_rng():
            calling = Calling(report, on_step, on_validation)
            return start.train(
                request.config, out, resume=resume, changes=request.chosen, overwrite=overwrite, report=calling, texts=request.texts
            )
    except (MemoryError, RuntimeError, ValueError) as error:
        if not existed and _has_not_begun(out):
            shutil.rmtree(out, ignore_errors=True)  # nothing but what would have to be overwritten
        if not is_out_of_memory(error):
            raise
        raise ValueError(out_of_memory(error, "the model and its training", SMALLER["activations"])) from error
    finally:
        report.end()
        torch.set_num_threads(threads)


def _has_not_begun(out: Path) -> bool:
    """Whether a run has neither a checkpoint nor a step that its metrics tell of."""
    return not any(out.glob("*.safetensors")) and not any((out / name).exists() for name in (METRICS, BEST, LAST))
