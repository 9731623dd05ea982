"""Kernels for X Wᵀ + b with few rows of X: packed weights, weights in blocks, per-channel quantisation to 8 bits.

Decoding a token reads every weight once and computes little with it, so its time is that of reading them from memory.
"""

import warnings
from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from transalg.cpu import pages
from transalg.cpu.fingerprint import made_of, version
from transalg.model.mlp import MLPS

BLOCK = 16  # rows of W: as many as one register or two hold numbers
MANY_ROWS = 256  # from which on torch's own product is faster than that of W with one row
LEAST_STEP = 6.1e-5  # of quantised X, below which torch's kernel does not go
LARGEST = 63  # a product of 8 by 8 bits adds pairs in 16 on CPUs without VNNI: 2 · 255 · 63 is what they hold
# the operators themselves: what torch.ops puts around them takes longer than a small product
DYNAMIC = torch.ops.quantized.linear_dynamic.default._op
WHOLE = torch.ops.quantized.linear_with_input_q_dq_qweight_dq_output_fp32.default._op
ONEDNN = torch.ops.mkldnn._linear_pointwise.default._op

Activation = Callable[[Tensor], Tensor]
FUSED = {  # the activations that oneDNN applies itself: its name and its variant
    MLPS["ReLU"].activation: ("relu", ""),
    MLPS["GELU"].activation: ("gelu", "none"),
    MLPS["tanh_GELU"].activation: ("gelu", "tanh"),
}


class LinearKernel(nn.Module):
    """A matrix W with its b in another form: as a kernel likes it, or in fewer bits."""

    def changed(self) -> bool:
        """Whether W has changed since this form of it was made, as far as torch counts changes."""
        return False

    def multiply(self, X: Tensor) -> Tensor:
        """X Wᵀ + b."""
        raise NotImplementedError

    def activated(self, X: Tensor, activation: Activation) -> Tensor:
        """The activation of X Wᵀ + b."""
        return activation(self.multiply(X))

    def one_row(self) -> Callable[[Tensor], Tensor]:
        """`multiply` for one row."""
        return self.multiply

    def one_row_into(self) -> Callable[[Tensor, Tensor], object]:
        """The same, into memory that exists."""
        multiply = self.one_row()
        return lambda X, Y: Y.copy_(multiply(X))

    def rows(self, ids: Tensor) -> Tensor:
        """Some rows of W, as an embedding takes them."""
        raise NotImplementedError

    def matrix(self) -> Tensor:
        """W as it acts."""
        raise NotImplementedError


class Int8Linear(LinearKernel):
    """W[i,j] ≈ s[i] n[i,j] with whole numbers |n[i,j]| ≤ 63, s[i] = max |W[i,:]| / 63; a row x of what it multiplies likewise, in 255 steps.

    What a row gives is the same alone as among others, on every device: x has the same whole numbers.
    """

    s: Tensor
    n: Tensor | None
    sums: Tensor  # of s n along the rows

    def __init__(self, W: Tensor, b: Tensor | None = None, *, table: bool = False) -> None:
        super().__init__()
        self.b = b
        s = W.abs().amax(dim=1) / LARGEST
        n = (W / torch.where(s == 0, 1, s)[:, None]).round().to(torch.int8)
        self.register_buffer("s", s)
        self.register_buffer("sums", n.sum(dim=1) * s, persistent=False)
        self.shape = tuple(W.shape)
        self.packed: object = None
        if s.device.type == "cpu" and s.dtype == torch.float32 and "fbgemm" in torch.backends.quantized.supported_engines:
            self.packed = _quantized(n, s)
        self.register_buffer("n", n if table or self.packed is None else None)  # an embedding looks up rows

    @property
    def nbytes(self) -> int:
        return self.s.nbytes + self.shape[0] * self.shape[1] * ((self.n is not None) + (self.packed is not None))

    def multiply(self, X: Tensor) -> Tensor:
        if self.packed is not None and X.size(0) == 1:
            Y: Tensor = DYNAMIC(X, self.packed)
            return Y if self.b is None else Y.add_(self.b)
        m, zero, step = _in_steps(X)
        if self.packed is not None:
            Y = torch.addcmul(WHOLE(m, 1.0, 0, self.packed), zero, self.sums, value=-1)
        else:
            Y = F.linear(m - zero, self.numbers().to(X.dtype)) * self.s
        return torch.addcmul(self.b, Y, step) if self.b is not None else Y * step

    def one_row(self) -> Callable[[Tensor], Tensor]:
        packed = self.packed
        return self.multiply if packed is None or self.b is not None else lambda X: DYNAMIC(X, packed)

    def numbers(self) -> Tensor:
        """n."""
        if self.n is not None:
            return self.n
        unpacked: Tensor = torch.ops.quantized.linear_unpack(self.packed)[0].int_repr()
        return unpacked

    def rows(self, ids: Tensor) -> Tensor:
        return F.embedding(ids, self.numbers()).to(self.s.dtype) * self.s[ids][..., None]

    def matrix(self) -> Tensor:
        return self.numbers().to(self.s.dtype) * self.s[:, None]


