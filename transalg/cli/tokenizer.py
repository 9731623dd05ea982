"""transalg tokenizer: train a vocabulary; convert text to token IDs and back."""

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from transalg import terminal
from transalg.cli.using import note, standard_output
from transalg.hyper.hyper import VOCABULARY
from transalg.limits import limits
from transalg.terminal import listed

if TYPE_CHECKING:
    from transalg.tokenization import Tokenizer


@dataclass(frozen=True)
class TrainTokenizer:
    """Train a vocabulary on text: characters, words, or byte pairs. transalg tokenizer train --data FILE --out tokenizer.json."""

    data: Annotated[str, tyro.conf.arg(metavar="DATA")]
    """A file, a folder, or the name of built-in data."""
    out: Annotated[Path, tyro.conf.arg(metavar="FILE")]
    """The tokenizer.json to write; Hugging Face's libraries read it too."""
    kind: Literal["char", "word", "bpe"] = "bpe"
    """What tokens are made of."""
    vocab_size: Annotated[int | None, limits(VOCABULARY)] = None
    """Tokens in the vocabulary, mask, bos and eos included; by default 8192 for bpe, otherwise all that occur."""
    text_column: str = "text"
    """Name of the column or key with the text, in tables and JSON lines; in tables also its number, from 1."""

    def run(self) -> None:
        from transalg.data.sources import Source
        from transalg.tokenization import train

        source = Source(self.data, "documents", (self.text_column,))
        tokenizer = train(self.kind, (text for record in source.records() for text in record.texts), self.vocab_size)
        tokenizer.save(self.out)
        console = terminal.console(soft_wrap=True)
        for line in source.notes():
            console.print(line)
        console.print(f"Wrote {self.out}: {tokenizer.N_V:,} tokens")


@dataclass(frozen=True)
class Encode:
    """Text to token IDs, a line for each line of standard input, or for --text. transalg tokenizer encode RUN --text "a cat"."""

    tokenizer: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FILE|RUN")]
    """A tokenizer.json, or the folder of a run."""
    text: Annotated[str | None, tyro.conf.arg(metavar="TEXT", help_behavior_hint="")] = None
    """The text; by default standard input."""
    ends: bool = False
    """With bos before and eos after."""
    tokens: bool = False
    """Print what each token stands for, as JSON, instead of its ID."""

    def run(self) -> None:
        tokenizer = _load(self.tokenizer)
        for text in [self.text] if self.text is not None else (line.rstrip("\n") for line in sys.stdin):
            ids = tokenizer.encode(text, ends=self.ends)
            print(json.dumps([tokenizer.token(one) for one in ids], ensure_ascii=False) if self.tokens else " ".join(map(str, ids)))
            if unknown := tokenizer.unknown(text):
                note(f"not in the vocabulary: {listed(unknown)}")


@dataclass(frozen=True)
class Decode:
    """Token IDs to text, a line for each line of standard input, or for --ids. transalg tokenizer decode RUN --ids "3 1 4"."""

    tokenizer: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FILE|RUN")]
    """A tokenizer.json, or the folder of a run."""
    ids: Annotated[str | None, tyro.conf.arg(metavar="IDS", help_behavior_hint="")] = None
    """Token IDs with spaces between; by default standard input."""

    def run(self) -> None:
        tokenizer = _load(self.tokenizer)
        for number, line in enumerate([self.ids] if self.ids is not None else sys.stdin, 1):
            try:
                ids = [int(one) for one in line.split()]
            except ValueError as error:
                raise ValueError(f"line {number}: expected token IDs with spaces between, got {line.strip()!r}") from error
            if any(not 0 <= one < tokenizer.N_V for one in ids):
                raise ValueError(f"line {number}: expected token IDs from 0 to {tokenizer.N_V - 1}, got {line.strip()!r}")
            standard_output().write(tokenizer.decode(ids) + "\n")


def _load(path: Path) -> "Tokenizer":
    from transalg.tokenization import Tokenizer

    return Tokenizer.load(path / "tokenizer.json" if path.is_dir() else path)


Action = (
    Annotated[TrainTokenizer, tyro.conf.subcommand("train")]
    | Annotated[Encode, tyro.conf.subcommand("encode")]
    | Annotated[Decode, tyro.conf.subcommand("decode")]
)


@dataclass(frozen=True)
class TokenizerCommand:
    """Train a vocabulary (train), convert text to token IDs (encode) and back (decode)."""

    action: Action

    def run(self) -> None:
        self.action.run()


TokenizerVerb = Annotated[TokenizerCommand, tyro.conf.subcommand("tokenizer")]
