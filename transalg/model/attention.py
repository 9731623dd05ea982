"""Attention kernels: dense, banded, by relative position. Queries, keys and values are B × H × ℓ × d."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

MANY = 128  # heads of all rows, from which on `decoding` is faster


def dense(q: Tensor, k: Tensor, v: Tensor, *, causal: bool, mask: Tensor | None = None, dropout: float = 0.0) -> Tensor:
    """Algorithm 4 for many heads. A mask has a row for every query here, a column for every key, and is True where one sees the other."""
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=dropout, is_causal=causal)


def decoding(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
    """The same for the few newest tokens of many rows: two products, which on CPUs are faster than the kernel for long sequences."""
    if q.shape[2] > 8 or q.shape[0] * q.shape[1] < MANY or q.device.type != "cpu":
        return dense(q, k, v, causal=False, mask=mask)
    S = (q / math.sqrt(q.shape[-1])) @ k.mT
    return torch.softmax(S if mask is None else S.masked_fill_(~mask, -math.inf), dim=-1) @ v


def banded(q: Tensor, k: Tensor, v: Tensor, w: int, *, dropout: float = 0.0) -> Tensor:
    """Every query sees itself and the w − 1 tokens before it, in time and memory that grow as ℓ·w.

    The queries are cut into blocks. A block of b queries sees at most the b keys of its own and the w − 1 before them, so all blocks
    together are one dense attention of ℓ/b · b queries to b + w − 1 keys each, under one mask.
    """
    B, H, ell, d = q.shape
    if ell <= w:
        return dense(q, k, v, causal=True, dropout=dropout)
    b = block(w)
    blocks = -(-ell // b)
    behind = blocks * b - ell
    q = F.pad(q, (0, 0, 0, behind)).reshape(B * H, blocks, b, d)
    # keys[n] are those at positions n·b − (w − 1) … n·b + b − 1; the first blocks' positions below 0 are zeros that the mask hides
    k, v = (F.pad(each, (0, 0, w - 1, behind)).flatten(0, 1).unfold(1, b + w - 1, b).mT for each in (k, v))
    t_x, t_z = torch.arange(b, device=q.device)[:, None], torch.arange(1 - w, b, device=q.device)
    band = (t_z <= t_x) & (t_z > t_x - w)
    early = torch.arange(blocks, device=q.device)[:, None, None] * b + t_z >= 0
    y = dense(q, k, v, causal=False, mask=(band & early)[None], dropout=dropout)
    return y.reshape(B, H, blocks * b, v.shape[-1])[:, :, :ell]


def block(w: int) -> int:
    """How many queries a block has: fewer waste less of the mask, more make better matrix products."""
    return max(16, w // 2)


def relative(q: Tensor, k: Tensor, v: Tensor, R: Tensor, u: Tensor, w: Tensor, *, dropout: float = 0.0) -> Tensor:
    """Transformer-XL's attention: S[t_z,t_x] = K[:,t_z]ᵀ(Q[:,t_x] + u) + R[:,t_x − t_z]ᵀ(Q[:,t_x] + w), for t_z ≤ t_x.

    R is H × ℓ × d_attn, by distance. Multiplied with every distance at once, then each query's row is moved so that distances
    become positions.
    """
    ell = q.shape[2]
    by_distance = (q + w[:, None]) @ R.flip(1).mT  # distances ℓ−1, …, 0
    return scored(q + u[:, None], k, v, shift(by_distance), _causal(ell, q.device), dropout=dropout)


def shift(by_distance: Tensor) -> Tensor:
    """From … × n × m, in row i the distances m−1, …, 0, to … × n × m, in row i column j the distance of j from query m − n + i.

    A zero before each row, and the whole cut anew into rows one shorter: row i moves by n − 1 − i. What wraps around lies in the future.
    """
    *many, n, m = by_distance.shape
    return F.pad(by_distance, (1, 0)).view(*many, m + 1, n)[..., 1:, :].reshape(*many, n, m)


def scored(q: Tensor, k: Tensor, v: Tensor, bias: Tensor, mask: Tensor, *, dropout: float = 0.0) -> Tensor:
    """Attention whose scores get a bias before they are divided by √d_attn."""
    bias = (bias / math.sqrt(q.shape[-1])).masked_fill(~mask, -math.inf)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=bias, dropout_p=dropout)


def _causal(ell: int, device: torch.device) -> Tensor:
    return torch.ones(ell, ell, dtype=torch.bool, device=device).tril()
