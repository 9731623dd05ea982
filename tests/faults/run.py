"""Runs cases one after the other, in forked processes of one that has imported everything."""

import gc
import importlib
import os
import pkgutil
import re
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.faults import judge, sandbox
from tests.faults.cases import Case, all_cases
from tests.faults.commands import owned, written_by
from tests.faults.originals import CANARY, make_all
from tests.faults.surroundings import BEGUN, SILENT, SURROUNDINGS

LAZY = (  # modules that commands import when they need them
    "torch._dynamo", "matplotlib.pyplot", "matplotlib.backends.backend_agg", "matplotlib.backends.backend_svg", "numpy.random", "gguf", "gguf.quants",
    "ctranslate2.specs", "transformers.utils.logging", "PIL.PngImagePlugin", "PIL.GifImagePlugin", "torch.distributed.checkpoint.hf_storage",
    "torch.distributed.checkpoint.state_dict_loader", "torch.distributed.checkpoint.state_dict_saver", "torch.distributed.checkpoint.api", "torch.distributed.tensor",
)  # fmt: skip

STEPPED = re.compile(r" at step \d")  # training that failed after some steps says so


@dataclass(frozen=True)
class Result:
    number: int
    case: Case
    wrong: list[str]
    outcome: sandbox.Outcome
    seconds: float


def import_everything() -> None:
    """All of the package, and what it imports late: a forked process then has it."""
    import torch

    import transalg

    torch.set_num_threads(1)  # threads do not survive a fork
    for module in pkgutil.walk_packages(transalg.__path__, "transalg."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    for name in LAZY:
        with suppress(ImportError):
            importlib.import_module(name)


@contextmanager
def prepared() -> Iterator[tuple[Path, list[Case]]]:
    """A folder with the originals, and the cases."""
    os.environ |= {"TOKENIZERS_PARALLELISM": "false", "MPLBACKEND": "agg", "HF_HUB_OFFLINE": "1"}
    import_everything()
    base = sandbox.new_folder("faults-")
    try:
        make_all(base)
        cases = all_cases(base / "original")
        gc.collect()
        gc.freeze()  # no child needs to look at what is there already
        yield base, cases
    finally:
        os.chdir("/")
        shutil.rmtree(base, ignore_errors=True)


def run_case(base: Path, number: int, case: Case) -> Result:
    start = time.monotonic()
    sandbox.restore(base / "original" / case.original, base / "work")
    sandbox.restore(base / "original" / CANARY, base / CANARY)
    around = SURROUNDINGS[case.surroundings] if case.surroundings else None
    outcome = sandbox.run(
        case.arguments, base / "work", base / CANARY, damage=case.damage, surroundings=around, interrupted=case.interrupted
    )
    mine, silent = owned(case.arguments), case.surroundings in SILENT
    went_on = silent or STEPPED.search(outcome.err)
    kept = mine if went_on else BEGUN if case.surroundings else ()  # what a command has done before it fails
    written = bool(written_by(case.arguments))  # the answer may be in a file
    wrong = judge.complaints(outcome, case.arguments, mine, kept=kept, silent=silent or written, interrupted=case.interrupted)
    return Result(number, case, wrong, outcome, time.monotonic() - start)


def run_cases(base: Path, cases: Sequence[Case], numbers: Sequence[int], report: Callable[[Result], None]) -> list[Result]:
    results = []
    for number in numbers:
        results.append(run_case(base, number, cases[number]))
        report(results[-1])
    return results


def counts(results: Sequence[Result]) -> list[tuple[str, int, int]]:
    """Of every kind of damage: how many cases were tried, and how many held."""
    kinds = dict.fromkeys(result.case.kind for result in results)
    return [
        (kind, len(of_kind), sum(not result.wrong for result in of_kind))
        for kind in kinds
        if (of_kind := [r for r in results if r.case.kind == kind])
    ]
