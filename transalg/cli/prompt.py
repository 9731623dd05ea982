"""transalg prompt: ask a language model with examples."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from transalg.cli.bounds import Count, MaybeSeed, MaybeTau, Tokens, TopK, TopP
from transalg.cli.using import (
    TABLES,
    Flag,
    MaybeFile,
    MaybeText,
    ModelVerb,
    Text,
    Texts,
    json_line,
    note_unknown,
    read_texts,
)


@dataclass(frozen=True, kw_only=True)
class Prompt(ModelVerb):
    """Ask a language model with few-shot examples, a chain of thought, or a majority vote (§8).

    transalg prompt RUN --examples shots.jsonl --input "7 + 5"
    """

    input: Texts = ()
    """The questions."""
    file: MaybeFile = None
    """Read the questions from a file: one a line, or a table or JSON lines; - for standard input."""
    column: MaybeText = None
    """The column of the questions in a table or JSON lines. (default: the first field of the template)"""
    examples: MaybeFile = None
    """The examples: a table or JSON lines with a column for every field of the template."""
    template: Text = "{input}: {output}"
    """The form of an example, its fields in braces; \\n is a new line. The question ends before the first field without a value."""
    separator: Text = "\\n"
    """The text between two examples; an answer ends before it."""
    cue: Text = ""
    """A text after the question that begins a chain of thought, like "Let's think step by step."."""
    answer: MaybeText = None
    """A regular expression whose first group is the answer; after a cue, by default, what follows "answer is"."""
    votes: Count = 1
    """Answers to sample; the most frequent one wins."""
    ell_gen: Tokens = 100
    """Maximum number of tokens to generate."""
    tau: MaybeTau = None
    """Temperature; by default 0, or 0.7 with several votes."""
    top_k: TopK = None
    """Sample from the k most probable tokens."""
    top_p: TopP = None
    """Nucleus sampling: sample from the smallest set of most probable tokens with this total probability."""
    seed: MaybeSeed = None
    """The same seed gives the same answers; by default it is random."""
    truncate: Flag = False
    """Use the end of a prompt that is longer than ℓ_max."""
    show: Flag = False
    """Print the prompt and all completions as well."""

    def run(self) -> None:
        run = self.load("generate")

        from transalg.inference.prompting import Template, ask

        template = Template(_unescaped(self.template), _unescaped(self.separator))
        examples = [] if self.examples is None else read_examples(self.examples, template.fields)
        questions = read_texts(self.input, self.file, "--input", self.column or template.fields[0])
        shown = [template.example(example) + template.separator for example in examples]
        note_unknown(run, [*shown, *(template.question({template.fields[0]: question}) + _unescaped(self.cue) for question in questions)])
        with self.output() as out:
            for question in questions:
                result = ask(
                    run,
                    question,
                    examples=examples,
                    template=template,
                    cue=_unescaped(self.cue),
                    answer=self.answer,
                    votes=self.votes,
                    ell_gen=self.ell_gen,
                    tau=self.tau if self.tau is not None else 0.7 if self.votes > 1 else 0.0,
                    top_k=self.top_k,
                    top_p=self.top_p,
                    seed=self.seed,
                    truncate=self.truncate,
                )
                if self.json:
                    shown = {"prompt": result.prompt, "completions": result.completions} if self.show else {}
                    out.write(json_line({"input": question, "answer": result.answer, "counts": result.counts} | shown))
                    continue
                if self.show:
                    out.write("".join(f"{result.prompt}{text}\n\n" for text in result.completions))
                out.write(result.answer + "\n")
                if self.votes > 1:
                    out.writelines(f"  {count:4d} of {self.votes}  {answer or '(none)'}\n" for answer, count in result.counts.items())


def read_examples(file: Path, fields: list[str]) -> list[dict[str, str]]:
    """The examples of a table or of JSON lines."""
    from transalg.data.sources import named_rows

    if not any(suffix in TABLES for suffix in file.suffixes):
        raise ValueError(f"{file}: expected examples as JSON lines, CSV or TSV, got {file.suffix or 'a file without a suffix'}")
    if not file.exists():
        raise ValueError(f"{file}: no such file")
    examples = []
    for line, row in named_rows(file):
        if missing := [field for field in fields if row.get(field) is None]:
            raise ValueError(f"{file}:{line}: expected a column {missing[0]!r}, a field of the template")
        examples.append({field: value if isinstance(value := row[field], str) else json.dumps(value) for field in fields})
    return examples


def _unescaped(text: str) -> str:
    return text.replace("\\n", "\n").replace("\\t", "\t")


PromptVerb = Annotated[Prompt, tyro.conf.subcommand("prompt")]
