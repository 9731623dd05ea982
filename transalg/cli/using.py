"""What the verbs that use a trained model share: which runs, which texts, where results go."""

import json
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager as Context
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any, Literal

import tyro
from rich.console import Console

from transalg.atomic import atomic_write

if TYPE_CHECKING:
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
TooLong = Annotated[
    Literal["cut", "error"], tyro.conf.arg(help="A text longer than the model takes: cut it and print a note, or stop with an error.")
]
TABLES = (".jsonl", ".ndjson", ".csv", ".tsv")


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
        return nullcontext(sys.stdout) if self.out is None else atomic_write(self.out)


@dataclass(frozen=True, kw_only=True)
class TextVerb(ModelVerb):
    """A verb that reads texts in one pass."""

    text: Texts = ()
    """The texts."""
    file: MaybeFile = None
    """Read the texts from a file: one a line, or a table or JSON lines; - for standard input."""
    column: Name = "text"
    """The column of the texts in a table or JSON lines."""

    def texts(self, run: "Run") -> list[str]:
        """The texts; a note says what the vocabulary lacks of them."""
        texts = read_texts(self.text, self.file, "--text", self.column)
        note_unknown(run, texts)
        return texts


def load_runs(*runs: Path, **options: Any) -> "Run":
    """`transalg.load`, with a plain line instead of the warning that there is no best checkpoint yet."""
    import transalg
    from transalg.inference.results import NoBest

    with warnings.catch_warnings(record=True) as raised:
        warnings.simplefilter("always", NoBest)
        run = transalg.load(*runs, **options)
    for each in raised:
        if issubclass(each.category, NoBest):
            _note(str(each.message))
        else:
            warnings.showwarning(each.message, each.category, each.filename, each.lineno)
    return run


def check_output(path: Path | None) -> None:
    """A ValueError, before any work, if there cannot be such a file."""
    if path is not None and (path.is_dir() or not path.absolute().parent.is_dir()):
        raise ValueError(f"{path}: expected a file in a folder that exists")


def read_texts(arguments: Sequence[str], file: Path | None, option: str, column: str = "text") -> list[str]:
    """The texts of the command line, or of a file (a line or a row of a table each), or of standard input."""
    if arguments and file is not None:
        raise ValueError(f"--file: give {option} or --file, not both")
    if arguments:
        return list(arguments)
    if file is not None and any(suffix in TABLES for suffix in file.suffixes):
        from transalg.data.sources import Source

        return [record.texts[0] for record in Source(str(file), "documents", (column,)).records()]
    if file is None and sys.stdin.isatty():
        raise ValueError(f"expected {option}, --file FILE, or text on standard input")
    return read_lines(file)


def read_lines(file: Path | None) -> list[str]:
    """The lines of a file, or of standard input if it is None or -."""
    name = "standard input" if file is None or str(file) == "-" else str(file)
    try:
        data = sys.stdin.buffer.read() if name == "standard input" else Path(name).read_bytes()
    except OSError as error:
        raise ValueError(f"{name}: cannot be read: {error.strerror}") from error
    lines = []
    for number, line in enumerate(data.split(b"\n"), 1):
        try:
            lines.append(line.decode("utf-8-sig" if number == 1 else "utf-8").removesuffix("\r"))
        except UnicodeDecodeError as error:
            raise ValueError(f"{name}:{number}: not UTF-8: {error.reason}") from error
    if lines[-1] == "":
        lines.pop()
    if not lines:
        raise ValueError(f"{name}: expected text, got nothing")
    return lines


def note_unknown(run: "Run", texts: Sequence[str]) -> None:
    """Print which characters or words of the texts the vocabulary lacks."""
    parts = [run.tokenizer.unknown(text.replace("<mask>", "")) for text in texts if run.known(text)]
    missing = list(dict.fromkeys(part for each in parts for part in each))
    if missing:
        more = f" and {len(missing) - 20:,} more" if len(missing) > 20 else ""
        consequence = "left out" if run.tokenizer.kind == "char" else "read as <unk>"
        shown = " ".join(part if part.isprintable() and not part.isspace() else repr(part) for part in missing[:20])
        _note(f"not in the vocabulary, {consequence}: {shown}{more}")


def _note(text: str) -> None:
    Console(stderr=True, highlight=False, markup=False, soft_wrap=True).print(f"transalg: {text}")


def json_line(value: object) -> str:
    return json.dumps(value, ensure_ascii=False) + "\n"


@contextmanager
def working(name: str, total: int) -> Iterator[Callable[[int], object]]:
    """A progress bar on a terminal, where there is much to do; and a plain line instead of the warning that texts were cut."""
    from transalg.cli.watch import Watch
    from transalg.inference.results import CutText

    with warnings.catch_warnings():
        warnings.simplefilter("always", CutText)
        usual = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *place: Any, **options: Any) -> None:
            if issubclass(category, CutText):
                _note(str(message))
            else:
                usual(message, category, *place, **options)

        warnings.showwarning = show
        with Watch(Console(stderr=True, highlight=False)).work(name, total, least=2) as progress:
            yield progress
