"""The vocabulary that a task makes unless one is chosen."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.training.runs import TASKS, config, files
from transalg.training.prepare import prepare
from transalg.training.report import Report


@pytest.mark.parametrize("task", TASKS)
def test_encoders_read_words_in_lower_case_unless_chosen(task: str, tmp_path: Path) -> None:
    words = replace(config(task, files(tmp_path)), tokenizer="word")
    for lowercase, same in ((None, task in ("classify", "mlm", "multi")), (True, True), (False, False)):
        tokenizer = prepare(replace(words, lowercase=lowercase), tmp_path / f"run-{lowercase}", Report()).tokenizer
        assert (tokenizer.encode("A CAT") == tokenizer.encode("a cat")) == same
