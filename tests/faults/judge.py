"""Whether a command held: a sound answer, or two lines that say what is wrong; and no file changed that it does not own."""

import fnmatch
import json
import re
from collections.abc import Sequence

from tests.faults.sandbox import Outcome, Snapshot

LINES, LENGTH = 2, 2000  # of a message, at most
PYTHON = re.compile(  # words that are Python's, or a library's, and not ours
    r"Traceback|object has no attribute|NoneType|unhashable|zip\(\) arg|dictionary update sequence|subscriptable|not iterable"
    r"|unexpected keyword|positional argument|invalid literal|could not convert|index out of range|KeyError|TypeError|ValueError"
    r"|AttributeError|RuntimeError|<class '|unsupported operand|must be str|indices must be|codec can't|size mismatch|state_dict"
    r"|has no len|to unpack|<built-in|\[Errno|object of type|cannot be interpreted as an integer|recursion depth"
    r"|not supported between instances|argument of type|dataclass|__\w+__|Warning:|expected string or bytes|can't multiply"
)
CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")  # a terminal would obey these
NO_NUMBER = re.compile(r"(?<![\w.\-/])nan(?![\w./])", re.IGNORECASE)
CACHES = ("*/.transalg-cache", "*/.transalg-cache/*")  # any command may make token files


def complaints(
    outcome: Outcome,
    arguments: Sequence[str],
    owned: Sequence[str],
    *,
    kept: Sequence[str] = (),
    silent: bool = False,
    interrupted: bool = False,
) -> list[str]:
    """What is wrong with what a command did; nothing if it held."""
    wrong = [*_ending(outcome, arguments, interrupted=interrupted), *_changes(outcome, owned, kept)]
    for name, text in (("standard output", outcome.out), ("standard error", outcome.err)):
        if found := CONTROL.search(text):
            wrong.append(f"{name} has the control character {found[0]!r}")
    if outcome.status == 0 and (outcome.out or not silent):
        wrong += _answer(outcome.out, "--json" in arguments)
    return wrong


def _ending(outcome: Outcome, arguments: Sequence[str], *, interrupted: bool) -> list[str]:
    if outcome.hangs:
        return ["it hangs"]
    if outcome.status < 0:
        return [f"signal {-outcome.status}"]
    if (found := PYTHON.search(outcome.err)) and found[0] not in " ".join(arguments):
        return [f"standard error says {found[0]!r}"]
    allowed = (0, 2, *([130] if interrupted else []), *([1] if arguments[0] == "verify" and outcome.out else []))
    if outcome.status not in allowed:
        return [f"exit status {outcome.status}"]
    lines = outcome.err.rstrip("\n").split("\n")
    if outcome.status == 2:
        if not outcome.err.strip():
            return ["exit status 2 without a message"]
        if len(lines) > LINES:
            return [f"a message of {len(lines)} lines"]
        if len(outcome.err) > LENGTH:
            return [f"a message of {len(outcome.err):,} characters"]
    return []


def _answer(out: str, as_json: bool) -> list[str]:
    if not out:
        return ["no answer"]
    if as_json:
        for line in out.strip().split("\n"):
            try:
                json.loads(line, parse_constant=_refuse)
            except ValueError as error:
                return [f"no JSON: {error}"]
        return []
    found = NO_NUMBER.search(out)
    return [f"the answer has {found[0]}"] if found else []


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is no number")


def _changes(outcome: Outcome, owned: Sequence[str], kept: Sequence[str]) -> list[str]:
    """Files that changed, but for those that the command owns: only those that it may have written before it failed, if it did."""
    may = (*CACHES, *(owned if outcome.status in (0, 130) else kept))
    names = [name for name in {**outcome.before, **outcome.after} if not any(fnmatch.fnmatchcase(name, pattern) for pattern in may)]
    changed = [name for name in names if outcome.before.get(name) != outcome.after.get(name)]
    return [f"changed: {', '.join(f'{name} ({_how(outcome.before, outcome.after, name)})' for name in changed[:4])}"] if changed else []


def _how(before: Snapshot, after: Snapshot, name: str) -> str:
    return "new" if name not in before else "gone" if name not in after else "other bytes"
