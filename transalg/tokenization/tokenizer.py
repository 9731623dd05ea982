"""A tokenizer: token IDs 0, …, N_V−4 for what occurs in text, then mask, bos and eos (§4)."""

import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

import tokenizers
from tokenizers.processors import TemplateProcessing

from transalg.atomic import atomic_write
from transalg.hyper import HasSpecialTokens, SpecialTokens

MASK, BOS, EOS = "<mask>", "<bos>", "<eos>"
SPECIAL = (MASK, BOS, EOS)
UNKNOWN = "<unk>"  # in vocabularies of words only: what is said about words that are not in it


class Tokenizer(HasSpecialTokens):
    """Text to x = [bos, …, eos] and back, around a tokenizer of the `tokenizers` library, whose `tokenizer.json` others read unchanged."""

    def __init__(self, core: tokenizers.Tokenizer) -> None:
        N_V = core.get_vocab_size()
        if [core.token_to_id(token) for token in SPECIAL] != [N_V - 3, N_V - 2, N_V - 1]:
            raise ValueError(f"tokenizer: expected {', '.join(SPECIAL)} as its last three tokens, got others")
        self.core = core

    @classmethod
    def closed(cls, core: tokenizers.Tokenizer) -> "Tokenizer":
        """A tokenizer whose vocabulary is complete but for mask, bos and eos, which go to its end."""
        core.add_special_tokens(list(SPECIAL))
        ends = [(BOS, core.token_to_id(BOS)), (EOS, core.token_to_id(EOS))]
        core.post_processor = TemplateProcessing(single=f"{BOS} $A {EOS}", special_tokens=ends)
        return cls(core)

    @property
    def N_V(self) -> int:
        return int(self.core.get_vocab_size())

    @property
    def special_tokens(self) -> SpecialTokens:
        return SpecialTokens(*(self.core.token_to_id(token) for token in SPECIAL))

    @property
    def kind(self) -> str:
        """char, word or bpe."""
        model = type(self.core.model).__name__
        if model == "WordLevel":
            return "word"
        return "bpe" if self.core.pre_tokenizer is not None else "char"

    def encode(self, text: str, *, ends: bool = True, special: bool = False) -> list[int]:
        """x, between bos and eos if ends; with special, "<mask>" in the text is the mask token, otherwise six characters like any others."""
        return self.encode_many([text], ends=ends, special=special)[0]

    def encode_many(self, texts: Iterable[str], *, ends: bool = True, special: bool = False) -> list[list[int]]:
        """x of every text, on all cores."""
        return [found.ids for found in self.encodings(list(texts), ends=ends, special=special)]

    def encodings(self, texts: list[str], *, ends: bool = False, special: bool = False) -> list[tokenizers.Encoding]:
        """The same as the library has it, before the IDs are Python's."""
        self.core.encode_special_tokens = not special
        try:
            return list(self.core.encode_batch_fast(texts, add_special_tokens=ends))
        finally:
            self.core.encode_special_tokens = False

    def decode(self, ids: Sequence[int]) -> str:
        """The text of x, without mask, bos and eos."""
        return str(self.core.decode([one for one in ids if one < self.mask_token], skip_special_tokens=False))

    def token(self, one: int) -> str:
        """What a token ID stands for, to be shown."""
        if self.kind == "bpe" and one < self.mask_token:
            return str(self.core.decode([one]))
        return str(self.core.id_to_token(one))

    def unknown(self, text: str) -> list[str]:
        """What of a text the vocabulary does not have: characters that encoding leaves out, words that become <unk>; each once, in order."""
        if self.kind == "bpe":
            return []
        parts = list(text) if self.kind == "char" else [part for part, _ in self.core.pre_tokenizer.pre_tokenize_str(text)]
        return list(dict.fromkeys(part for part in parts if self.core.token_to_id(part) is None))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write tokenizer.json, atomically."""
        with atomic_write(path) as file:
            file.write(self.core.to_str(pretty=True))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Tokenizer":
        """Read tokenizer.json."""
        try:
            text = Path(path).read_text(encoding="utf-8")
            json.loads(text)
            core = tokenizers.Tokenizer.from_str(text)
        except OSError as error:
            raise ValueError(f"{path}: cannot be read: {error.strerror}") from error
        except Exception as error:  # the library raises Exception itself
            raise ValueError(f"{path}: not a tokenizer.json: {str(error).splitlines()[0]}") from error
        try:
            return cls(core)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error
