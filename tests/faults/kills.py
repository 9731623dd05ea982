"""Training is killed again and again, and resumed; what it ends with must be, bit for bit, what a run that nobody disturbed ends with."""

import os
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

from tests.faults.sandbox import new_folder
from tests.training.runs import assert_same, config, files
from transalg.runs import checkpoints
from transalg.training.start import train

TASKS = ("lm", "mlm", "seq2seq", "classify")
STEPS = 9
OPTIONS: dict[str, Any] = {"steps": STEPS, "save_every": 1, "eval_every": 2, "batch_size": 4, "accumulate": 2}
MODEL = {"dropout": 0.1, "attention_dropout": 0.1}  # so that every step is random
CALLS = ("replace", "fsync", "open", "unlink", "rename")  # of the system, while files are written
ATTEMPTS = 200  # to complete one run; each is killed unless it is done before


def run(kills: int) -> int:
    """How many of so many kills, over all tasks, left runs that ended as if nobody had killed them."""
    import torch._dynamo  # what every child would import for its first step

    torch.set_num_threads(1)
    folder = new_folder("kills-")
    try:
        files(folder)
        shares = [kills // len(TASKS) + (i < kills % len(TASKS)) for i in range(len(TASKS))]
        return sum(_of_task(task, folder, share) for task, share in zip(TASKS, shares, strict=True))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _of_task(task: str, folder: Path, kills: int) -> int:
    """The kills of one task: run after run, each killed until it is done."""
    whole, draw = folder / f"{task} whole", Random(f"kills of {task}")
    start = time.monotonic()
    assert _wait(_attempt(task, folder, whole.name, None)) == 0, task
    seconds = time.monotonic() - start
    done = held = number = 0
    while done < kills:
        name = f"{task} {number}"
        died = _killed_until_done(task, folder, name, draw, kills - done, seconds)
        wrong = _difference(folder, whole.name, name)
        if wrong:
            print(f"{task}, run {number} after {died} kills: {wrong}", file=sys.stderr)
        else:
            held += died
            shutil.rmtree(folder / name)
        done, number = done + (max(died, 1) if wrong else died), number + 1  # a run that fails by itself counts too
    return held


def _killed_until_done(task: str, folder: Path, name: str, draw: Random, kills: int, seconds: float) -> int:
    """How often the run was killed before it was done."""
    died = 0
    for _ in range(ATTEMPTS):
        if died == kills:
            _wait(_attempt(task, folder, name, None))
            return died
        timed = draw.random() < 0.6
        child = _attempt(task, folder, name, None if timed else _moment(draw))
        if timed:
            _kill_after(child, draw.uniform(0, seconds))
        status = _wait(child)
        signal.setitimer(signal.ITIMER_REAL, 0)
        if status == 0:
            return died
        if status != -signal.SIGKILL:
            print(f"{task}: exit status {status}", file=sys.stderr)
            return died
        died += 1
    return died


def _attempt(task: str, folder: Path, name: str, moment: Callable[[], None] | None) -> int:
    """The process that trains until it is done or dies."""
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        if moment is not None:
            moment()
        more = {"noise": 0.1, "token_drop": 0.1} if task in ("seq2seq", "classify") else {}
        train(config(task, folder, MODEL, **OPTIONS | more), folder / name, resume=True)
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def _wait(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _kill_after(child: int, seconds: float) -> None:
    def kill(*_: Any) -> None:
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)

    signal.signal(signal.SIGALRM, kill)
    signal.setitimer(signal.ITIMER_REAL, max(seconds, 1e-4))


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _moment(draw: Random) -> Callable[[], None]:
    """A process that does this dies at one of its calls of the system, or with a part of a checkpoint written."""
    if draw.random() < 0.3:
        return _while_writing(draw.randrange(1, 7), draw.choice([0, 0.3, 0.999, 1]))
    return _at_call(draw.choice(CALLS), draw.randrange(1, 40), before=draw.random() < 0.5)


def _at_call(name: str, number: int, *, before: bool) -> Callable[[], None]:
    function, calls = getattr(os, name), [0]

    def counted(*arguments: Any, **more: Any) -> Any:
        calls[0] += 1
        if calls[0] == number and before:
            _die()
        result = function(*arguments, **more)
        if calls[0] == number:
            _die()
        return result

    return lambda: setattr(os, name, counted)


def _while_writing(number: int, share: float) -> Callable[[], None]:
    save_file, calls = checkpoints.save_file, [0]

    def partly(tensors: Any, path: Path, *rest: Any) -> None:
        save_file(tensors, path, *rest)
        calls[0] += 1
        if calls[0] == number:
            os.truncate(path, int(share * os.path.getsize(path)))
            _die()

    return lambda: setattr(checkpoints, "save_file", partly)


def _difference(folder: Path, whole: str, name: str) -> str:
    """What is not as in the whole run; nothing if all is."""
    try:
        assert_same(folder, whole, name)
    except (AssertionError, ValueError, OSError) as error:
        return str(error) or "other metadata or metrics"
    ours, theirs = ({path.name for path in (folder / each).iterdir()} for each in (name, whole))
    return "" if ours == theirs else f"other files: {sorted(ours ^ theirs)}"
