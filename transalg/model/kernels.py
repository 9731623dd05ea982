"""Attention kernels: dense, banded, with a bias on the scores. Queries, keys and values are B × H × ℓ × d."""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

MANY_HEADS = 128  # of all rows, from which on `decoding` is faster

Q = Float[Tensor, "B H ell_q d_attn"]
Y = Float[Tensor, "B H ell_q d_mid"]
GroupK = Float[Tensor, "B H_kv ell_k d_attn"]  # of H_kv heads that groups of the H heads share
GroupV = Float[Tensor, "B H_kv ell_k d_mid"]
Visible = Bool[Tensor, "..."]  # which key (last) each query (last but one) sees; broadcast over the rest


def dense(q: Q, k: GroupK, v: GroupV, *, causal: bool, mask: Visible | None = None, dropout: float = 0.0) -> Y:
    """Algorithm 4 for many heads. A mask has a row for every query here, a column for every key, and is True where one sees the other."""
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=dropout, is_causal=causal, enable_gqa=k.shape[1] != q.shape[1])


def decoding(q: Q, k: GroupK, v: GroupV, mask: Visible | None) -> Y:
    """The same for the few newest tokens of many rows: two products, which on CPUs are faster than the kernel for long sequences.

    Heads that share their keys and values are as many queries of one head, so that nothing is copied.
    """
    H, width = q.shape[1:3]
    if k.shape[1] != H:
        of_group = q.reshape(q.shape[0], k.shape[1], -1, q.shape[3])
        mask = mask if mask is None or mask.shape[-2] == 1 else mask.repeat(*[1] * (mask.ndim - 2), H // k.shape[1], 1)
        return decoding(of_group, k, v, mask).reshape(q.shape[0], H, width, -1)
    if q.shape[2] > 8 or q.shape[0] * q.shape[1] < MANY_HEADS or q.device.type != "cpu":
        return dense(q, k, v, causal=False, mask=mask)
    S = (q / math.sqrt(q.shape[-1])) @ k.mT
    return torch.softmax(S if mask is None else S.masked_fill_(~mask, -math.inf), dim=-1) @ v


def banded(q: Q, k: GroupK, v: GroupV, w: int, *, dropout: float = 0.0) -> Y:
    """Every query sees itself and the w − 1 tokens before it, in time and memory that grow as ℓ·w.

    The queries are cut into blocks. A block of b queries sees at most the b keys of its own and the w − 1 before them, so all blocks
    together are one dense attention of ℓ/b · b queries to b + w − 1 keys each, under one mask.
    """
    B, H, ell, d = q.shape
    if ell <= w:
        return dense(q, k, v, causal=True, dropout=dropout)
    k, v = repeated(k, H), repeated(v, H)
    b = block(w)
    blocks = -(-ell // b)
    padding = blocks * b - ell
    q = F.pad(q, (0, 0, 0, padding)).reshape(B * H, blocks, b, d)
    # keys[n] are those at positions n·b − (w − 1) … n·b + b − 1; the first blocks' positions below 0 are zeros that the mask hides
    k, v = (F.pad(each, (0, 0, w - 1, padding)).flatten(0, 1).unfold(1, b + w - 1, b).mT for each in (k, v))
    t_x, t_z = torch.arange(b, device=q.device)[:, None], torch.arange(1 - w, b, device=q.device)
    band = (t_z <= t_x) & (t_z > t_x - w)
    early = torch.arange(blocks, device=q.device)[:, None, None] * b + t_z >= 0
    y = dense(q, k, v, causal=False, mask=(band & early)[None], dropout=dropout)
    return y.reshape(B, H, blocks * b, v.shape[-1])[:, :, :ell]


def repeated(part: Float[Tensor, "B H_kv ell d"], H: int) -> Float[Tensor, "B H ell d"]:
    """Keys or values once for each of the H heads that look at them."""
    return part if part.shape[1] == H else part.repeat_interleave(H // part.shape[1], dim=1)


def block(w: int) -> int:
    """How many queries a block has: fewer waste less of the mask, more make better matrix products."""
    return max(16, w // 2)


def relative(
    q: Q,
    k: GroupK,
    v: GroupV,
    R: Float[Tensor, "H ell_k d_attn"],
    u: Float[Tensor, "H d_attn"],
    w: Float[Tensor, "H d_attn"],
    *,
    dropout: float = 0.0,
) -> Y:
    """Transformer-XL's attention: S[t_z,t_x] = K[:,t_z]ᵀ(Q[:,t_x] + u) + R[:,t_x − t_z]ᵀ(Q[:,t_x] + w), for t_z ≤ t_x.

    R is H × ℓ × d_attn, by distance. Multiplied with every distance at once, then each query's row is moved so that distances
    become positions.
    """
    ell = q.shape[2]
    by_distance = (q + w[:, None]) @ R.flip(1).mT  # distances ℓ−1, …, 0
    return scored(q + u[:, None], k, v, shift(by_distance), _causal(ell, q.device), dropout=dropout)


def shift(by_distance: Float[Tensor, "*many n m"]) -> Float[Tensor, "*many n m"]:
    """From … × n × m, in row i the distances m−1, …, 0, to … × n × m, in row i column j the distance of j from query m − n + i.

    A zero before each row, then the whole cut into rows one shorter: row i moves by n − 1 − i. What wraps around lies in the future.
    """
    *many, n, m = by_distance.shape
    return F.pad(by_distance, (1, 0)).view(*many, m + 1, n)[..., 1:, :].reshape(*many, n, m)


def scored(q: Q, k: GroupK, v: GroupV, bias: Float[Tensor, "..."], mask: Visible, *, dropout: float = 0.0) -> Y:
    """Attention whose scores get a bias before they are divided by √d_attn."""
    bias = (bias / math.sqrt(q.shape[-1])).masked_fill(~mask, -math.inf)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=bias, dropout_p=dropout, enable_gqa=k.shape[1] != q.shape[1])


def _causal(ell: int, device: torch.device) -> Visible:
    return torch.ones(ell, ell, dtype=torch.bool, device=device).tril()
