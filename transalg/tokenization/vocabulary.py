"""Vocabularies from text: its characters, its words, or the byte pairs that occur most."""

import os
from collections import Counter
from collections.abc import Iterable
from typing import Literal

import tokenizers
from tokenizers import decoders, models, pre_tokenizers, trainers

from transalg.tokenization.tokenizer import SPECIAL, UNKNOWN, Tokenizer

Kind = Literal["char", "word", "bpe"]
KINDS: tuple[Kind, ...] = ("char", "word", "bpe")
BYTES = 256


def train(kind: Kind, texts: Iterable[str], vocab_size: int | None = None, *, min_count: int = 1) -> Tokenizer:
    """A tokenizer for these texts.

    char: every character that occurs, in the order of Unicode. Lossless for text of these characters; others are left out.
    word: words and punctuation apart, the most frequent first, at most vocab_size, with <unk> for all others and for words that occur fewer than
    `min_count` times. Text comes back with single spaces between words.
    bpe: bytes, and the pairs that occur most, merged until there are vocab_size. Lossless for any text.
    """
    if kind not in KINDS:
        raise ValueError(f"tokenizer: expected {', '.join(KINDS)}, got {kind!r}")
    smallest = {"char": 1, "word": 2, "bpe": BYTES}[kind] + len(SPECIAL)
    if vocab_size is not None and vocab_size < smallest:
        raise ValueError(f"vocab_size: expected at least {smallest} for {kind}, {', '.join(SPECIAL)} included, got {vocab_size}")
    if kind == "char":
        return _characters(texts, vocab_size)
    return _words(texts, vocab_size, min_count) if kind == "word" else _byte_pairs(texts, vocab_size or 8192)


def _characters(texts: Iterable[str], vocab_size: int | None) -> Tokenizer:
    if vocab_size is None:
        characters = set[str]()
        for text in texts:
            characters.update(text)
    else:
        counts = Counter(character for text in texts for character in text)
        characters = {character for character, _ in counts.most_common(vocab_size - len(SPECIAL))}
    if not characters:
        raise ValueError("tokenizer: expected some text to train on, got none")
    core = tokenizers.Tokenizer(models.BPE(vocab={character: i for i, character in enumerate(sorted(characters))}, merges=[]))
    core.decoder = decoders.Fuse()
    return Tokenizer.closed(core)


def _words(texts: Iterable[str], vocab_size: int | None, min_count: int) -> Tokenizer:
    splitter = pre_tokenizers.Whitespace()
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(word for word, _ in splitter.pre_tokenize_str(text))
    common = counts.most_common(None if vocab_size is None else vocab_size - len(SPECIAL) - 1)
    words = [word for word, count in common if count >= min_count] or [word for word, _ in common]
    if not words:
        raise ValueError("tokenizer: expected some words to train on, got none")
    vocabulary = {word: i for i, word in enumerate([*words, UNKNOWN])}
    core = tokenizers.Tokenizer(models.WordLevel(vocab=vocabulary, unk_token=UNKNOWN))
    core.pre_tokenizer = splitter
    core.decoder = decoders.WordPiece(prefix="\uffff", cleanup=True)  # no space before punctuation; nothing has this prefix
    return Tokenizer.closed(core)


def _byte_pairs(texts: Iterable[str], vocab_size: int) -> Tokenizer:
    core = _byte_level(models.BPE())
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size - len(SPECIAL), initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    core.train_from_iterator(texts, trainer)
    return Tokenizer.closed(core)


def from_files(vocabulary: str | os.PathLike[str], merges: str | os.PathLike[str]) -> Tokenizer:
    """An existing byte-level BPE, for example GPT-2's encoder.json and vocab.bpe. Its IDs stay as they are; mask, bos and eos follow."""
    try:
        model = models.BPE.from_file(os.fspath(vocabulary), os.fspath(merges))
    except Exception as error:  # the library raises Exception itself
        raise ValueError(f"{vocabulary}, {merges}: not a byte-level BPE: {str(error).splitlines()[0]}") from error
    return Tokenizer.closed(_byte_level(model))


def _byte_level(model: models.BPE) -> tokenizers.Tokenizer:
    core = tokenizers.Tokenizer(model)
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    return core
