"""Every test runs with the shapes of `transalg.formal` and `transalg.model` checked at run time, and with repeatable examples."""

import os
from collections.abc import Iterator
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import hypothesis
import pytest
import torch
from jaxtyping import config, install_import_hook

# Before they are imported for the first time. Not theta: a θ checks its own shapes, and that is tested.
PACKAGE = Path(__file__).parents[1] / "transalg"
UNCHECKED = ("__init__", "tree", "theta", "domains")
CHECKED = [
    f"transalg.{layer}.{path.stem}"
    for layer in ("formal", "model")
    for path in (PACKAGE / layer).glob("*.py")
    if path.stem not in UNCHECKED
]
if "TRANSALG_TEST_UNCHECKED" not in os.environ:  # torch's compiler cannot look into the checks
    install_import_hook(CHECKED, "beartype.beartype")

# No shrinking: a failing example is small enough to read, and the mutants would wait for it.
PHASES = (hypothesis.Phase.explicit, hypothesis.Phase.generate)
hypothesis.settings.register_profile("repeatable", derandomize=True, deadline=None, max_examples=20, database=None, phases=PHASES)
hypothesis.settings.load_profile("repeatable")
torch.set_num_threads(int(os.environ.get("TRANSALG_TEST_THREADS", "1")))  # one: the matrices are tiny, and the tests run in two processes

SHARED = Path(__file__).parents[2] / "shared"


@pytest.fixture
def unchecked() -> Iterator[None]:
    """Without the run-time checks of the tests, for input that the package refuses by itself and that they would refuse before it."""
    config.update("jaxtyping_disable", True)
    yield
    config.update("jaxtyping_disable", False)


@pytest.fixture(scope="session")
def paper() -> str:
    """The paper's LaTeX source."""
    source = SHARED / "paper" / "formal-algorithms-for-transformers.tex"
    if not source.exists():
        pytest.skip("the paper's LaTeX source is not beside this checkout, in ../shared/paper")
    return source.read_text(encoding="utf-8")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What a test has to say beyond passing: `record_property("summary", …)`."""
    for reports in terminalreporter.stats.values():
        for report in reports:
            if getattr(report, "when", "") == "call":
                for name, value in report.user_properties:
                    if name == "summary":
                        terminalreporter.write_line(value)
