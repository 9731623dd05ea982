"""Every test runs with the shapes of `transalg.formal` checked at run time, and with repeatable examples."""

import os
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import hypothesis
import pytest
import torch
from jaxtyping import install_import_hook

install_import_hook(
    "transalg.formal", "beartype.beartype"
)  # before transalg.formal is imported for the first time

hypothesis.settings.register_profile(
    "repeatable", derandomize=True, deadline=None, max_examples=20, database=None
)
hypothesis.settings.load_profile("repeatable")
torch.set_num_threads(1)  # the matrices are tiny, and the tests run in two processes

SHARED = Path(__file__).parents[2] / "shared"


@pytest.fixture(scope="session")
def paper() -> str:
    """The paper's LaTeX source."""
    source = SHARED / "paper" / "formal-algorithms-for-transformers.tex"
    if not source.exists():
        pytest.skip("the paper's LaTeX source is not beside this checkout, in ../shared/paper")
    return source.read_text(encoding="utf-8")
