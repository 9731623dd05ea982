"""Small modules as people write them, right and with the bugs that public implementations have; and the θ that their parameters are."""

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

N_V, ELL_MAX, D_E, D_MLP, H = 23, 11, 6, 13, 2
SEPARATOR = 17  # a token


class Norm(nn.Module):
    def __init__(self, bug: str = "", rows: int = 0) -> None:
        super().__init__()
        shape = (rows, D_E) if rows else (D_E,)
        self.bug, self.gamma, self.beta = bug, nn.Parameter(torch.ones(shape)), nn.Parameter(torch.zeros(shape))

    def forward(self, X: Tensor) -> Tensor:
        over = (1, 2) if self.bug == "norm over the matrix" else 0 if self.bug == "norm over the batch" else 2
        v = X.var(over, keepdim=True, unbiased=self.bug == "unbiased variance")
        return (X - X.mean(over, keepdim=True)) / (v + 1e-5).sqrt() * self.gamma + self.beta


class Attention(nn.Module):
    def __init__(self, bug: str = "") -> None:
        super().__init__()
        self.bug = bug
        self.q, self.k, self.v, self.o = (nn.Linear(D_E, D_E) for _ in range(4))

    def forward(self, X: Tensor, Z: Tensor, mask: Tensor) -> Tensor:
        """mask[query, key]"""
        q, k, v = (part.unflatten(-1, (H, -1)).transpose(1, 2) for part in (self.q(X), self.k(Z), self.v(Z)))
        S = q @ k.mT / (1 if self.bug == "no scale" else math.sqrt(q.shape[-1]))
        if self.bug == "softmax over features":
            return self.o((S.masked_fill(~mask, 0) @ v).softmax(-1).transpose(1, 2).flatten(2))
        A = S.masked_fill(~mask, -1e30).softmax(-2 if self.bug == "softmax over queries" else -1)
        y = torch.einsum("bhqk,bhvd->bhqd", A, v) if self.bug == "weights cancel" else A @ v
        return self.o(y.transpose(1, 2).flatten(2))


class MLP(nn.Sequential):
    def __init__(self, activation: nn.Module) -> None:
        super().__init__(nn.Linear(D_E, D_MLP), activation, nn.Linear(D_MLP, D_E))


class Block(nn.Module):
    """Norms before, as in Algorithms 9 and 10."""

    def __init__(self, bug: str) -> None:
        super().__init__()
        rows = ELL_MAX if bug == "gamma by position" else 0
        self.attention, self.mlp = Attention(bug), MLP(nn.GELU())
        self.norm1, self.norm2, self.bug = Norm(bug, rows), Norm(bug, rows), bug

    def forward(self, X: Tensor, mask: Tensor) -> Tensor:
        X_tilde = self.norm1(X)
        if self.bug == "stream overwritten":
            X = X_tilde
        X = X + self.attention(X_tilde, X_tilde, mask)
        if self.bug == "residual twice":
            return X + X + self.mlp(self.norm2(X))
        if self.bug == "norm of the wrong tensor":
            return X + self.mlp(self.norm2(X_tilde))
        if self.bug == "detached":
            return X + self.mlp(self.norm2(X).detach())
        return X + self.mlp(self.norm2(X))


