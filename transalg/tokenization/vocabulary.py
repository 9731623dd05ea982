"""Vocabularies from text: its characters, its words, or the byte pairs that occur most."""

import os
from collections import Counter
from collections.abc import Iterable
from itertools import islice
from typing import Literal

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

from transalg.tokenization.tokenizer import SPECIAL, UNKNOWN, Tokenizer

Kind = Literal["char", "word", "bpe"]
KindOfText = Literal["symbols", "phrases", "sentences", "unspaced"]
KINDS: tuple[Kind, ...] = ("char", "word", "bpe")
BYTES = 256
WORDS = 30_000  # of a vocabulary of words, unless its size is chosen: rarer words are <unk>
BYTE_PAIRS = 8192  # tokens of a vocabulary of byte pairs, unless its size is chosen
FEWEST_PAIRS, BYTES_PER_TOKEN = 1024, 700  # of text that a vocabulary of byte pairs is made from, if it is to fit the text
SAMPLE = 2000  # texts that tell which kind of vocabulary fits


def train(kind: Kind, texts: Iterable[str], vocab_size: int | None = None, *, min_count: int = 1, lowercase: bool = False) -> Tokenizer:
    """A tokenizer for these texts.

    char: every character that occurs, in the order of Unicode. Lossless for text of these characters; others are left out.
    word: words and punctuation apart, the most frequent first, at most vocab_size (30,000 unless given), with <unk> for all others and for words that occur fewer than
    `min_count` times. Text comes back with single spaces between words.
    With `lowercase` it has words in lower case alone, and reads every text so.
    bpe: bytes, and the pairs that occur most, merged until there are vocab_size. Lossless for any text.
    """
    if kind not in KINDS:
        raise ValueError(f"tokenizer: expected {', '.join(KINDS)}, got {kind!r}")
    smallest = {"char": 1, "word": 2, "bpe": BYTES}[kind] + len(SPECIAL)
    if vocab_size is not None and vocab_size < smallest:
        raise ValueError(f"vocab_size: expected at least {smallest} for {kind}, {', '.join(SPECIAL)} included, got {vocab_size}")
    if lowercase and kind != "word":
        raise ValueError(f"lowercase: expected a vocabulary of words, got {kind}")
    if kind == "char":
        return _characters(texts, vocab_size)
    return _words(texts, vocab_size or WORDS, min_count, lowercase) if kind == "word" else _byte_pairs(texts, vocab_size or BYTE_PAIRS)


def size_for_text(texts: Iterable[str]) -> int:
    """How many byte pairs fit these texts: a token for every 700 bytes, from 1,024 to 8,192.

    A larger vocabulary has tokens that are too rare to be learned, and costs more at every step.
    """
    size = 0
    for text in texts:
        size += len(text.encode())
        if size >= BYTE_PAIRS * BYTES_PER_TOKEN:
            return BYTE_PAIRS
    return max(FEWEST_PAIRS, size // BYTES_PER_TOKEN)


def kind_of_text(texts: Iterable[str]) -> KindOfText:
    """What the first of these texts are made of.

    symbols: single characters or short codes with spaces between them, such as phonemes. phrases: a few words. sentences: natural language, words
    with spaces between them. unspaced: long texts without spaces, such as Chinese.

    >>> kind_of_text(["W ER1 D", "B UH1 K"]), kind_of_text(["3 March 2026"]), kind_of_text(["a man in a red shirt is running"])
    ('symbols', 'phrases', 'sentences')
    """
    characters = words = count = 0
    for text in islice(texts, SAMPLE):
        parts = text.split()
        characters, words, count = characters + sum(map(len, parts)), words + len(parts), count + 1
    if not words:
        return "phrases"
    length, per_text = characters / words, words / count
    if per_text >= 2 and length < 2.5:
        return "symbols"
    if length > 15:
        return "unspaced"
    return "sentences" if per_text >= 5 else "phrases"


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


def _words(texts: Iterable[str], vocab_size: int, min_count: int, lowercase: bool) -> Tokenizer:
    splitter = pre_tokenizers.Whitespace()
    counts: Counter[str] = Counter()
    normalizer = normalizers.Lowercase() if lowercase else None
    for text in texts:
        counts.update(word for word, _ in splitter.pre_tokenize_str(text if normalizer is None else normalizer.normalize_str(text)))
    common = counts.most_common(vocab_size - len(SPECIAL) - 1)
    words = [word for word, count in common if count >= min_count] or [word for word, _ in common]
    if not words:
        raise ValueError("tokenizer: expected some words to train on, got none")
    vocabulary = {word: i for i, word in enumerate([*words, UNKNOWN])}
    core = tokenizers.Tokenizer(models.WordLevel(vocab=vocabulary, unk_token=UNKNOWN))
    core.pre_tokenizer = splitter
    if normalizer is not None:
        core.normalizer = normalizer
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
