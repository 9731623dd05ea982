"""Your own attention variant, checked: state it formally, write it as a fast module, and let `verify.check` compare the two.

The variant divides scores by √d_attn and by a learned temperature of each head. Its formal statement is Algorithm 5 with one more
parameter, and Algorithm 10 takes it as a component.

python examples/attention_variant.py
"""

from dataclasses import dataclass, fields

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from transalg.formal import DTheta, DTransformer, Layer, MHAttention, MHAttentionTheta
from transalg.verify import Findings, check

N_V, ELL_MAX, L, H, D_E, D_MLP = 23, 11, 2, 2, 10, 13


# The formal statement ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, repr=False)
class TemperedTheta(MHAttentionTheta):
    """𝒲 with a temperature for each head."""

    log_tau: Float[Tensor, "H"]


@dataclass(frozen=True, eq=False, repr=False)
class TemperedLayer(Layer):
    W: TemperedTheta


@dataclass(frozen=True, eq=False, repr=False)
class TemperedDTheta(DTheta):
    layers: tuple[TemperedLayer, ...]


def TemperedMHAttention(X: Tensor, Z: Tensor, W: TemperedTheta, Mask: Tensor) -> Tensor:
    """Algorithm 5 with queries divided by τ_h: softmax(KᵀQ / (τ_h √d_attn))."""
    # W_q ← W_q / τ_h, b_q ← b_q / τ_h; then the paper's lines
    plain = {each.name: getattr(W, each.name) for each in fields(MHAttentionTheta)}
    tau = W.log_tau.exp()
    return MHAttention(X, Z, MHAttentionTheta(**plain | {"W_q": W.W_q / tau[:, None, None], "b_q": W.b_q / tau[:, None]}), Mask)


def formal(x: Tensor, theta: TemperedDTheta) -> Tensor:
    return DTransformer(x, theta, MHAttention=TemperedMHAttention)


# The module -------------------------------------------------------------------------------------------------------------


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(D_E), nn.LayerNorm(D_E)
        self.qkv, self.o, self.log_tau = nn.Linear(D_E, 3 * D_E), nn.Linear(D_E, D_E), nn.Parameter(torch.zeros(H))
        self.mlp = nn.Sequential(nn.Linear(D_E, D_MLP), nn.GELU(), nn.Linear(D_MLP, D_E))

    def forward(self, X: Tensor) -> Tensor:
        q, k, v = (part.unflatten(-1, (H, -1)).transpose(1, 2) for part in self.qkv(self.norm1(X)).chunk(3, dim=-1))
        y = F.scaled_dot_product_attention(q / self.log_tau.exp()[:, None, None], k, v, is_causal=True)
        X = X + self.o(y.transpose(1, 2).flatten(2))
        return X + self.mlp(self.norm2(X))


class Tempered(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(N_V, D_E), nn.Embedding(ELL_MAX, D_E)
        self.blocks = nn.ModuleList(Block() for _ in range(L))
        self.norm, self.unembedding = nn.LayerNorm(D_E), nn.Linear(D_E, N_V, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        X = self.tokens(x) + self.positions(torch.arange(x.shape[1]))
        for block in self.blocks:
            X = block(X)
        return self.unembedding(self.norm(X))


def theta(named: dict[str, Tensor]) -> TemperedDTheta:
    """The module's parameters as θ."""

    def layer(l: int) -> TemperedLayer:
        of = {name.removeprefix(f"blocks.{l}."): part for name, part in named.items() if name.startswith(f"blocks.{l}.")}
        (W_q, W_k, W_v), (b_q, b_k, b_v) = (of[f"qkv.{one}"].unflatten(0, (3, H, -1)) for one in ("weight", "bias"))
        W = TemperedTheta(W_q, b_q, W_k, b_k, W_v, b_v, of["o.weight"], of["o.bias"], of["log_tau"])
        norms = (of["norm1.weight"], of["norm1.bias"], of["norm2.weight"], of["norm2.bias"])
        return TemperedLayer(W, *norms, of["mlp.0.weight"], of["mlp.0.bias"], of["mlp.2.weight"], of["mlp.2.bias"])

    ends = (named["norm.weight"], named["norm.bias"], named["unembedding.weight"])
    return TemperedDTheta(named["tokens.weight"].T, named["positions.weight"].T, tuple(map(layer, range(L))), *ends)


def main(module: nn.Module | None = None) -> Findings:
    findings = check(module or Tempered(), like="DTransformer", theta=theta, formal=formal)
    print(findings)
    return findings


if __name__ == "__main__":
    main()
