"""transalg prompt: ask a language model by examples."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from transalg.cli.using import TABLES, MaybeFile, MaybeFloat, MaybeInt, MaybeText, Texts, Using, as_line, texts, unknown


@dataclass(frozen=True, kw_only=True)
class Prompt(Using):
    """Ask a language model by a few examples, with room to think, or by a vote. transalg prompt RUN --examples shots.jsonl --input "7 + 5"."""

    input: Texts = ()
    """The questions."""
    file: MaybeFile = None
    """Questions, one a line; or a table or JSON lines; - for standard input."""
    examples: MaybeFile = None
    """Examples to show before: a table or JSON lines with a column for every name in the template."""
    template: str = "{input}: {output}"
    """How an example is written, its columns in braces. \\n is a new line. The question ends where its first unknown part begins."""
    separator: str = "\\n"
    """Between two examples; an answer ends with it."""
    cue: str = ""
    """Behind the question, to begin a chain of thought: "Let's think step by step."."""
    answer: MaybeText = None
    """A regular expression whose first group is the answer in what was written; after a cue, what follows "answer is" unless given."""
    votes: int = 1
    """How many answers to draw; the most frequent one wins."""
    ell_gen: int = 100
    """How many tokens at most."""
    tau: MaybeFloat = None
    """Temperature; 0 unless given, 0.7 with several votes."""
    top_k: MaybeInt = None
    """Only the k most probable tokens."""
    top_p: MaybeFloat = None
    """Only the most probable tokens that have this probability together."""
    seed: MaybeInt = None
    """The same seed gives the same answers."""
    show: bool = False
    """Print the prompt and all that was written, too."""

    def run(self) -> None:
        run = self.load("generate")

        from transalg.inference.prompting import Template, ask

        template = Template(_unescaped(self.template), _unescaped(self.separator))
        shots = [] if self.examples is None else rows(self.examples, template.names)
        given = texts(self.input, self.file, "--input", template.names[0])
        unknown(run, [*given, template.text, *(value for shot in shots for value in shot.values())])
        tau = self.tau if self.tau is not None else 0.7 if self.votes > 1 else 0.0
        options: dict[str, Any] = {name: getattr(self, name) for name in ("answer", "votes", "ell_gen", "top_k", "top_p", "seed")}
        with self.output() as out:
            for question in given:
                found = ask(run, question, examples=shots, template=template, cue=_unescaped(self.cue), tau=tau, **options)
                if self.json:
                    figures = {"answer": found.answer, "counts": found.counts}
                    out.write(
                        as_line({"input": question} | figures | ({"prompt": found.prompt, "written": found.written} if self.show else {}))
                    )
                    continue
                if self.show:
                    out.write("".join(f"{found.prompt}{text}\n\n" for text in found.written))
                out.write(found.answer + "\n")
                if self.votes > 1:
                    out.writelines(f"  {count:4d} of {self.votes}  {answer or '(none)'}\n" for answer, count in found.counts.items())


def rows(file: Path, names: list[str]) -> list[dict[str, str]]:
    """The examples of a table or of JSON lines."""
    from transalg.data.sources import named_rows

    if not any(suffix in TABLES for suffix in file.suffixes):
        raise ValueError(f"{file}: expected examples as JSON lines, CSV or TSV, got {file.suffix or 'a file without a suffix'}")
    if not file.exists():
        raise ValueError(f"{file}: no such file")
    found = []
    for line, row in named_rows(file):
        if missing := [name for name in names if row.get(name) is None]:
            raise ValueError(f"{file}:{line}: expected a column {missing[0]!r}, as the template has it")
        found.append({name: value if isinstance(value := row[name], str) else json.dumps(value) for name in names})
    return found


def _unescaped(text: str) -> str:
    return text.replace("\\n", "\n").replace("\\t", "\t")


PromptVerb = Annotated[Prompt, tyro.conf.subcommand("prompt")]
