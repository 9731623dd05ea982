"""Runs the named tests against each mutant and tells which mutants they killed.

The slow imports happen once: each mutant is a fork of this process that imports the changed package and runs its tests. What Python compiles
of the unchanged package, the control writes down and all mutants read.
"""

import contextlib
import gc
import io
import os
import shutil
import signal
import sys
import tempfile
import traceback
from pathlib import Path

from tests.mutation.mutant import Change, Mutant
from tests.mutation.tree import Tree, find_test

ROOT = Path(__file__).parents[2]
PACKAGE, TESTS = ROOT / "transalg", ROOT / "tests"
PROCESSES = 1  # of a part; the parts run side by side
LONGEST = 240  # seconds for one mutant; the control, which runs every test, takes the most
NAMELESS = 71  # the exit status where a test failed by a name that nothing defines
OUTCOMES = {0: "survived", 1: "killed"}  # pytest's exit status; any other says that the test did not run
OPTIONS = f"-q -x --assert=plain -p no:cacheprovider -p no:xdist --rootdir {ROOT} -c {ROOT / 'pyproject.toml'}"


class _Failures:
    """A plugin of pytest that notes whether a test failed by a name that nothing defines: that proves nothing."""

    nameless = False

    def pytest_exception_interact(self, call: object) -> None:
        self.nameless |= isinstance(call.excinfo.value, NameError)  # type: ignore[attr-defined]


def run(change: Change | None, tests: list[str], log: Path, unchanged: Path) -> int:
    """In a forked process: pytest's exit status for the tests, their output in `log`. `unchanged` is a copy of the package."""
    import pytest

    os.environ["TRANSALG_TEST_UNCHECKED"] = "1"  # a test is to notice, not the checks of shapes, which take longer to import than it runs
    with (
        tempfile.TemporaryDirectory() as folder,
        log.open("w") as output,
        contextlib.redirect_stdout(output),
        contextlib.redirect_stderr(output),
    ):
        package = unchanged
        if change is not None:
            package = Path(folder) / PACKAGE.name
            overlay(unchanged, package, Path(change.place.file.name), change.changed)
        sys.path.insert(0, str(package.parent))
        sys.dont_write_bytecode = change is not None
        import transalg  # the changed one: its submodules follow

        assert Path(transalg.__file__).parent == package
        failures = _Failures()
        status = int(pytest.main([*OPTIONS.split(), *(str(TESTS / test) for test in tests)], plugins=[failures]))
        return NAMELESS if failures.nameless else status


def overlay(unchanged: Path, folder: Path, file: Path, text: str) -> None:
    """A folder like `unchanged` with another text in one file: links to all the rest, but to nothing compiled of that file."""
    folder.mkdir()
    first = file.parts[0]
    for path in unchanged.iterdir():
        if path.name not in (first, "__pycache__"):
            (folder / path.name).symlink_to(path)
    compiled = unchanged / "__pycache__"
    if compiled.is_dir():
        (folder / "__pycache__").mkdir()
        for path in compiled.iterdir():
            if path.name.split(".")[0] != file.stem:
                (folder / "__pycache__" / path.name).symlink_to(path)
    if len(file.parts) > 1:
        overlay(unchanged / first, folder / first, file.relative_to(first), text)
    else:
        (folder / first).write_text(text, encoding="utf-8")


def _import_what_is_slow() -> None:
    """All that the tests import but the package itself."""
    import hypothesis.strategies  # noqa: F401
    import pytest
    import torch
    from jaxtyping import Float  # noqa: F401
    from transformers.models.bert import modeling_bert  # noqa: F401
    from transformers.models.gpt2 import modeling_gpt2  # noqa: F401

    torch.set_num_threads(1)  # threads do not survive a fork
    with contextlib.redirect_stdout(io.StringIO()):
        pytest.main(["--co", "-q", "--assert=plain", "-p", "no:cacheprovider", "--noconftest", __file__])  # its plugins


def run_all(mutants: list[Mutant]) -> dict[str, str]:
    """Every mutant's outcome by its key; and under "control" that of all their tests on the package as it is."""
    package, tests = Tree(PACKAGE), Tree(TESTS)
    outcomes: dict[str, str] = {}
    waiting: list[tuple[str, Change | None, list[str]]] = []
    for mutant in mutants:
        try:
            waiting.append((mutant.key, mutant.change(package), [find_test(test, tests) for test in mutant.tests.split()]))
        except LookupError as error:
            outcomes[mutant.key] = str(error)
    if not waiting:  # pytest without a name would run every test
        return outcomes | {"control": "no mutant applies"}
    waiting.insert(0, ("control", None, list(dict.fromkeys(test for *_, names in waiting for test in names))))
    _import_what_is_slow()
    gc.freeze()  # else every fork looks through, and so copies, all that was imported
    running: dict[int, tuple[str, Path]] = {}
    with tempfile.TemporaryDirectory() as logs, tempfile.TemporaryDirectory() as copies:
        unchanged = Path(copies) / PACKAGE.name
        shutil.copytree(PACKAGE, unchanged, ignore=shutil.ignore_patterns("__pycache__"))
        while waiting or running:
            while waiting and len(running) < PROCESSES:
                key, change, names = waiting.pop(0)
                log = Path(logs) / str(len(waiting))
                pid = os.fork()
                if pid == 0:
                    signal.alarm(LONGEST)  # a mutant that hangs ends here, and counts as not killed
                    status = 70
                    try:
                        status = run(change, names, log, unchanged)
                    except BaseException:
                        log.write_text(traceback.format_exc())
                    os._exit(status)
                running[pid] = key, log
            pid, state = os.wait()
            key, log = running.pop(pid)
            status = os.waitstatus_to_exitcode(state)
            outcomes[key] = OUTCOMES.get(status) or f"exit status {status}:\n{log.read_text()[-2000:]}"
    return outcomes


def part_of(mutants: list[Mutant], part: int, parts: int) -> list[Mutant]:
    """One of several parts, such that mutants with one test are in one part: the control runs each test once."""
    together = sorted(mutants, key=lambda mutant: mutant.tests)
    size = -(-len(mutants) // parts)
    return together[part * size : (part + 1) * size]


def check(mutants: list[Mutant]) -> tuple[list[str], list[str]]:
    """What is wrong with the list, and which mutants apply somewhere else or under other names than they say."""
    package, tests = Tree(PACKAGE), Tree(TESTS)
    wrong, elsewhere = [], []
    for mutant in mutants:
        try:
            change = mutant.change(package)
            if change.note:
                elsewhere.append(f"{mutant.key}\n    {change.note}\n    {change.place} → {change.new}")
        except LookupError as error:
            wrong.append(str(error))
        for test in mutant.tests.split():
            try:
                find_test(test, tests)
            except LookupError as error:
                wrong.append(f"{mutant.key}\n    {error}")
    return wrong, elsewhere
