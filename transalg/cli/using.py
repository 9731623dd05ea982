"""What the verbs that use a trained model share: which runs, which texts, where results go."""

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any, Literal

import tyro
from rich.console import Console

if TYPE_CHECKING:
    from transalg.inference.run import Run
    from transalg.tasks import Ability

Runs = Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN [RUN ...]", help_behavior_hint="")]
MaybeText = Annotated[str | None, tyro.conf.arg(metavar="TEXT", help_behavior_hint="")]
Texts = Annotated[tuple[str, ...], tyro.conf.arg(metavar="TEXT [TEXT ...]", help_behavior_hint="")]
MaybeFile = Annotated[Path | None, tyro.conf.arg(metavar="FILE", help_behavior_hint="")]
MaybeInt = Annotated[int | None, tyro.conf.arg(metavar="INT", help_behavior_hint="")]
MaybeFloat = Annotated[float | None, tyro.conf.arg(metavar="FLOAT", help_behavior_hint="")]
TABLES = (".jsonl", ".ndjson", ".csv", ".tsv")


@dataclass(frozen=True, kw_only=True)
class Using:
    """The model, and the form of its answers."""

    runs: Runs
    """Folders that `transalg train` made. Several of one vocabulary are an ensemble: their P̂ is averaged."""
    out: MaybeFile = None
    """Write the results to this file instead of printing them."""
    json: bool = False
    """JSON, an object a line."""
    quantize: Annotated[Literal["int8"] | None, tyro.conf.arg(metavar="{int8}", help_behavior_hint="")] = None
    """Weights in 8 bits: a quarter of the memory, and faster, for answers that are nearly the same."""
    device: str = "cpu"
    """Where to compute: cpu, cuda."""

    def load(self, what: "Ability") -> "Run":
        """The model, if it can do this."""
        if not self.runs:
            raise ValueError(f"{what}: expected the folder of a run; transalg {what} RUN")
        if self.out is not None and (self.out.is_dir() or not self.out.absolute().parent.is_dir()):
            raise ValueError(f"{self.out}: expected a file in a folder that exists")

        import transalg

        run = transalg.load(*self.runs, device=self.device, quantize=self.quantize)
        run.can(what)
        return run

    @contextmanager
    def output(self, *, binary: bool = False) -> Iterator[IO[Any]]:
        """Where results are written: standard output, or a file that is there as a whole or not at all."""
        if self.out is None:
            yield sys.stdout
            return
        part = self.out.with_name(f".{self.out.name}.part")
        try:
            with part.open("wb") if binary else part.open("w", encoding="utf-8") as file:
                yield file
            part.replace(self.out)
        except BaseException as error:
            part.unlink(missing_ok=True)
            if isinstance(error, OSError):
                raise ValueError(f"{self.out}: cannot be written: {error.strerror}") from error
            raise


@dataclass(frozen=True, kw_only=True)
class Reading(Using):
    """Texts that are read in one pass."""

    text: Texts = ()
    """The texts."""
    file: MaybeFile = None
    """Texts, one a line; or a table or JSON lines; - for standard input."""
    column: str = "text"
    """The column of the texts in a table or JSON lines."""

    def given(self, run: "Run") -> list[str]:
        """The texts; what the vocabulary does not have of them is said."""
        found = texts(self.text, self.file, "--text", self.column)
        unknown(run, found)
        return found

    def parts(self, name: str, given: Sequence[Any], size: int) -> Iterator[slice]:
        """So many texts at a time, with a bar that says how far it is."""
        with progress(name, len(given)) as done:
            for i in range(0, len(given), size):
                yield slice(i, i + size)
                done(len(given[i : i + size]))


def texts(given: Sequence[str], file: Path | None, option: str, column: str = "text") -> list[str]:
    """Those of the command line, or a text for every line of the file (row of a table), or of standard input."""
    if given and file is not None:
        raise ValueError(f"--file: give {option} or --file, not both")
    if given:
        return list(given)
    if file is not None and any(suffix in TABLES for suffix in file.suffixes):
        from transalg.data.sources import Source

        return [record.texts[0] for record in Source(str(file), "documents", (column,)).records()]
    if file is None and sys.stdin.isatty():
        raise ValueError(f"expected {option}, --file FILE, or text on standard input")
    return lines(file)


def lines(file: Path | None) -> list[str]:
    """Of a file, or of standard input if it is None or -."""
    name = "standard input" if file is None or str(file) == "-" else str(file)
    try:
        data = sys.stdin.buffer.read() if name == "standard input" else Path(name).read_bytes()
    except OSError as error:
        raise ValueError(f"{name}: cannot be read: {error.strerror}") from error
    found = []
    for number, line in enumerate(data.split(b"\n"), 1):
        try:
            found.append(line.decode("utf-8-sig" if number == 1 else "utf-8").removesuffix("\r"))
        except UnicodeDecodeError as error:
            raise ValueError(f"{name}:{number}: not UTF-8: {error.reason}") from error
    if found[-1] == "":
        found.pop()
    if not found:
        raise ValueError(f"{name}: expected text, got nothing")
    return found


def unknown(run: "Run", given: Sequence[str]) -> None:
    """Say what the vocabulary does not have."""
    parts = [run.tokenizer.unknown(text.replace("<mask>", "")) for text in given if run.known(text)]
    missing = list(dict.fromkeys(part for each in parts for part in each))
    if missing:
        more = f" and {len(missing) - 20:,} more" if len(missing) > 20 else ""
        consequence = "left out" if run.tokenizer.kind == "char" else "read as <unk>"
        shown = " ".join(part if part.isprintable() and not part.isspace() else repr(part) for part in missing[:20])
        Console(stderr=True, highlight=False, markup=False).print(f"transalg: not in the vocabulary, {consequence}: {shown}{more}")


def as_line(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False) + "\n"


def progress(name: str, total: int) -> Any:
    """A bar on a terminal, where there is much to do."""
    from transalg.cli.watch import Watch

    return Watch(Console(stderr=True, highlight=False)).work(name, total, least=2)
