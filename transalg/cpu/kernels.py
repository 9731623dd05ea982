"""Matrices in the form in which a few tokens at a time are multiplied fastest: packed for the CPU's kernels, or in 8 bits.

Decoding a token reads every weight once and computes little with it, so its time is that of reading them from memory.
"""

import copy
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from math import inf
from typing import Any, Literal, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from transalg.cpu.single_token import write_out
from transalg.formal.domains import refuse
from transalg.model.parameters import LinearKernel, Part, is_sharded

Model = TypeVar("Model", bound=Part)
MATRICES = ("W_e", "W_u", "W_f", "W_qkv", "W_q", "W_kv", "W_o", "W_mlp1", "W_mlp2", "W_mlp3", "W_mlp4")  # those that `Part.linear` has
MANY = 256  # rows, from which on torch's own product is the fastest
WORTH = 32  # tokens that are written, from which on packing a model costs less time than it saves
LEAST = 6.1e-5  # of a step of X, below which torch's kernel does not go
# the operators themselves: what torch.ops puts around them takes longer than a small product
DYNAMIC = torch.ops.quantized.linear_dynamic.default._op
WHOLE = torch.ops.quantized.linear_with_input_q_dq_qweight_dq_output_fp32.default._op
ONEDNN = torch.ops.mkldnn._linear_pointwise.default._op
LARGEST = 63  # a product of 8 by 8 bits adds pairs in 16 on CPUs without VNNI: 2 · 255 · 63 is what they hold


KEPT: Any = WeakTensorKeyDictionary()  # by W: what was made of it, how, and W r


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
        self.packed = None
        if s.device.type == "cpu" and s.dtype == torch.float32 and "fbgemm" in torch.backends.quantized.supported_engines:
            self.packed = _packed(n, s)
        self.register_buffer("n", n if table or self.packed is None else None)  # an embedding looks up rows

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        return self.s.device

    @property
    def dtype(self) -> torch.dtype:  # type: ignore[override]
        return self.s.dtype

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

    def numbers(self) -> Tensor:
        """n."""
        if self.n is not None:
            return self.n
        unpacked: Tensor = torch.ops.quantized.linear_unpack(self.packed)[0].int_repr()
        return unpacked

    def rows(self, ids: Tensor) -> Tensor:
        return F.embedding(ids, self.numbers()).to(self.dtype) * self.s[ids][..., None]

    def matrix(self) -> Tensor:
        return self.numbers().to(self.dtype) * self.s[:, None]


