"""§4: text ↔ token IDs. Characters, words, byte-level BPE."""

from .tokenizer import Tokenizer
from .vocabulary import KINDS, KindOfText, kind_of_text, size_for_text, train

__all__ = ["KINDS", "KindOfText", "Tokenizer", "kind_of_text", "size_for_text", "train"]
