"""What the verbs that use a trained model share: which runs, which texts, where results go."""

import io
import json
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager as Context
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any, Literal, cast

import tyro

from transalg import terminal
from transalg.atomic import atomic_write
from transalg.terminal import short, shown

if TYPE_CHECKING:
    from transalg.data.texts import TextRow
    from transalg.inference.run import Run
    from transalg.tasks import Ability

Runs = Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN [RUN ...]", help_behavior_hint="")]
Flag = Annotated[bool, tyro.conf.arg(help_behavior_hint="")]
Text = Annotated[str, tyro.conf.arg(metavar="TEXT")]
Name = Annotated[str, tyro.conf.arg(metavar="NAME")]
MaybeText = Annotated[str | None, tyro.conf.arg(metavar="TEXT", help_behavior_hint="")]
Texts = Annotated[tuple[str, ...], tyro.conf.arg(metavar="TEXT [TEXT ...]", help_behavior_hint="")]
MaybeFile = Annotated[Path | None, tyro.conf.arg(metavar="FILE", help_behavior_hint="")]
MaybeInt = Annotated[int | None, tyro.conf.arg(metavar="INT", help_behavior_hint="")]
MaybeFloat = Annotated[float | None, tyro.conf.arg(metavar="FLOAT", help_behavior_hint="")]
Quantize = Annotated[Literal["int8"] | None, tyro.conf.arg(metavar="{int8}", help_behavior_hint="")]
CheckpointName = Annotated[
    Literal["best", "last"], tyro.conf.arg(help="Which checkpoint: the best by the figure of --train.select, or the last one.")
]
Device = Annotated[str, tyro.conf.arg(metavar="DEVICE", help="Where to compute: cpu, cuda, cuda:1, mps.")]
Head = Annotated[
    str | None,
    tyro.conf.arg(metavar="NAME", help="Of a model of several data sets: which one's classes are meant.", help_behavior_hint=""),
]
TooLong = Annotated[
    Literal["cut", "error"], tyro.conf.arg(help="A text longer than the model takes: cut it and print a note, or stop with an error.")
]
Strict = Annotated[
    bool, tyro.conf.arg(help="Stop at the first row of a file that cannot be used, instead of skipping it.", help_behavior_hint="")
]
TABLES = (".jsonl", ".ndjson", ".csv", ".tsv")
STANDARD_INPUT = "standard input"
LARGEST = 2**30  # bytes of standard input
LISTED = 100  # rows that cannot be used; more are counted


@dataclass(frozen=True, kw_only=True)
class ModelVerb:
    """A verb that uses a trained model: which one, and the form of the results."""

    runs: Runs
    """Folders that `transalg train` made. Several of one vocabulary are an ensemble: their P̂ is averaged."""
    out: MaybeFile = None
    """Write the results to this file instead of printing them."""
    json: Flag = False
    """Print JSON lines, one object for each result."""
    quantize: Quantize = None
    """Weights in 8 bits: a quarter of the memory, and faster, with nearly the same results."""
    device: Device = "cpu"
    checkpoint: CheckpointName = "best"

    def load(self, ability: "Ability") -> "Run":
        """The model, if it has this ability."""
        if not self.runs:
            raise ValueError(f"{ability}: expected the folder of a run; transalg {ability} RUN")
        check_output(self.out)

        run = load_runs(*self.runs, device=self.device, quantize=self.quantize, checkpoint=self.checkpoint)
        run.can(ability)
        return run

    def output(self) -> Context[IO[str]]:
        """Where results are written: standard output, or a file that is written atomically."""
        return nullcontext(standard_output()) if self.out is None else atomic_write(self.out)