def _in_steps(X: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Of each row x, whole numbers m from 0 to 255, the one that stands for 0, and the step: x ≈ (m − zero) step. Those that `DYNAMIC` has."""
    least, most = X.amin(dim=1, keepdim=True).clamp_(max=0), X.amax(dim=1, keepdim=True).clamp_(min=0)
    between = ((most.double() - least) / 255).float()
    zero = (least / between.clamp(min=1e-38).double()).round_().neg_().to(X.dtype)
    step = between.clamp(min=LEAST_STEP)
    m = torch.addcmul(zero.double(), X.double(), (1 / step).double()).float()  # rounded once, as by the kernel
    return m.round_().clamp_(0, 255).to(X.dtype), zero, step.to(X.dtype)


def _quantized(n: Tensor, s: Tensor) -> object:
    """As FBGEMM's kernels take it."""
    engine = torch.backends.quantized.engine
    torch.backends.quantized.engine = "fbgemm"
    try:
        scales = torch.where(s == 0, 1, s).double()
        zeros = torch.zeros(len(s), dtype=torch.long)
        with warnings.catch_warnings():  # these tensors will leave torch one day; torch is pinned, and has nothing else as fast on CPUs
            warnings.simplefilter("ignore")
            return torch.ops.quantized.linear_prepack(torch._make_per_channel_quantized_tensor(n, scales, zeros, 0), None)
    finally:
        torch.backends.quantized.engine = engine


class FloatLinear(LinearKernel):
    """W as it is, with another way to multiply few rows."""

    W: Tensor

    def __init__(self, W: Tensor, b: Tensor | None = None, *, table: bool = False) -> None:
        super().__init__()
        self.register_buffer("W", W.detach().contiguous(), persistent=False)
        self.b = b
        self.version = version(self.W)

    def changed(self) -> bool:
        return version(self.W) != self.version

    def rows(self, ids: Tensor) -> Tensor:
        return F.embedding(ids, self.W)

    def matrix(self) -> Tensor:
        return self.W


class PackedLinear(FloatLinear):
    """For several rows: W in the order in which oneDNN's kernels read it."""

    def __init__(self, W: Tensor, b: Tensor | None = None, *, table: bool = False) -> None:
        super().__init__(W, b)
        self.packed = made_of(W, _packed)

    def multiply(self, X: Tensor) -> Tensor:
        Y: Tensor = ONEDNN(X, self.packed, self.b, "none", [], "")
        return Y

    def activated(self, X: Tensor, activation: Activation) -> Tensor:
        if activation not in FUSED:
            return super().activated(X, activation)
        name, variant = FUSED[activation]
        Y: Tensor = ONEDNN(X, self.packed, self.b, name, [], variant)
        return Y


class BlockedLinear(FloatLinear):
    """For one row: W in blocks of 16 rows, each transposed, so that a product reads memory from its beginning to its end.

    A matrix by a vector as it lies reads several rows side by side, at half the speed or less.
    """

    def __init__(self, W: Tensor, b: Tensor | None = None, *, table: bool = False) -> None:
        super().__init__(W, b)
        self.blocks = made_of(W, _blocked)
        biases = None if b is None else _padded(b[:, None]).view(-1, 1, BLOCK)
        self.product: Callable[[Tensor, Tensor], Tensor] = torch.bmm if biases is None else partial(torch.baddbmm, biases)

    def multiply(self, X: Tensor) -> Tensor:
        if X.size(0) == 1:
            return self.one_row()(X)
        if X.size(0) >= MANY_ROWS:
            return F.linear(X, self.W, self.b)
        Y = torch.mm(self.W, X.T).T  # a prompt: W Xᵀ is faster than X Wᵀ
        return torch.add(Y, 0 if self.b is None else self.b, out=X.new_empty(Y.shape))

    def one_row(self) -> Callable[[Tensor], Tensor]:
        product, blocks, count, m = self.product, self.blocks, len(self.blocks), len(self.W)
        if m % BLOCK:
            return lambda X: product(X.expand(count, 1, -1), blocks).view(1, -1)[:, :m]
        return lambda X: product(X.expand(count, 1, -1), blocks).view(1, -1)


def _packed(W: Tensor) -> Tensor:
    """W in oneDNN's order, one that suits 2 rows as well as 200."""
    packed: Tensor = torch.ops.mkldnn._reorder_linear_weight(W, 64)
    return packed


def _blocked(W: Tensor) -> Tensor:
    """⌈m/16⌉ × n × 16: blocks of rows of W, transposed; after the last row zeros."""
    transposed = _padded(W).view(-1, BLOCK, W.shape[1]).mT
    return pages.empty(transposed.shape, W.dtype).copy_(transposed)


def _padded(W: Tensor) -> Tensor:
    """W with rows of zeros up to a multiple of 16."""
    return F.pad(W, (0, 0, 0, -len(W) % BLOCK)) if len(W) % BLOCK else W
