"""Few-shot prompts, chains of thought and votes, on a model that says what the test wants."""

from dataclasses import dataclass, field
from typing import Any

import pytest

from transalg.inference.prompting import Template, ask
from transalg.inference.results import Completion


@dataclass
class Parrot:
    """Stands for a run: writes what it was told to, and records its calls."""

    says: list[str]
    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    def completions(self, prompts: list[str], **options: Any) -> list[list[Completion]]:
        self.calls.append((prompts[0], options))
        return [[Completion(text, [], 0.0, True) for text in self.says]]


SHOTS = [{"input": "2 + 2", "output": "4"}, {"input": "3 + 4", "output": "7"}]


def test_examples_come_before_the_question() -> None:
    run = Parrot([" 12"])
    reply = ask(run, "7 + 5", examples=SHOTS, template=Template("Q: {input} A: {output}"), tau=0.0)
    assert run.calls[0][0] == "Q: 2 + 2 A: 4\nQ: 3 + 4 A: 7\nQ: 7 + 5 A: "
    assert run.calls[0][1]["stop"] == "\n" and run.calls[0][1]["tau"] == 0.0
    assert reply.answer == "12" and reply.counts == {"12": 1}


def test_a_scratchpad_in_the_template_is_read_off() -> None:
    template = Template("Q: {input}\nThink: {scratchpad}\nA: {output}", separator="\n\n")
    shot = {"input": "2 + 2", "scratchpad": "two and two", "output": "4"}
    run = Parrot([" seven and five\nA: 12\n"])
    reply = ask(run, "7 + 5", examples=[shot], template=template)
    assert run.calls[0][0] == "Q: 2 + 2\nThink: two and two\nA: 4\n\nQ: 7 + 5\nThink: "
    assert reply.answer == "12"
    assert ask(Parrot(["never gets there"]), "7 + 5", template=template).answer == ""


def test_a_cue_begins_a_chain_of_thought() -> None:
    run = Parrot([" First the answer is 3. No: the answer is 12.\nSo it goes"])
    reply = ask(run, "7 + 5", template=Template("Q: {input} A: {output}"), cue="Let's think step by step.")
    assert run.calls[0][0] == "Q: 7 + 5 A: Let's think step by step."
    assert reply.answer == "12"
    assert ask(Parrot(["x=5; x=6"]), "a", cue="go", answer=r"x=(\d)").answer == "6"
    assert ask(Parrot(["x=5, or none"]), "a", cue="go", answer=r"x=(\d)|none").answer == "", "the last match has no group"


def test_the_most_frequent_answer_wins_and_the_first_of_those_alike() -> None:
    run = Parrot(["3", "12", "12", "4", "12"])
    reply = ask(run, "7 + 5", votes=5)
    assert reply.answer == "12" and reply.counts == {"12": 3, "3": 1, "4": 1} and run.calls[0][1]["samples"] == 5
    assert ask(Parrot(["b", "a", "a", "b"]), "?", votes=4).answer == "b"


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("{input}", "template: expected two or more different fields in braces"),
        ("{input} {input}", "two or more different fields"),
        ("{input", "template: "),
        ("{} {}", "two or more different fields"),
    ],
)
def test_bad_templates(template: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Template(template)


def test_bad_questions() -> None:
    with pytest.raises(ValueError, match="examples: expected the fields input, output in each, got input"):
        ask(Parrot(["1"]), "a", examples=[{"input": "a"}])
    with pytest.raises(ValueError, match="expected a template with a field left to answer"):
        ask(Parrot(["1"]), {"input": "a", "output": "b"})
    with pytest.raises(ValueError, match="answer: not a regular expression"):
        ask(Parrot(["1"]), "a", answer="(")
    with pytest.raises(ValueError, match="with the answer in parentheses"):
        ask(Parrot(["1"]), "a", answer="x")