@dataclass(frozen=True, kw_only=True)
class TextVerb(ModelVerb):
    """A verb that reads texts in one pass."""

    text: Texts = ()
    """The texts."""
    file: MaybeFile = None
    """Read the texts from a file: one a line, or a table or JSON lines; - for standard input."""
    column: Name = "text"
    """The column of the texts in a table or JSON lines."""

    strict: Strict = False

    def rows(self, run: "Run", ability: "Ability", too_long: Literal["cut", "error"] = "cut", eos: bool = True) -> "InputRows":
        """The rows that can be used; notes say which are skipped, and what the vocabulary lacks."""
        return usable_rows(run, ability, self.text, self.file, "--text", self.column, strict=self.strict, too_long=too_long, eos=eos)


class ShownOutput(io.TextIOBase):
    """Standard output that is a terminal: it shows what it would otherwise obey. A file or a pipe gets every character as it is."""

    def write(self, text: str, /) -> int:
        sys.stdout.write(shown(text))
        return len(text)

    def flush(self) -> None:
        sys.stdout.flush()


def standard_output() -> IO[str]:
    """Where texts of a model are printed."""
    return cast(IO[str], ShownOutput()) if sys.stdout.isatty() else sys.stdout


def load_runs(*runs: Path, **options: Any) -> "Run":
    """`transalg.load`, with a plain line instead of the warning that there is no best checkpoint yet."""
    import transalg
    from transalg.inference.results import NoBest

    with warnings.catch_warnings(record=True) as raised:
        warnings.simplefilter("always", NoBest)
        run = transalg.load(*runs, **options)
    for each in raised:
        if issubclass(each.category, NoBest):
            note(str(each.message))
        else:
            warnings.showwarning(each.message, each.category, each.filename, each.lineno)
    return run


def check_output(path: Path | None) -> None:
    """A ValueError, before any work, if there cannot be such a file."""
    if path is not None and path.is_dir():
        raise ValueError(f"{path}: expected a file in a folder that exists, got a folder")
    if path is not None and not path.absolute().parent.is_dir():
        raise ValueError(f"{path}: expected a file in a folder that exists")


@dataclass(frozen=True)
class InputRows:
    """The rows that a model can use: their texts and numbers, and where they stand among all rows."""

    texts: list[str]
    numbers: list[int]  # from 1
    places: list[int]  # from 0
    total: int

    @property
    def gaps(self) -> list[str]:
        """An empty line for every row that is skipped before each text, so that the line of a result has the number of its row."""
        return ["\n" * (place - before - 1) for before, place in pairwise([-1, *self.places])]

    def close(self) -> None:
        """After the results: print how many rows there are none for."""
        if len(self.texts) < self.total:
            note(f"{self.total - len(self.texts):,} of {self.total:,} rows skipped")


def usable_rows(
    run: "Run",
    ability: "Ability",
    arguments: Sequence[str],
    file: Path | None,
    option: str,
    column: str,
    *,
    strict: bool,
    too_long: Literal["cut", "error"] = "cut",
    eos: bool = True,
) -> InputRows:
    """The texts of the command line; or the rows of a file, or of standard input, without those that cannot be used.

    Each of these is reported, or with `strict` the first is an error. What cannot be done with a text of the command line is always an error.
    """
    check_one(arguments, file, option)
    if arguments:
        note_unknown(run, arguments)
        return InputRows(list(arguments), [*range(1, len(arguments) + 1)], [*range(len(arguments))], len(arguments))
    rows, name = read_rows(file, option, column), file_name(file)
    places, skipped = list[int](), 0
    for i, row in enumerate(rows):
        wrong = row.wrong or run.refusal(ability, row.text, too_long=too_long, eos=eos)
        if not wrong:
            places.append(i)
            continue
        if strict:
            raise ValueError(f"{name}, row {row.number:,}: {wrong}")
        skipped += 1
        if skipped <= LISTED:
            note(f"{name}, row {row.number:,}: {wrong}; skipped")
    if skipped > LISTED:
        note(f"{name}: {skipped - LISTED:,} more rows cannot be used")
    if not places:
        raise ValueError(f"{name}: expected texts, got {len(rows):,} rows of which none can be used")
    usable = InputRows([rows[i].text for i in places], [rows[i].number for i in places], places, len(rows))
    note_unknown(run, usable.texts)
    return usable


