"""Prompting (§8): few-shot examples before the question, a chain of thought before the answer, and a majority vote over several samples."""

import re
import string
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from transalg.inference.run import Run
from transalg.inference.samplers import Sampler

ANSWER = r"answer is:?\s*(.+?)(?:\.(?=\s|$)|\s*$)"


@dataclass(frozen=True)
class Template:
    """The form of an example: a text with its fields in braces, as in "Q: {input}\\nA: {output}"."""

    text: str = "{input}: {output}"
    separator: str = "\n"  # between two examples

    def __post_init__(self) -> None:
        try:
            fields = self.fields
        except ValueError as error:
            raise ValueError(f"template: {error} in {self.text!r}") from error
        if len(fields) < 2 or len(set(fields)) < len(fields) or not all(field.isidentifier() for field in fields):
            raise ValueError(
                f'template: expected two or more different fields in braces, like "Q: {{input}} A: {{output}}", got {self.text!r}'
            )
        if not self.separator:
            raise ValueError("separator: expected a text between examples, got an empty one")

    @property
    def fields(self) -> list[str]:
        """The names in braces, in order."""
        return [field for _, field, _, _ in string.Formatter().parse(self.text) if field is not None]

    def example(self, values: Mapping[str, str]) -> str:
        """The template with all fields filled."""
        self._require(self.fields, values)
        return self.text.format(**values)

    def question(self, values: Mapping[str, str]) -> str:
        """The template up to the first field without a value."""
        text = ""
        for literal, field, _, _ in string.Formatter().parse(self.text):
            text += literal
            if field is None or field not in values:
                break
            text += values[field]
        return text

    def parse(self, values: Mapping[str, str], completion: str) -> dict[str, str]:
        """The fields without a value in the question, read from its completion."""
        pieces = list(string.Formatter().parse(self.text))
        first = next(i for i, (_, field, _, _) in enumerate(pieces) if field is not None and field not in values)
        parsed, rest = dict[str, str](), completion
        for (_, field, _, _), after in zip(pieces[first:], [*pieces[first + 1 :], (self.separator, None, None, None)], strict=True):
            if field is None:
                break
            value, literal, rest = rest.partition(after[0] or self.separator)
            parsed[field] = value.strip()
            if not literal:
                break
        return parsed

    def prompt(self, examples: Sequence[Mapping[str, str]], values: Mapping[str, str]) -> str:
        """All examples, then the question."""
        self._require(self.fields[:1], values)
        return "".join(self.example(example) + self.separator for example in examples) + self.question(values)

    @staticmethod
    def _require(fields: Sequence[str], values: Mapping[str, str]) -> None:
        if not set(fields) <= set(values):
            raise ValueError(f"examples: expected the fields {', '.join(fields)} in each, got {', '.join(values) or 'none'}")


@dataclass(frozen=True)
class Answer:
    """The most frequent answer, the votes for every answer, most frequent first, the prompt, and its completions."""

    answer: str
    counts: dict[str, int]
    prompt: str
    completions: list[str]


def ask(
    run: Run,
    question: Mapping[str, str] | str,
    *,
    examples: Sequence[Mapping[str, str]] = (),
    template: Template = Template(),  # noqa: B008  frozen
    cue: str = "",
    answer: str | None = None,
    votes: int = 1,
    ell_gen: int = 200,
    tau: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    repetition_penalty: float = 1.0,
    samplers: Sequence[Sampler] | None = None,
    stop: str | Sequence[str] = (),
    seed: int | None = None,
    truncate: bool = False,
) -> Answer:
    """Ask with examples. The answer is the template's last field, or, if a cue begins a chain of thought, what the pattern `answer` matches.

    With several votes, that many completions are sampled and the most frequent answer wins, the first of equals. The other options are those
    of `Run.generate`; unless `stop` says otherwise, a completion ends at the separator, or after a cue at an empty line.
    """
    values = {template.fields[0]: question} if isinstance(question, str) else dict(question)
    if set(template.fields) <= set(values):
        raise ValueError(f"question: expected a template with a field left to answer, got values for {', '.join(template.fields)}")
    prompt = template.prompt(examples, values) + cue
    pattern = _pattern(answer if answer is not None else ANSWER if cue else None)
    (samples,) = run.completions(
        [prompt],
        ell_gen=ell_gen,
        tau=tau,
        top_k=top_k,
        top_p=top_p,
        repetition_penalty=repetition_penalty,
        samplers=samplers,
        stop=stop or ("\n\n" if cue else template.separator),
        samples=votes,
        seed=seed,
        truncate=truncate,
    )
    texts = [completion.text for completion in samples]
    counts = Counter(_parse(template, values, text, pattern) for text in texts)
    best = max(counts, key=lambda candidate: counts[candidate])  # the first of the most frequent
    return Answer(best, dict(counts.most_common()), prompt, texts)


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


def _parse(template: Template, values: Mapping[str, str], completion: str, pattern: "re.Pattern[str] | None") -> str:
    """The answer in a completion; "" if there is none."""
    if pattern is None:
        return template.parse(values, completion).get(template.fields[-1], "")
    matches = list(pattern.finditer(completion))
    return (matches[-1].group(1) or "").strip() if matches else ""  # a group of another branch is None
