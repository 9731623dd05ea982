"""Prompting (§8): a few examples before the question, room to think before the answer, and a vote over several answers."""

import re
import string
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from transalg.inference.run import Run

ANSWER = r"answer is:?\s*(.+?)(?:\.(?=\s|$)|\s*$)"


@dataclass(frozen=True)
class Template:
    """How an example is written: a text with the names of its parts in braces, as in "Q: {input}\\nA: {output}"."""

    text: str = "{input}: {output}"
    separator: str = "\n"  # between two examples

    def __post_init__(self) -> None:
        try:
            names = self.names
        except ValueError as error:
            raise ValueError(f"template: {error} in {self.text!r}") from error
        if len(names) < 2 or len(set(names)) < len(names) or not all(name.isidentifier() for name in names):
            raise ValueError(
                f'template: expected two or more different names in braces, like "Q: {{input}} A: {{output}}", got {self.text!r}'
            )
        if not self.separator:
            raise ValueError("separator: expected a text between examples, got an empty one")

    @property
    def names(self) -> list[str]:
        """Of its parts, in order."""
        return [name for _, name, _, _ in string.Formatter().parse(self.text) if name is not None]

    def example(self, parts: Mapping[str, str]) -> str:
        """A whole example."""
        self._need(self.names, parts)
        return self.text.format(**parts)

    def question(self, parts: Mapping[str, str]) -> str:
        """The example up to the first part that is not given."""
        found = ""
        for literal, name, _, _ in string.Formatter().parse(self.text):
            found += literal
            if name is None or name not in parts:
                break
            found += parts[name]
        return found

    def read(self, parts: Mapping[str, str], written: str) -> dict[str, str]:
        """The parts that were not given, read off what was written behind the question."""
        pieces = list(string.Formatter().parse(self.text))
        first = next(i for i, (_, name, _, _) in enumerate(pieces) if name is not None and name not in parts)
        found, rest = dict[str, str](), written
        for (_, name, _, _), after in zip(pieces[first:], [*pieces[first + 1 :], (self.separator, None, None, None)], strict=True):
            if name is None:
                break
            part, literal, rest = rest.partition(after[0] or self.separator)
            found[name] = part.strip()
            if not literal:
                break
        return found

    def prompt(self, examples: Sequence[Mapping[str, str]], parts: Mapping[str, str]) -> str:
        """All examples, then the question."""
        self._need(self.names[:1], parts)
        return "".join(self.example(one) + self.separator for one in examples) + self.question(parts)

    @staticmethod
    def _need(names: Sequence[str], parts: Mapping[str, str]) -> None:
        for name in names:
            if name not in parts:
                raise ValueError(f"examples: expected the parts {', '.join(names)} in each, got {', '.join(parts) or 'none'}")


@dataclass(frozen=True)
class Answer:
    """What most of the samples answered, how many gave which answer, most frequent first, and everything that was written."""

    answer: str
    counts: dict[str, int]
    prompt: str
    written: list[str]


def ask(
    run: Run,
    question: Mapping[str, str] | str,
    *,
    examples: Sequence[Mapping[str, str]] = (),
    template: Template = Template(),  # noqa: B008  frozen
    cue: str = "",
    answer: str | None = None,
    votes: int = 1,
    **options: Any,
) -> Answer:
    """Ask by examples. The answer is the template's last part, or, if a cue begins a chain of thought, what the pattern `answer` finds in it.

    With votes, so many samples are drawn and the most frequent answer wins, the first of those that are alike.
    """
    parts = {template.names[0]: question} if isinstance(question, str) else dict(question)
    if set(template.names) <= set(parts):
        raise ValueError(f"question: all parts of the template are given: {', '.join(template.names)}; nothing is left to answer")
    prompt = template.prompt(examples, parts) + cue
    pattern = _pattern(answer if answer is not None else ANSWER if cue else None)
    stop = options.pop("stop", None) or ((template.separator,) if not cue else ("\n\n",))
    found = run.written([prompt], samples=votes, stop=stop, **options)[0]
    answers = [_read(template, parts, one.text, pattern) for one in found]
    counts = Counter(answers)
    best = max(counts, key=lambda one: counts[one])  # the first of the most frequent
    return Answer(best, dict(counts.most_common()), prompt, [one.text for one in found])


def _pattern(text: str | None) -> "re.Pattern[str] | None":
    if text is None:
        return None
    try:
        pattern = re.compile(text, re.MULTILINE)
    except re.error as error:
        raise ValueError(f"answer: not a regular expression: {error}: {text!r}") from error
    if pattern.groups < 1:
        raise ValueError(f"answer: expected a regular expression with the answer in parentheses, got {text!r}")
    return pattern


def _read(template: Template, parts: Mapping[str, str], written: str, pattern: "re.Pattern[str] | None") -> str:
    if pattern is None:
        return template.read(parts, written).get(template.names[-1], "")
    found = list(pattern.finditer(written))
    return found[-1].group(1).strip() if found else ""
