"""§4: text ↔ token IDs. Characters, words, byte-level BPE."""

from .tokenizer import Tokenizer
from .vocabulary import KINDS, train

__all__ = ["KINDS", "Tokenizer", "train"]