class Decoder(nn.Module):
    """Algorithm 10, or with causal=False Algorithm 9 without its last hidden layer."""

    def __init__(self, bug: str = "", L: int = 2, causal: bool = True) -> None:
        super().__init__()
        self.bug, self.causal = bug, causal
        self.tokens, self.positions = nn.Embedding(N_V, D_E), nn.Parameter(torch.randn(ELL_MAX, D_E))
        self.blocks = nn.ModuleList(Block(bug) for _ in range(L))
        self.norm, self.unembedding = Norm(bug), nn.Linear(D_E, N_V, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        ell = x.shape[1]
        mask = torch.ones(ell, ell, dtype=torch.bool)
        if self.causal and self.bug != "no mask":
            mask = {"transposed": mask.triu(), "inverted": ~mask.tril()}.get(self.bug, mask.tril())
        X = self.tokens(x)
        if self.bug == "separator not embedded":
            X[x == SEPARATOR] = 0
        if self.bug != "no positions":
            X = X + self.positions[:ell]
        if self.bug == "dropout on":
            X = F.dropout(X, 0.1, training=True)
        for block in self.blocks:
            X = block(X, mask)
        if self.bug == "next token leaks":
            X = X + F.pad(self.tokens(x[:, 1:]), (0, 0, 0, 1))
        logits = self.unembedding(self.norm(X))
        if self.bug == "softmax over positions":
            return logits.softmax(1)
        if self.bug == "second softmax":
            return (logits.softmax(-1) / 1.0).softmax(-1)
        return logits.softmax(-1) if self.bug == "returns P" else logits

    def step(self, x: Tensor, past: Tensor | None) -> tuple[Tensor, Tensor]:
        """Decoding that remembers the tokens; with a bug, as if each new one stood at the first position."""
        past = x if past is None else torch.cat([past, x], 1)
        return (self(x) if self.bug == "first position in decoding" else self(past)[:, -1:]), past


def step(module: Decoder, x: Tensor, state: Tensor | None) -> tuple[Tensor, Tensor]:
    return module.step(x, state)


class CrossBlock(nn.Module):
    """A layer of Algorithm 8's decoder, norms after."""

    def __init__(self, bug: str) -> None:
        super().__init__()
        self.own = Attention()
        self.cross = self.own if bug == "shared attention" else Attention()
        self.mlp, self.norm3, self.norm4, self.norm5 = MLP(nn.ReLU()), Norm(), Norm(), Norm()

    def forward(self, X: Tensor, Z: Tensor, mask: Tensor) -> Tensor:
        X = self.norm3(X + self.own(X, X, mask))
        X = self.norm4(X + self.cross(X, Z, torch.ones(X.shape[1], Z.shape[1], dtype=torch.bool)))
        return self.norm5(X + self.mlp(X))


class EncoderBlock(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention, self.mlp, self.norm1, self.norm2 = Attention(), MLP(nn.ReLU()), Norm(), Norm()

    def forward(self, Z: Tensor) -> Tensor:
        Z = self.norm1(Z + self.attention(Z, Z, torch.ones(Z.shape[1], Z.shape[1], dtype=torch.bool)))
        return self.norm2(Z + self.mlp(Z))


class EncoderDecoder(nn.Module):
    """Algorithm 8."""

    def __init__(self, bug: str = "", L_enc: int = 1, L_dec: int = 2) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(N_V, D_E), nn.Parameter(torch.randn(ELL_MAX, D_E))
        self.enc = nn.ModuleList(EncoderBlock() for _ in range(L_enc))
        self.dec = nn.ModuleList(CrossBlock(bug) for _ in range(L_dec))
        self.unembedding = nn.Linear(D_E, N_V, bias=False)
        self.used = L_enc if bug == "decoder sized by L_enc" else L_dec

    def forward(self, z: Tensor, x: Tensor) -> Tensor:
        Z, X = self.tokens(z) + self.positions[: z.shape[1]], self.tokens(x) + self.positions[: x.shape[1]]
        for block in self.enc:
            Z = block(Z)
        for block in self.dec[: self.used]:
            X = block(X, Z, torch.ones(X.shape[1], X.shape[1], dtype=torch.bool).tril())
        return self.unembedding(X)


# θ ---------------------------------------------------------------------------------------------------------------------


def _attention(named: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    heads = {
        f"{kind}_{one}": named[f"{prefix}.{one}.{of}"].unflatten(0, (H, -1))
        for one in "qkv"
        for kind, of in (("W", "weight"), ("b", "bias"))
    }
    return heads | {"W_o": named[f"{prefix}.o.weight"], "b_o": named[f"{prefix}.o.bias"]}


def _layer(
    named: dict[str, Tensor], theirs: str, ours: str, attentions: dict[str, str], norms: tuple[int, ...], mlp: int
) -> dict[str, Tensor]:
    parts = {
        f"{ours}.{symbol}.{name}": part for symbol, one in attentions.items() for name, part in _attention(named, f"{theirs}.{one}").items()
    }
    parts |= {f"{ours}.{symbol}{i}": named[f"{theirs}.norm{i}.{symbol}"] for i in norms for symbol in ("gamma", "beta")}
    for i, at in ((mlp, 0), (mlp + 1, 2)):
        parts |= {f"{ours}.W_mlp{i}": named[f"{theirs}.mlp.{at}.weight"], f"{ours}.b_mlp{i}": named[f"{theirs}.mlp.{at}.bias"]}
    return parts


def theta(named: dict[str, Tensor]) -> dict[str, Tensor]:
    """θ of any module above."""
    parts: dict[str, Any] = {"W_e": named["tokens.weight"].T, "W_p": named["positions"].T, "W_u": named["unembedding.weight"]}
    for name in named:
        stack, _, rest = name.partition(".")
        l = rest.partition(".")[0]
        if stack == "blocks":
            parts |= _layer(named, f"blocks.{l}", f"layers.{l}", {"W": "attention"}, (1, 2), 1)
        elif stack == "enc":
            parts |= _layer(named, f"enc.{l}", f"enc.{l}", {"W": "attention"}, (1, 2), 1)
        elif stack == "dec":
            parts |= _layer(named, f"dec.{l}", f"dec.{l}", {"W_dec": "own", "W_ed": "cross"}, (3, 4, 5), 3)
        elif stack == "norm":
            parts[rest] = named[name]
    return parts