def _in_steps(X: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Of each row x, whole numbers m from 0 to 255, the one that stands for 0, and the step: x ≈ (m − zero) step. Those that `DYNAMIC` has."""
    least, most = X.amin(dim=1, keepdim=True).clamp_(max=0), X.amax(dim=1, keepdim=True).clamp_(min=0)
    between = ((most.double() - least) / 255).float()
    zero = (least / between.clamp(min=1e-38).double()).round_().neg_().to(X.dtype)
    step = between.clamp(min=LEAST)
    m = torch.addcmul(zero.double(), X.double(), (1 / step).double()).float()  # rounded once, as by the kernel
    return m.round_().clamp_(0, 255).to(X.dtype), zero, step.to(X.dtype)


def _packed(n: Tensor, s: Tensor) -> Any:
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


class Form(LinearKernel):
    """W as it is, with another way to multiply few rows."""

    W: Tensor

    def __init__(self, W: Tensor, b: Tensor | None = None, *, table: bool = False) -> None:
        super().__init__()
        self.register_buffer("W", W.detach().contiguous(), persistent=False)
        self.b, self.device, self.dtype = b, W.device, W.dtype

    def rows(self, ids: Tensor) -> Tensor:
        return F.embedding(ids, self.W)

    def matrix(self) -> Tensor:
        return self.W


class PackedLinear(Form):
    """For several rows: W in the order in which oneDNN's kernels read it."""

    def __init__(self, W: Tensor, b: Tensor | None = None, *, table: bool = False) -> None:
        super().__init__(W, b)
        self.packed = _kept(_ordered, W)

    def multiply(self, X: Tensor) -> Tensor:
        if X.size(0) >= MANY:
            return F.linear(X, self.W, self.b)
        Y: Tensor = ONEDNN(X, self.packed, self.b, "none", [], "")
        return Y

    def fused(self, X: Tensor, activation: str) -> Tensor | None:
        if X.size(0) >= MANY:
            return None
        name, algorithm = {"ReLU": ("relu", ""), "GELU": ("gelu", "none"), "tanh_GELU": ("gelu", "tanh")}[activation]
        Y: Tensor = ONEDNN(X, self.packed, self.b, name, [], algorithm)
        return Y


class RowSplitLinear(Form):
    """For one row: the rows of W are dealt out to the threads; a matrix by a vector is one thread's work otherwise."""

    def __init__(self, W: Tensor, b: Tensor | None = None, *, table: bool = False, threads: int | None = None) -> None:
        super().__init__(W, b)
        self.threads = min(threads or torch.get_num_threads(), *W.shape)  # everyone gets something
        b_parts = self._deal(W, b)
        self.dealt: Callable[[Tensor, Tensor], Tensor] = torch.bmm if b_parts is None else partial(torch.baddbmm, b_parts)

    def _deal(self, W: Tensor, b: Tensor | None) -> Tensor | None:
        """Everyone's part of W, what cannot be dealt out evenly, and everyone's part of b."""
        self.even = len(W) // self.threads * self.threads
        self.parts, self.rest = self.W[: self.even].view(self.threads, -1, W.shape[1]).mT, self.W[self.even :]
        return None if b is None else b[: self.even].view(self.threads, 1, -1)

    def multiply(self, X: Tensor) -> Tensor:
        if X.size(0) == 1:
            return self.for_one()(X)
        if X.size(0) >= MANY:
            return F.linear(X, self.W, self.b)
        Y = torch.mm(self.W, X.T).T  # a prompt: W Xᵀ is faster than X Wᵀ
        return torch.add(Y, 0 if self.b is None else self.b, out=X.new_empty(Y.shape))

    def for_one(self) -> Callable[[Tensor], Tensor]:
        dealt, threads, parts, rest, b = self.dealt, self.threads, self.parts, self.rest, None if self.b is None else self.b[self.even :]
        if not len(rest):
            return lambda X: dealt(X.expand(threads, 1, -1), parts).view(1, -1)
        return lambda X: torch.cat([dealt(X.expand(threads, 1, -1), parts).view(1, -1), F.linear(X, rest, b)], dim=1)


class TransposedLinear(RowSplitLinear):
    """The same with the rows of Wᵀ: each thread adds up its share of every sum. Where W has many rows, memory is read in longer pieces."""

    def _deal(self, W: Tensor, b: Tensor | None) -> Tensor | None:
        self.even = W.shape[1] // self.threads * self.threads
        turned = _kept(_turned, W)
        self.parts, self.rest = turned[: self.even].view(self.threads, -1, len(W)), turned[self.even :]
        return None if b is None else torch.cat([b[None], b.new_zeros(self.threads - 1, len(b))])[:, None]

    def for_one(self) -> Callable[[Tensor], Tensor]:
        dealt, threads, parts, rest, even = self.dealt, self.threads, self.parts, self.rest, self.even
        if not len(rest):
            return lambda X: dealt(X.view(threads, 1, -1), parts).sum(0)
        return lambda X: dealt(X[:, :even].reshape(threads, 1, -1), parts).sum(0).addmm_(X[:, even:], rest)

    def for_one_into(self) -> Callable[[Tensor, Tensor], object]:
        dealt, threads, parts = self.dealt, self.threads, self.parts
        if len(self.rest):
            return super().for_one_into()
        return lambda X, Y: torch.sum(dealt(X.view(threads, 1, -1), parts), 0, out=Y)


@torch.no_grad()
def _kept(make: Callable[[Tensor], Tensor], W: Tensor) -> Tensor:
    """What is made of W, as it was made the last time if W is still the same: a change that W r does not show is less than rounding."""
    shown = torch.mv(W, torch.linspace(1, 2, W.shape[1], dtype=W.dtype, device=W.device))
    if (kept := KEPT.get(W)) is None or kept[0] is not make or not torch.equal(kept[1], shown):
        kept = KEPT[W] = (make, shown, make(W))
    made: Tensor = kept[2]
    return made


def _ordered(W: Tensor) -> Tensor:
    """W in oneDNN's order, one that suits 2 rows as well as 200."""
    ordered: Tensor = torch.ops.mkldnn._reorder_linear_weight(W, 64)
    return ordered


def _turned(W: Tensor) -> Tensor:
    """Wᵀ, some rows of W at a time: what is read stays near, which takes half as long as all of them at once."""
    turned = W.new_empty(W.shape[1], len(W))
    for i in range(0, len(W), 256):
        turned[:, i : i + 256] = W[i : i + 256].T
    return turned


def quantize(model: Model, to: Literal["int8"] = "int8") -> Model:
    """A copy of the model whose matrices have 8 bits a number: a quarter of the memory, and of the time to read it."""
    if to != "int8":
        raise refuse("quantize", "int8", to)
    twin = _with(model, Int8Linear)
    write_out(twin)
    return twin


def pack(model: Model, rows: int | None = None, *, least: int | None = None) -> Model:
    """A copy of the model, which computes the same, for decoding so many rows at a time; the model itself if there is nothing to gain.

    Matrices with fewer numbers than `least` stay as they are: oneDNN takes some 20 µs to begin with. What is made of a matrix lives as long
    as the matrix, so that the next time only takes a look at whether it is the same.
    """
    if model.stand_ins() or any(map(is_sharded, model.parameters())):
        return model
    if rows == 1:
        least = 2**18 if least is None else least
        twin = _with(model, _for_one_row, least if _has_kernels(model) else inf)
        write_out(twin)
        return twin
    least = 2**15 if least is None else least
    return _with(model, PackedLinear, least) if _has_kernels(model) and _large(model, least) else model


def packed(models: Sequence[Model], rows: int, tokens: int) -> list[Model]:
    """The models as `pack` makes them for writing so many tokens, so many rows at a time, where that is worth it."""
    return [pack(model, rows) for model in models] if tokens >= WORTH else list(models)


def _for_one_row(W: Tensor, b: Tensor | None, *, table: bool) -> LinearKernel:
    return TransposedLinear(W, b) if len(W) >= 2 * W.shape[1] else RowSplitLinear(W, b)


def _has_kernels(model: Part) -> bool:
    if not torch.backends.mkldnn.is_available() or not hasattr(torch.ops.mkldnn, "_linear_pointwise"):  # type: ignore[no-untyped-call]
        return False
    return all(part.device.type == "cpu" and part.dtype == torch.float32 for part in model.parameters())


def _large(model: Part, least: float) -> list[tuple[Part, str, Tensor]]:
    """The matrices of so many numbers, each with its part and its name there; an embedding alone is never multiplied by."""
    hyper: Any = model.hyper
    names = [name for name in MATRICES if name != "W_e" or hyper.tied]
    return [
        (part, name, W)
        for part in model.modules()
        if isinstance(part, Part)
        for name in names
        if (W := part._parameters.get(name)) is not None and W.numel() >= least
    ]


@torch.no_grad()
def _with(model: Model, make: Callable[..., LinearKernel], least: float = 0) -> Model:
    """A copy whose matrices of so many numbers have another form; it shares everything else."""
    twin = copy.deepcopy(model, memo={id(part): part for part in (*model.parameters(), *model.buffers())})
    for part, name, W in _large(twin, least):
        del part._parameters[name]
        b = part._parameters.get("b_u" if name == "W_e" else f"b{name[1:]}")
        part.register_module(name, make(W, None if b is None else b.detach(), table=name == "W_e"))
    return twin
