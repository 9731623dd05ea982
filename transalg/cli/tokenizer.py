"""transalg tokenizer: make a vocabulary, and go from text to token IDs and back."""

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro
from rich.console import Console


@dataclass(frozen=True)
class TrainTokenizer:
    """Make a vocabulary from text: characters, words, or byte pairs. transalg tokenizer train --data FILE --out tokenizer.json."""

    data: Annotated[str, tyro.conf.arg(metavar="DATA")]
    """A file, a folder, or the name of built-in data."""
    out: Annotated[Path, tyro.conf.arg(metavar="FILE")]
    """The tokenizer.json to write; Hugging Face's libraries read it too."""
    kind: Literal["char", "word", "bpe"] = "bpe"
    """What tokens are made of."""
    vocab_size: Annotated[int | None, tyro.conf.arg(metavar="INT", help_behavior_hint="")] = None
    """Tokens in the vocabulary, mask, bos and eos included; for bpe 8192 unless given, otherwise all there are."""
    text_column: str = "text"
    """Name of the column or key with the text, in tables and JSON lines."""

    def run(self) -> None:
        from transalg.data.sources import Source
        from transalg.tokenization import train

        source = Source(self.data, "documents", (self.text_column,))
        made = train(self.kind, (text for record in source.records() for text in record.texts), self.vocab_size)
        made.save(self.out)
        Console(highlight=False, soft_wrap=True).print(f"Wrote {self.out}: {made.N_V:,} tokens")


@dataclass(frozen=True)
class Encode:
    """Text to token IDs, a line for each line of standard input, or for --text. transalg tokenizer encode RUN --text "a cat"."""

    tokenizer: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FILE|RUN")]
    """A tokenizer.json, or the folder of a run."""
    text: Annotated[str | None, tyro.conf.arg(metavar="TEXT", help_behavior_hint="")] = None
    """The text; standard input unless given."""
    ends: bool = False
    """With bos before and eos behind."""
    tokens: bool = False
    """Print what each token stands for, as JSON, instead of its ID."""

    def run(self) -> None:
        tokenizer = _load(self.tokenizer)
        for text in [self.text] if self.text is not None else (line.rstrip("\n") for line in sys.stdin):
            ids = tokenizer.encode(text, ends=self.ends)
            print(json.dumps([tokenizer.token(one) for one in ids], ensure_ascii=False) if self.tokens else " ".join(map(str, ids)))
            if unknown := tokenizer.unknown(text):
                print(f"transalg: not in the vocabulary: {' '.join(unknown)}", file=sys.stderr)


@dataclass(frozen=True)
class Decode:
    """Token IDs to text, a line for each line of standard input, or for --ids. transalg tokenizer decode RUN --ids "3 1 4"."""

    tokenizer: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="FILE|RUN")]
    """A tokenizer.json, or the folder of a run."""
    ids: Annotated[str | None, tyro.conf.arg(metavar="IDS", help_behavior_hint="")] = None
    """Token IDs with spaces between; standard input unless given."""

    def run(self) -> None:
        tokenizer = _load(self.tokenizer)
        for number, line in enumerate([self.ids] if self.ids is not None else sys.stdin, 1):
            try:
                ids = [int(one) for one in line.split()]
            except ValueError as error:
                raise ValueError(f"line {number}: expected token IDs with spaces between, got {line.strip()!r}") from error
            if any(not 0 <= one < tokenizer.N_V for one in ids):
                raise ValueError(f"line {number}: expected token IDs from 0 to {tokenizer.N_V - 1}, got {line.strip()!r}")
            print(tokenizer.decode(ids))


def _load(path: Path):  # type: ignore[no-untyped-def]
    from transalg.tokenization import Tokenizer

    return Tokenizer.load(path / "tokenizer.json" if path.is_dir() else path)


Action = (
    Annotated[TrainTokenizer, tyro.conf.subcommand("train")]
    | Annotated[Encode, tyro.conf.subcommand("encode")]
    | Annotated[Decode, tyro.conf.subcommand("decode")]
)


@dataclass(frozen=True)
class TokenizerCommand:
    """Make a vocabulary (train), turn text into token IDs (encode) and back (decode)."""

    action: Action

    def run(self) -> None:
        self.action.run()


TokenizerVerb = Annotated[TokenizerCommand, tyro.conf.subcommand("tokenizer")]
