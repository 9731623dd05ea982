"""transformers shows progress bars and prints warnings about random models: neither is wanted here."""

import sys

import pytest


@pytest.fixture(autouse=True, scope="session")
def quiet() -> None:
    if "transformers" in sys.modules:
        import transformers

        transformers.utils.logging.set_verbosity_error()
        transformers.utils.logging.disable_progress_bar()
