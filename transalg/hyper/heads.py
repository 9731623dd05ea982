"""Attention heads: how many, how wide; the parameters of an attention, what the key/value cache holds, what heads cost.

`model/heads.py` splits and merges them; `MHAttention` of `formal/components.py` is their statement.
"""

from dataclasses import dataclass

Shapes = dict[str, tuple[int, ...]]  # of parameters, by name


@dataclass(frozen=True)
class Biases:
    """Which projections of a layer have a bias."""

    doc: str
    attention: str  # q, k, v, o
    mlp: bool


BIASES = {
    "all": Biases("every projection has one, as in the paper", "qkvo", mlp=True),
    "qkv": Biases("those of queries, keys and values alone (Qwen 2)", "qkv", mlp=False),
    "none": Biases("no projection of a layer has one (Llama)", "", mlp=False),
}


def linear(name: str, rows: int, columns: int, *, bias: bool = True) -> Shapes:
    """A matrix and its bias, if it has one: W_o has b_o."""
    return {name: (rows, columns)} | ({"b_".join(name.rsplit("W_", 1)): (rows,)} if bias else {})


@dataclass(frozen=True)
class Heads:
    """H heads with queries of width d_attn, which share H_kv heads of keys of that width and values of width d_mid."""

    H: int
    d_attn: int
    d_mid: int
    H_kv: int
    bias: str = "all"  # which projections have one, see BIASES

    def self_shapes(self, d_e: int) -> Shapes:
        """Self-attention: W_q, W_k and W_v of all heads are one matrix."""
        return linear("W_qkv", sum(self.matrices["qkv"].values()), d_e, bias=self._has("q")) | self._out(d_e)

    def cross_shapes(self, d_e: int) -> Shapes:
        """Attention to another sequence, whose keys and values come from one matrix."""
        kv = linear("W_kv", sum(self.matrices["kv"].values()), d_e, bias=self._has("k"))
        return linear("W_q", self.H * self.d_attn, d_e, bias=self._has("q")) | kv | self._out(d_e)

    def _out(self, d_e: int) -> Shapes:
        return linear("W_o", d_e, self.H * self.d_mid, bias=self._has("o"))

    def _has(self, projection: str) -> bool:
        return projection in BIASES[self.bias].attention

    @property
    def counts(self) -> dict[str, int]:
        """How many heads there are of queries, of keys and of values."""
        return {"q": self.H, "k": self.H_kv, "v": self.H_kv}

    @property
    def matrices(self) -> dict[str, dict[str, int]]:
        """The rows of the matrices that one of the engine's is made of: 𝒲_qkv is W_q above W_k above W_v."""
        q, k, v = {"q": self.H * self.d_attn}, {"k": self.H_kv * self.d_attn}, {"v": self.H_kv * self.d_mid}
        return {"qkv": q | k | v, "kv": k | v, "q": q}

    @property
    def cached(self) -> int:
        """Numbers that the key/value cache holds of one token in one layer."""
        return self.H_kv * (self.d_attn + self.d_mid)

    def flops(self, keys: float) -> float:
        """Of the scores and the sums of one token that sees so many keys."""
        return 2 * keys * self.H * (self.d_attn + self.d_mid)

    def activations(self, ell: int, *, dropout: bool) -> int:
        """Numbers that a training step keeps of one token: queries, keys, values, the output, and a logarithm for each head.

        With dropout CPUs have no fused kernel: the weights, which of them are dropped, and what is left, are kept as well.
        """
        return sum(self.matrices["qkv"].values()) + self.H * self.d_mid + self.H + (3 * self.H * ell if dropout else 0)
