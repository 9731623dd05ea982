"""What a model learns: one task a file, all of them in one table. Importing this imports no torch.

>>> find("lm").learns
'to continue text'
>>> find("sequence")
Traceback (most recent call last):
ValueError: task: expected lm, mlm, seq2seq, classify, multi or gato, got 'sequence'
"""

from difflib import get_close_matches
from typing import Any

from .classify import Classification
from .gato import GeneralistAgent
from .lm import LanguageModel
from .mlm import MaskedLanguageModel
from .multi import MultiTask
from .seq2seq import SequenceToSequence
from .task import Ability, Inputs, Task

TASKS: dict[str, Task[Any]] = {
    task.name: task
    for task in (LanguageModel(), MaskedLanguageModel(), SequenceToSequence(), Classification(), MultiTask(), GeneralistAgent())
}

__all__ = ["TASKS", "Ability", "Inputs", "Task", "find", "names"]


def names() -> str:
    """The names of all tasks, as a sentence has them."""
    *others, last = TASKS
    return f"{', '.join(others)} or {last}"


def find(name: object) -> Task[Any]:
    """The task of this name; a ValueError for a name that is none."""
    if not isinstance(name, str) or name not in TASKS:
        close = get_close_matches(name, TASKS, n=1) if isinstance(name, str) else []
        raise ValueError(f"task: expected {names()}, got {name!r}{f'; did you mean {close[0]}?' if close else ''}")
    return TASKS[name]
