"""Runs one named test against each mutant of a package and tells which mutants it killed.

A mutant is the package with one place changed. The slow imports happen once: each mutant is a fork of this process that
imports the changed package and runs its one test.  `python -m tests.mutation` prints a JSON object: mutant → outcome.
"""

import contextlib
import io
import json
import os
import shutil
import signal
import sys
import tempfile
import traceback
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PROCESSES = 1  # of a part; the parts run side by side
LONGEST = 240  # seconds for one mutant; the control, which runs every test, takes the most
OUTCOMES = {0: "survived", 1: "killed"}  # pytest's exit status; any other says that the test did not run


@dataclass(frozen=True)
class Mutant:
    """In the body of `where` (a function or class), the first `old` becomes `new`; one of `tests` must then fail."""

    where: str
    old: str
    new: str
    tests: str  # one of pytest's names, or several with spaces between
    file: str = ""  # the end of the file's path, where several define `where`

    def __str__(self) -> str:
        return f"{self.file and self.file + ' '}{self.where}: {self.old} → {self.new}"

    def apply(self, package: Path) -> None:
        """Change the one file that defines `where`."""
        for path in sorted(package.rglob("*.py")):
            if not path.as_posix().endswith(self.file):
                continue
            text = path.read_text(encoding="utf-8")
            starts = [text.find(f"\n{kind} {self.where}{end}") for kind in ("def", "class") for end in ("(", ":")]
            starts += [text.find(f"\n{self.where} = ")]
            start = max(starts)
            if start >= 0:
                ends = [text.find(f"\n{word}", start + 1) for word in ("def ", "class ", "@")]
                end = min((end for end in ends if end >= 0), default=len(text))
                body = text[start:end]
                assert self.old in body, f"{self} does not apply: {self.old!r} is not in {self.where}"
                changed = body.replace(self.old, self.new, 1)
                path.write_text(text[:start] + changed + text[end:], encoding="utf-8")
                compile(path.read_text(encoding="utf-8"), path, "exec")
                return
        raise AssertionError(f"{self} does not apply: nothing in {package} defines {self.where}")


def run(mutant: Mutant, log: Path) -> int:
    """In a forked process: pytest's exit status for the mutant's test, its output in `log`."""
    import pytest

    with (
        tempfile.TemporaryDirectory() as folder,
        log.open("w") as output,
        contextlib.redirect_stdout(output),
        contextlib.redirect_stderr(output),
    ):
        package = Path(folder) / "transalg"
        shutil.copytree(ROOT / "transalg", package, ignore=shutil.ignore_patterns("__pycache__"))
        mutant.apply(package)
        sys.path.insert(0, folder)
        sys.dont_write_bytecode = True
        import transalg  # the changed one: its submodules follow

        assert Path(transalg.__file__).parent == package
        options = [
            "-q",
            "-x",
            "--assert=plain",
            "-p",
            "no:cacheprovider",
            "-p",
            "no:xdist",
            "--rootdir",
            str(ROOT),
            "-c",
            str(ROOT / "pyproject.toml"),
        ]
        return int(pytest.main([*options, *(str(ROOT / "tests" / test) for test in mutant.tests.split())]))


def _import_what_is_slow() -> None:
    """All that the tests import but the package itself, and what the run-time checker imports when it is first used."""
    import hypothesis.strategies  # noqa: F401
    import pytest
    import torch
    from beartype import beartype
    from jaxtyping import Float, jaxtyped
    from transformers.models.bert import modeling_bert  # noqa: F401
    from transformers.models.gpt2 import modeling_gpt2  # noqa: F401

    torch.set_num_threads(1)  # threads do not survive a fork

    @jaxtyped(typechecker=beartype)
    def double(x: Float[torch.Tensor, "n"]) -> Float[torch.Tensor, "n"]:
        return 2 * x

    double(torch.ones(3))
    with contextlib.redirect_stdout(io.StringIO()):
        pytest.main(
            [
                "--co",
                "-q",
                "--assert=plain",
                "-p",
                "no:cacheprovider",
                "--noconftest",
                str(ROOT / "tests" / "mutation.py"),
            ]
        )  # its plugins


def run_all(mutants: list[Mutant]) -> dict[str, str]:
    """Every mutant's outcome, a few at a time; and under "control" that of all their tests on the package as it is."""
    _import_what_is_slow()
    outcomes: dict[str, str] = {}
    running: dict[int, tuple[Mutant, Path]] = {}
    nothing = mutants[0].where
    control = Mutant(nothing, f"{nothing}(", f"{nothing}(", " ".join(dict.fromkeys(mutant.tests for mutant in mutants)))
    waiting = [control, *mutants]
    with tempfile.TemporaryDirectory() as logs:
        while waiting or running:
            while waiting and len(running) < PROCESSES:
                mutant = waiting.pop(0)
                log = Path(logs) / str(len(waiting))
                pid = os.fork()
                if pid == 0:
                    signal.alarm(LONGEST)  # a mutant that hangs ends here, and counts as not killed
                    status = 70
                    try:
                        status = run(mutant, log)
                    except BaseException:
                        log.write_text(traceback.format_exc())
                    os._exit(status)
                running[pid] = mutant, log
            pid, state = os.wait()
            mutant, log = running.pop(pid)
            status = os.waitstatus_to_exitcode(state)
            outcomes["control" if mutant is control else str(mutant)] = (
                OUTCOMES.get(status) or f"exit status {status}:\n{log.read_text()[-2000:]}"
            )
    return outcomes


def part_of(mutants: list[Mutant], part: int, parts: int) -> list[Mutant]:
    """One of several parts, such that mutants with one test are in one part: the control runs each test once."""
    together = sorted(mutants, key=lambda mutant: mutant.tests)
    size = -(-len(mutants) // parts)
    return together[part * size : (part + 1) * size]


if __name__ == "__main__":
    from tests.test_mutants import MUTANTS

    part, parts = map(int, sys.argv[1:])
    json.dump(run_all(part_of(MUTANTS, part, parts)), sys.stdout)
