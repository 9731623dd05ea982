"""A vocabulary of transalg with its special tokens where those of others may be."""

import json

import tokenizers

from transalg.tokenization import Tokenizer


def rearranged(tokenizer: Tokenizer, *, bos: int = 0, eos: int = 7) -> Tokenizer:
    """The same tokens with bos and eos at other IDs, and without mask."""
    data = json.loads(tokenizer.core.to_str())
    free = [i for i in range(tokenizer.N_V - 1) if i not in (bos, eos)]
    moved = {token: free[i] for token, i in data["model"]["vocab"].items()}
    data["model"]["vocab"] = moved
    data["added_tokens"] = [
        added | {"id": {"<bos>": bos, "<eos>": eos}[added["content"]]} for added in data["added_tokens"] if added["content"] != "<mask>"
    ]
    data["added_tokens"].sort(key=lambda added: added["id"])
    data["model"]["vocab"] = moved | {"<bos>": bos, "<eos>": eos}
    data["post_processor"] = None
    return Tokenizer(tokenizers.Tokenizer.from_str(json.dumps(data)))
