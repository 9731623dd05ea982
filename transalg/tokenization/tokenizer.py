"""A tokenizer: text ↔ token IDs, and which of them are mask, bos and eos (§4)."""

import hashlib
import os
from collections.abc import Iterable
from functools import cached_property

import tokenizers
from tokenizers.processors import TemplateProcessing

from transalg.atomic import atomic_write
from transalg.hyper import HasSpecialTokens, SpecialTokens
from transalg.reading import parse_json, read_text, shown

MASK, BOS, EOS = "<mask>", "<bos>", "<eos>"
SPECIAL = (MASK, BOS, EOS)
UNKNOWN = "<unk>"  # in vocabularies of words only: the token of all words that the vocabulary lacks


class Tokenizer(HasSpecialTokens):
    """Text to x = [bos, …, eos] and back, around a tokenizer of the `tokenizers` library, whose `tokenizer.json` others read unchanged.

    The special tokens are those named <mask>, <bos> and <eos>, wherever they stand in the vocabulary, unless `special` gives their IDs:
    `Tokenizer(core, special=SpecialTokens(mask=103, bos=101, eos=102))`. One that the vocabulary lacks is None. N_V is that of the
    vocabulary unless a model has rows for more tokens.
    """

    def __init__(self, core: tokenizers.Tokenizer, *, special: SpecialTokens | None = None, N_V: int | None = None) -> None:
        self.core, self._rows = core, N_V
        self._special = _named(core) if special is None else special
        if special is None and not self._special.ids:
            raise ValueError(
                f"tokenizer: expected a vocabulary with {', '.join(SPECIAL[:-1])} or {SPECIAL[-1]}, or their IDs; got none of them"
            )
        for token in self._special.ids:
            if core.id_to_token(token) is None:
                raise ValueError(f"special: expected token IDs of the vocabulary, from 0 to {self.N_V - 1}, got {token}")

    @classmethod
    def closed(cls, core: tokenizers.Tokenizer) -> "Tokenizer":
        """A tokenizer whose vocabulary is complete but for mask, bos and eos, which become its last three tokens."""
        core.add_special_tokens(list(SPECIAL))
        ends = [(BOS, core.token_to_id(BOS)), (EOS, core.token_to_id(EOS))]
        core.post_processor = TemplateProcessing(single=f"{BOS} $A {EOS}", special_tokens=ends)  # for others who read the file
        return cls(core)

    @cached_property
    def N_V(self) -> int:
        return self._rows or vocabulary_size(self.core)

    @property
    def special_tokens(self) -> SpecialTokens:
        return self._special

    @property
    def byte_level(self) -> bool:
        """Whether a character of a token stands for a byte of text, as in GPT-2's vocabulary."""
        return type(self.core.decoder).__name__ == "ByteLevel"

    @cached_property
    def kind(self) -> str:
        """char, word, or bpe, which stands for parts of words of every sort."""
        model = type(self.core.model).__name__
        if model == "WordLevel":
            return "word"
        plain = model == "BPE" and self.core.pre_tokenizer is None and self.core.normalizer is None
        return "char" if plain and all(len(token) == 1 for token in self.ordinary()) else "bpe"

    def ordinary(self) -> dict[str, int]:
        """The vocabulary without the special tokens: the ID of every token."""
        return {token: one for token, one in self.core.get_vocab().items() if one not in self._special}

    def digest(self) -> str:
        """A hash of all that token IDs depend on."""
        special = "" if self._special == _named(self.core) else repr(self._special)
        special += "" if self._special.context_bos else " without bos in z"
        return hashlib.blake2b((self.core.to_str() + special).encode()).hexdigest()

    def encode(self, text: str, *, ends: bool = True, special: bool = False) -> list[int]:
        """x, with bos before and eos after it if `ends`, as far as the vocabulary has them.

        With `special`, "<mask>" in the text is the mask token, whatever the vocabulary calls it; otherwise it is six characters like any
        others.
        """
        return self.encode_many([text], ends=ends, special=special)[0]

    def encode_many(self, texts: Iterable[str], *, ends: bool = True, special: bool = False) -> list[list[int]]:
        """x of every text, on all cores."""
        return [self.with_ends(encoding.ids, bos=ends, eos=ends) for encoding in self.encodings(list(texts), special=special)]

    def with_ends(self, ids: list[int], *, bos: bool = True, eos: bool = True, context: bool = False) -> list[int]:
        """IDs with bos before them if `bos`, and with eos after them if `eos`, as far as the vocabulary has them. A context z may have no bos."""
        bos = bos and (self._special.context_bos or not context)
        before, after = ([token] if token is not None else [] for token in (self._special.bos, self._special.eos))
        return before * bos + ids + after * eos

    def encodings(self, texts: list[str], *, special: bool = False) -> list[tokenizers.Encoding]:
        """The library's own results, without bos and eos, before the IDs become Python's."""
        mask = self.core.id_to_token(self._special.mask) if special and self._special.mask is not None else None
        if mask and mask != MASK:
            texts = [text.replace(MASK, mask) for text in texts]
        self.core.encode_special_tokens = not special
        try:
            return list(self.core.encode_batch_fast(texts, add_special_tokens=False))
        except Exception as error:  # the library raises Exception itself, for a word that the vocabulary lacks and has no <unk> for
            raise ValueError(f"text: cannot be tokenised: {str(error).splitlines()[0]}") from error
        finally:
            self.core.encode_special_tokens = False

    def decode(self, ids: Iterable[int]) -> str:
        """The text of x, without mask, bos and eos."""
        return str(self.core.decode(self._special.without(ids), skip_special_tokens=False))

    def token(self, one: int) -> str:
        """What a token ID stands for, to be shown."""
        if self.kind == "bpe" and one not in self._special:
            return str(self.core.decode([one], skip_special_tokens=False))
        return str(self.core.id_to_token(one) or "")

    def unknown(self, text: str) -> list[str]:
        """The parts of a text that the vocabulary lacks: characters, which encoding leaves out, or words, which become <unk>; each once, in order."""
        return list(dict.fromkeys(part for part in self.parts(text) if self.core.token_to_id(part) is None))

    def parts(self, text: str) -> list[str]:
        """The characters or the words of a text, each of which is a token if the vocabulary has it; none where it has every text."""
        if self.kind == "bpe":
            return []
        if self.core.normalizer is not None:
            text = self.core.normalizer.normalize_str(text)
        return list(text) if self.kind == "char" else [part for part, _ in self.core.pre_tokenizer.pre_tokenize_str(text)]

    def unknown_note(self, unknown: int, total: int) -> str:
        """A sentence about a text of which the vocabulary lacks so many of all parts."""
        what, become = ("characters", "are left out") if self.kind == "char" else ("words", f"become {UNKNOWN}")
        share = f"{100 * unknown / total:.1f} %" if unknown / total >= 0.0005 else "less than 0.1 %"
        return f"{unknown:,} of {total:,} {what} ({share}) are not in the vocabulary and {become}"

    @property
    def unknown_token(self) -> int | None:
        """The ID that stands for every word the vocabulary lacks; None where tokens are not words."""
        return self.core.token_to_id(self.core.model.unk_token) if self.kind == "word" else None

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write tokenizer.json, atomically."""
        with atomic_write(path) as file:
            file.write(self.core.to_str(pretty=True))

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, special: SpecialTokens | None = None) -> "Tokenizer":
        """Read tokenizer.json; `special` as for `Tokenizer`."""
        core = read_core(path)
        try:
            return cls(core, special=special)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error


def read_core(path: str | os.PathLike[str]) -> tokenizers.Tokenizer:
    """What the library reads from tokenizer.json, which does not know the special tokens. It neither cuts nor pads, and draws nothing.

    Its post-processor is not used: bos and eos are added here.
    """
    text = read_text(path)
    try:
        parse_json(text)
        core = tokenizers.Tokenizer.from_str(text)
    except Exception as error:  # the library raises Exception itself
        raise ValueError(f"{path}: not a tokenizer.json: {str(error).removeprefix('not JSON: ').splitlines()[0]}") from error
    except BaseException as error:
        if not _panicked(error):
            raise
        raise ValueError(f"{path}: not a tokenizer.json: the library tokenizers cannot read it") from error
    core.no_truncation()
    core.no_padding()
    if getattr(core.model, "dropout", None):
        core.model.dropout = None
    try:
        _check_vocabulary(core)
    except ValueError as error:
        raise ValueError(f"{path}: {error}; restore the file from a copy") from error
    return core


def _check_vocabulary(core: tokenizers.Tokenizer) -> None:
    """Every token has an ID of its own."""
    tokens: dict[int, str] = {}
    for token, one in core.get_vocab().items():
        if (other := tokens.setdefault(one, token)) != token:
            first, second = sorted((token, other))
            raise ValueError(f"model.vocab: expected an ID for every token, got {one} for both {shown(first)} and {shown(second)}")
    if not tokens:
        raise ValueError("model.vocab: expected tokens, got none")


def check_unknown(core: tokenizers.Tokenizer) -> None:
    """A ValueError unless the token for what the vocabulary lacks is one of it. Vocabularies of others may name one that they never need."""
    unknown = getattr(core.model, "unk_token", None)
    if unknown is not None and core.token_to_id(unknown) is None:
        raise ValueError(f"model.unk_token: expected a token of the vocabulary, got {shown(unknown)}; restore the file from a copy")


def _panicked(error: BaseException) -> bool:
    """Whether the library's Rust code gave up; that is no Exception."""
    return type(error).__name__ == "PanicException"


def vocabulary_size(core: tokenizers.Tokenizer) -> int:
    """N_V: one more than the largest token ID; a vocabulary of others may have gaps."""
    return 1 + max(core.get_vocab().values())


def _named(core: tokenizers.Tokenizer) -> SpecialTokens:
    mask, bos, eos = (core.token_to_id(name) for name in SPECIAL)
    return SpecialTokens(mask, bos, eos)