def read_rows(file: Path | None, option: str, column: str) -> "list[TextRow]":
    """The rows of a file or, if it is None or -, of standard input, as lines."""
    from transalg.data.texts import of_lines, text_rows

    if file is None and sys.stdin.isatty():
        raise ValueError(f"expected {option}, --file FILE, or text on standard input")
    if file_name(file) == STANDARD_INPUT:
        content = sys.stdin.buffer.read(LARGEST + 1)
        if len(content) > LARGEST:
            raise ValueError(f"{STANDARD_INPUT}: expected at most {LARGEST:,} bytes, got more; give parts of it, one after the other")
        lines = content.decode("utf-8-sig", "surrogateescape").split("\n")
        rows = list(of_lines((i, line.removesuffix("\r")) for i, line in enumerate(lines, 1) if line or i < len(lines)))
    else:
        assert file is not None
        rows = list(text_rows(file, column, note))
    if not rows:
        raise ValueError(f"{file_name(file)}: expected text, got nothing")
    return rows


def file_name(file: Path | None) -> str:
    return STANDARD_INPUT if file is None or str(file) == "-" else str(file)


def read_texts(arguments: Sequence[str], file: Path | None, option: str, column: str = "text") -> list[str]:
    """The texts of the command line, or of a file (a line or a row of a table each), or of standard input; an empty line is an empty text."""
    check_one(arguments, file, option)
    if arguments:
        return list(arguments)
    rows = read_rows(file, option, column)
    for row in rows:
        if row.wrong and row.text.strip():
            raise ValueError(f"{file_name(file)}, row {row.number:,}: {row.wrong}")
    return [row.text for row in rows]


def check_one(arguments: Sequence[str], file: Path | None, option: str) -> None:
    """A ValueError if there are texts and a file of texts."""
    if arguments and file is not None:
        raise ValueError(f"--file: give {option} or --file, not both")


def note_unknown(run: "Run", texts: Sequence[str]) -> None:
    """Print which characters or words of the texts the vocabulary lacks."""
    parts = [part for text in texts if run.known(text) for part in run.tokenizer.parts(text.replace("<mask>", ""))]
    unknown = {part for part in set(parts) if run.tokenizer.unknown(part)}
    missing = [part for part in parts if part in unknown]
    if missing:
        different = list(dict.fromkeys(missing))
        more = f" and {len(different) - 20:,} more" if len(different) > 20 else ""
        note(
            f"{run.tokenizer.unknown_note(len(missing), len(parts))}: {' '.join(short(visible_token(part), 40) for part in different[:20])}{more}"
        )


def note(text: str) -> None:
    terminal.console(stderr=True, soft_wrap=True).print(f"transalg: {text}")


def visible_token(token: str) -> str:
    """A token, or how Python writes it if it cannot be seen."""
    return token if token.strip() and token.isprintable() else repr(token)


def json_line(value: object) -> str:
    """An object as a line of JSON, which is ASCII where standard output, or UTF-8, cannot write its characters."""
    line = json.dumps(value, ensure_ascii=False) + "\n"
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    try:
        line.encode("utf-8")
        line.encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return json.dumps(value) + "\n"
    return line


@contextmanager
def working(name: str, total: int) -> Iterator[Callable[[int], object]]:
    """A progress bar on a terminal, where there is much to do; and a plain line instead of the warning that texts were cut."""
    from transalg.inference.results import CutText
    from transalg.training.watch import Watch

    with warnings.catch_warnings():
        warnings.simplefilter("always", CutText)
        usual = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *place: Any, **options: Any) -> None:
            if issubclass(category, CutText):
                note(str(message))
            else:
                usual(message, category, *place, **options)

        warnings.showwarning = show
        with Watch(terminal.console(stderr=True)).work(name, total, least=2) as progress:
            yield progress
