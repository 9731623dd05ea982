"""transalg clean: texts in one form, without duplicates, without those that a rule forbids."""

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import log
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro
from rich.text import Text

from transalg import terminal
from transalg.cli.using import Device, Flag, MaybeFile, MaybeFloat, MaybeInt, Name, check_output, json_line, load_runs
from transalg.tasks import find

if TYPE_CHECKING:
    from transalg.data.cleaning import Losses, Report

Records = Annotated[
    Literal["documents", "labelled", "pairs"] | None, tyro.conf.arg(metavar="{documents,labelled,pairs}", help_behavior_hint="")
]
MaybeRun = Annotated[Path | None, tyro.conf.arg(metavar="RUN", help_behavior_hint="")]
SHOWN = 60  # characters of an example


@dataclass(frozen=True, kw_only=True)
class Clean:
    """Clean data (§8): bring texts into one form, remove duplicates and rows that a rule forbids; other columns stay.

    transalg clean table.csv --out clean.csv --near 0.8 --min-words 3
    """

    data: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="DATA")]
    """A text file, JSON lines, a CSV or TSV table, or a folder of text files; compressed with gzip or not."""
    out: Annotated[Path, tyro.conf.arg(metavar="FILE")]
    """The file to write, in the form of the data; documents may also become JSON lines."""
    removed: MaybeFile = None
    """Write the rows that were removed to this file, as JSON lines with the reason."""
    records: Records = None
    """What the rows are; by default, of tables and JSON lines what their columns say, and of text files documents."""
    documents: Annotated[Literal["file", "paragraph", "line"], tyro.conf.arg(help="What a document is in text files.")] = "file"
    text_column: Name = "text"
    """Name of the column or key with the text; in tables also its number, from 1, as for the other columns."""
    label_column: Name = "label"
    """Name of the column with the class."""
    source_column: Name = "source"
    """Name of the column with the source of a pair."""
    target_column: Name = "target"
    """Name of the column with its target."""
    unicode: Literal["NFC", "NFKC", "none"] = "NFC"
    """The Unicode normalisation form; NFKC also makes one character of look-alikes, such as ﬁ and fi."""
    white_space: Literal["collapse", "trim", "keep"] = "collapse"
    """Runs of spaces become one, of blank lines too; or only the ends of lines and texts are trimmed, as code needs it; or all stays."""
    unescape: Flag = False
    """Entities of HTML, such as &amp;, become characters."""
    min_chars: MaybeInt = None
    """Remove rows with a text of fewer characters."""
    max_chars: MaybeInt = None
    """Remove rows with a text of more characters."""
    min_words: MaybeInt = None
    """Remove rows with a text of fewer words."""
    max_words: MaybeInt = None
    """Remove rows with a text of more words."""
    max_ratio: MaybeFloat = None
    """Remove pairs with one text more than this many times as long as the other."""
    keep_duplicates: Flag = False
    """Keep exact duplicates; otherwise the first of equal texts stays."""
    drop_contradictions: Flag = False
    """Remove all of the equal texts that have different labels; otherwise the first stays."""
    near: MaybeFloat = None
    """Remove near-duplicates: texts whose shingles have at least this Jaccard similarity, 0.8 say, with those of an earlier row that stays."""
    shingles: Literal["characters", "words"] = "characters"
    """What a shingle is made of."""
    shingle_size: int = 5
    """Characters or words in a shingle."""
    model: MaybeRun = None
    """A language model, a run of lm, that scores the texts for the next two."""
    max_perplexity: MaybeFloat = None
    """Remove rows of a higher perplexity per token."""
    keep: MaybeFloat = None
    """Keep this fraction of the remaining rows, 0.9 say: those of the lowest loss per token."""
    device: Device = "cpu"
    json: Flag = False
    """Print the report as one JSON object."""

    def run(self) -> None:
        self._check()

        from transalg.data.cleaning import Rules, clean
        from transalg.data.rewriting import form
        from transalg.training.watch import Watch

        names = {name: getattr(self, f"{name}_column") for name in ("text", "label", "source", "target")}
        chosen = form(self.data, self.out, names, self.records, self.documents)
        rules = Rules(**{name: getattr(self, name) for name in Rules.__dataclass_fields__})
        if self.drop_contradictions and chosen.source.kind != "labelled":
            raise ValueError(f"--drop-contradictions: expected texts with labels, got {chosen.source.kind}")
        if self.max_ratio is not None and chosen.source.kind != "pairs":
            raise ValueError(f"--max-ratio: expected pairs, got {chosen.source.kind}")
        if rules.scored and self.model is None:
            raise ValueError("--model: expected a run of lm, for --max-perplexity and --keep, got nothing")
        if self.model is not None and not rules.scored:
            raise ValueError("--model: expected --max-perplexity or --keep with it, got neither")
        losses = None if self.model is None else language_model(self.model, self.device)
        errors = terminal.console(stderr=True, soft_wrap=True)
        for note in chosen.source.notes():
            errors.print(note)
        with Watch(errors).work("Cleaning", 2 * chosen.source.size()) as progress:
            report = clean(chosen, rules, self.out, self.removed, losses, progress)
        if self.json:
            print(json_line(asdict(report)), end="")
        else:
            self._print(report)

    def _check(self) -> None:
        """Before any work: outputs that can be written, and that are not the input."""
        for option, path in (("--out", self.out), ("--removed", self.removed)):
            check_output(path)
            if path is not None and path.exists() and self.data.exists() and os.path.samefile(path, self.data):
                raise ValueError(f"{option}: expected another file than the data, got {path}")
            if path is not None and self.data.is_dir() and self.data.resolve() in path.resolve().parents:
                raise ValueError(f"{option}: expected a file outside of the data's folder, got {path}")
        if self.removed is not None and self.removed.resolve() == self.out.resolve():
            raise ValueError(f"--removed: expected another file than --out, got {self.removed}")

    def _print(self, report: "Report") -> None:
        from transalg.data.cleaning import REASONS

        console = terminal.console(soft_wrap=True)
        width = len(f"{report.rows:,}")
        console.print(Text.assemble((f"{report.rows:{width},}", "bold"), f" rows in {self.data}"))
        for name, count in report.removed.items():
            example = report.examples[name]
            note = f", as row {example.of:,}" if example.of is not None else ""
            note += f", perplexity {example.perplexity:.1f}" if example.perplexity is not None else ""
            console.print(Text(f"{count:{width},} removed: {REASONS[name]}"))
            console.print(Text(f"{'':{width}}   row {example.row:,}{note}: {_short(example.text)}", "dim"))
        console.print(
            Text.assemble((f"{report.left:{width},}", "bold"), f" rows in {self.out}, {report.changed:,} of them with a changed text")
        )
        if report.contradictions and not self.drop_contradictions:
            note = f"{report.contradictions:,} of the removed rows had another label than an equal text; --drop-contradictions removes that too"
            console.print(Text(note, "yellow"))
        if report.rows == 1 and self.documents == "file":
            console.print("A file is one document; with --documents paragraph or line its parts are")


def _short(text: str) -> str:
    one_line = " ".join(text.split())
    return repr(one_line if len(one_line) <= SHOWN else one_line[: SHOWN - 1] + "…")


def language_model(run: Path, device: str) -> "Losses":
    """The loss per token of texts. A character that the vocabulary lacks counts as a token that is guessed, at a loss of log N_V."""
    model = load_runs(run, device=device)
    if "generate" not in find(model.task).abilities:
        raise ValueError(f"--model: expected a language model, got a run of {model.task} in {run}")
    tokenizer = model.tokenizer
    guess = log(tokenizer.N_V)

    def losses(texts: Sequence[str]) -> list[float]:
        known = [text for text in texts if model.known(text)]
        scores = iter(model.scores(known) if known else [])
        results = []
        for text in texts:
            if not model.known(text):
                results.append(guess)
                continue
            log_p = next(scores).log_p
            missing = set(tokenizer.unknown(text)) if tokenizer.kind == "char" else set[str]()
            absent = sum(character in missing for character in text)
            results.append((absent * guess - sum(log_p)) / max(1, len(log_p) + absent))
        return results

    return losses


CleanVerb = Annotated[Clean, tyro.conf.subcommand("clean")]
