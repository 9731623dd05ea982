"""Vocabularies as SentencePiece and GPT-2 have them, from lists of tokens: what gguf files and llama2.c carry."""

from collections.abc import Sequence
from itertools import pairwise

import tokenizers
from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, processors

SPACE = "▁"
PATTERNS = {  # how a text is split before bytes are merged, by the names that gguf has for it; None is GPT-2's own
    "gpt-2": None,
    "default": None,
    "llama-bpe": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "qwen2": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
}


def sentence_pieces(
    pieces: Sequence[str], scores: Sequence[float], special: Sequence[int], *, unknown: int | None = 0, prefix: bool = True
) -> tokenizers.Tokenizer:
    """Pieces that are merged by their scores, ▁ for a space, <0xNN> for a byte of a character that the vocabulary lacks.

    `prefix`: a text begins with a space, which it loses when it is decoded.
    """
    vocabulary = _vocabulary(pieces)
    ends = {pieces[one] for one in special} | ({pieces[unknown]} if unknown is not None else set())
    bytes_too = all(f"<0x{i:02X}>" in vocabulary for i in range(256))
    model = models.BPE(
        vocab=vocabulary,
        merges=_merges(vocabulary, scores, ends),
        byte_fallback=bytes_too,
        unk_token=None if unknown is None else pieces[unknown],
        fuse_unk=True,
    )
    core = tokenizers.Tokenizer(model)
    steps = [normalizers.Prepend(SPACE)] if prefix else []
    core.normalizer = normalizers.Sequence([*steps, normalizers.Replace(" ", SPACE)])
    decoding = [decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse()]
    core.decoder = decoders.Sequence([*decoding, *([decoders.Strip(" ", 1, 0)] if prefix else [])])
    core.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in sorted(ends, key=vocabulary.__getitem__)])
    return core


def _merges(vocabulary: dict[str, int], scores: Sequence[float], ends: set[str]) -> list[tuple[str, str]]:
    """Every pair that makes a piece, those that make the one with the best score first."""
    made = []
    for piece, one in vocabulary.items():
        if piece in ends or (piece.startswith("<0x") and piece.endswith(">")):
            continue
        for i in range(1, len(piece)):
            left, right = piece[:i], piece[i:]
            if left in vocabulary and right in vocabulary:
                made.append((-scores[one], vocabulary[left], vocabulary[right], left, right))
    made.sort()
    return [(left, right) for *_, left, right in made]


def byte_pairs(tokens: Sequence[str], merges: Sequence[str], special: Sequence[int], pattern: str = "gpt-2") -> tokenizers.Tokenizer:
    """GPT-2's: bytes as characters, merged in the order of `merges`."""
    if pattern not in PATTERNS:
        raise ValueError(f"tokenizer.ggml.pre: expected {', '.join(PATTERNS)}, got {pattern!r}")
    split = [one.split(" ") for one in merges]
    if not all(len(pair) == 2 for pair in split):
        raise ValueError("tokenizer.ggml.merges: expected pairs with a space between them, got others")
    core = tokenizers.Tokenizer(models.BPE(vocab=_vocabulary(tokens), merges=[(left, right) for left, right in split]))
    if (regex := PATTERNS[pattern]) is None:
        core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    else:
        parts = pre_tokenizers.Split(Regex(regex), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        core.pre_tokenizer = pre_tokenizers.Sequence(list(parts))
    core.decoder = decoders.ByteLevel()
    core.add_special_tokens([AddedToken(tokens[one], special=True, normalized=False) for one in sorted(set(special))])
    return core


def beginning_with(core: tokenizers.Tokenizer, bos: int) -> tokenizers.Tokenizer:
    """The same with a token before every text."""
    token = str(core.id_to_token(bos))
    core.post_processor = processors.TemplateProcessing(single=f"{token} $A", special_tokens=[(token, bos)])
    return core


def _vocabulary(tokens: Sequence[str]) -> dict[str, int]:
    vocabulary = {token: one for one, token in enumerate(tokens)}
    if len(vocabulary) < len(tokens):
        ordered = sorted(tokens)
        twice = next(one for one, other in pairwise(ordered) if one == other)
        raise ValueError(f"tokens: expected each once, got {twice!r} twice")
    return vocabulary
