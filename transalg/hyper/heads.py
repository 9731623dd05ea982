"""Attention heads: how many, how wide; the parameters of an attention, what the key/value cache holds, what heads cost.

`model/heads.py` splits and merges them; `MHAttention` of `formal/components.py` is their statement.
"""

from dataclasses import dataclass

Shapes = dict[str, tuple[int, ...]]  # of parameters, by name


def linear(name: str, rows: int, columns: int) -> Shapes:
    """A matrix and its bias: W_o has b_o."""
    return {name: (rows, columns), "b_".join(name.rsplit("W_", 1)): (rows,)}


@dataclass(frozen=True)
class Heads:
    """H heads with queries and keys of width d_attn and values of width d_mid."""

    H: int
    d_attn: int
    d_mid: int

    def self_shapes(self, d_e: int) -> Shapes:
        """Self-attention: W_q, W_k and W_v of all heads are one matrix."""
        return linear("W_qkv", self.H * (2 * self.d_attn + self.d_mid), d_e) | linear("W_o", d_e, self.H * self.d_mid)

    def cross_shapes(self, d_e: int) -> Shapes:
        """Attention to another sequence, whose keys and values come from one matrix."""
        kv = linear("W_kv", self.H * (self.d_attn + self.d_mid), d_e)
        return linear("W_q", self.H * self.d_attn, d_e) | kv | linear("W_o", d_e, self.H * self.d_mid)

    @property
    def matrices(self) -> dict[str, tuple[int, ...]]:
        """The rows of the matrices that one of the engine's is made of: 𝒲_qkv is W_q above W_k above W_v."""
        q, k, v = self.H * self.d_attn, self.H * self.d_attn, self.H * self.d_mid
        return {"qkv": (q, k, v), "kv": (k, v), "q": (q,)}

    @property
    def cached(self) -> int:
        """Numbers that the key/value cache holds of one token in one layer."""
        return self.H * (self.d_attn + self.d_mid)

    def flops(self, keys: float) -> float:
        """Of the scores and the sums of one token that sees so many keys."""
        return 2 * keys * self.H * (self.d_attn + self.d_mid)

    def activations(self, ell: int, *, dropout: bool) -> int:
        """Numbers that a training step keeps of one token: queries, keys, values, the output, and a logarithm for each head.

        With dropout CPUs have no fused kernel: the weights, which of them are dropped, and what is left, are kept as well.
        """
        return self.H * (2 * self.d_attn + self.d_mid) + self.H * self.d_mid + self.H + (3 * self.H * ell if dropout else 0)
