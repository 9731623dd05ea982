"""Matrices in the form in which a few tokens at a time are multiplied fastest: packed for the CPU's kernels, or in 8 bits.

Decoding a token reads every weight once and computes little with it, so its time is that of reading them from memory.
"""

import copy
import warnings
from collections.abc import Callable
from math import inf
from typing import Any, Literal, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor

from transalg.formal.domains import refuse
from transalg.model.parameters import Part, StandIn

Model = TypeVar("Model", bound=Part)
MATRICES = ("W_e", "W_u", "W_f", "W_qkv", "W_q", "W_kv", "W_o", "W_mlp1", "W_mlp2", "W_mlp3", "W_mlp4")  # those that `Part.linear` has
TINY = 1e-30  # what a row of zeros is divided by
# the operators themselves: what torch.ops puts around them takes longer than a small product
FBGEMM = torch.ops.quantized.linear_with_input_q_dq_qweight_dq_output_fp32.default._op
ONEDNN = torch.ops.mkldnn._linear_pointwise.default._op
LARGEST = 63  # a product of 8 by 8 bits adds pairs in 16 on CPUs without VNNI: 2 · 255 · 63 is what they hold


class Int8(StandIn):
    """W[i,j] ≈ s[i] n[i,j] with whole numbers n of 8 bits, s[i] = max |W[i,:]| / 63; a row x of what it multiplies likewise, in steps of max |x| / 127.

    What a row gives is the same alone as among others, on every device.
    """

    s: Tensor
    n: Tensor | None

    def __init__(self, W: Tensor, *, table: bool = False) -> None:
        super().__init__()
        s = W.abs().amax(dim=1) / LARGEST
        n = (W / torch.where(s == 0, 1, s)[:, None]).round().to(torch.int8)
        self.register_buffer("s", s)
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

    def multiply(self, X: Tensor, b: Tensor | None) -> Tensor:
        if self.packed is not None and len(X) == 1:
            Y = FBGEMM(X, max(float(torch.linalg.vector_norm(X, inf)), TINY) / 127, 128, self.packed)
            return self._plus(Y, b)
        r = torch.linalg.vector_norm(X, inf, dim=1, keepdim=True).clamp_(min=TINY)
        if self.packed is not None:
            Y = FBGEMM(X / r, 1 / 127, 128, self.packed)
        else:
            Y = F.linear((X / r * 127).round() / 127, self.numbers().to(X.dtype)) * self.s
        return torch.addcmul(b, Y, r) if b is not None else Y * r

    @staticmethod
    def _plus(Y: Tensor, b: Tensor | None) -> Tensor:
        return Y if b is None else Y + b

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


class Packed(StandIn):
    """W in float32, in the order in which oneDNN's kernels read it when they multiply so many rows, or several."""

    table: Tensor | None
    device = torch.device("cpu")
    dtype = torch.float32

    def __init__(self, W: Tensor, *, rows: int | None = None, table: bool = False) -> None:
        super().__init__()
        self.packed = torch.ops.mkldnn._reorder_linear_weight(W, rows)
        self.register_buffer("table", W if table else None, persistent=False)

    def multiply(self, X: Tensor, b: Tensor | None) -> Tensor:
        Y: Tensor = ONEDNN(X, self.packed, b, "none", [], "")
        return Y

    def fused(self, X: Tensor, b: Tensor | None, activation: str) -> Tensor | None:
        name, algorithm = {"ReLU": ("relu", ""), "GELU": ("gelu", "none"), "tanh_GELU": ("gelu", "tanh")}[activation]
        Y: Tensor = ONEDNN(X, self.packed, b, name, [], algorithm)
        return Y

    def rows(self, ids: Tensor) -> Tensor:
        return F.embedding(ids, self.matrix() if self.table is None else self.table)

    def matrix(self) -> Tensor:
        W: Tensor = self.packed.to_dense()
        return W


class Shared(StandIn):
    """W as it is, its rows dealt out to the threads when it multiplies one row: a matrix by a vector is one thread's work otherwise."""

    W: Tensor

    def __init__(self, W: Tensor, threads: int | None = None) -> None:
        super().__init__()
        self.register_buffer("W", W, persistent=False)
        self.threads = threads or torch.get_num_threads()
        self.even = len(W) // self.threads * self.threads
        self.parts = W[: self.even].view(self.threads, -1, W.shape[1]).mT
        self.device, self.dtype = W.device, W.dtype

    def multiply(self, X: Tensor, b: Tensor | None) -> Tensor:
        if len(X) > 1:
            return F.linear(X, self.W, b)
        Y = X.new_empty(1, len(self.W))
        each = Y[:, : self.even].view(self.threads, 1, -1)
        torch.bmm(X.expand(self.threads, 1, -1), self.parts, out=each)
        if self.even < len(self.W):
            torch.mm(X, self.W[self.even :].T, out=Y[:, self.even :])
        return Y if b is None else Y.add_(b)

    def rows(self, ids: Tensor) -> Tensor:
        return F.embedding(ids, self.W)

    def matrix(self) -> Tensor:
        return self.W


def quantize(model: Model, to: Literal["int8"] = "int8") -> Model:
    """A copy of the model whose matrices have 8 bits a number: a quarter of the memory, and of the time to read it."""
    if to != "int8":
        raise refuse("quantize", "int8", to)
    return _with(model, Int8)


def pack(model: Model, rows: int | None = None, *, least: int | None = None) -> Model:
    """A copy of the model, which computes the same, for decoding so many rows at a time; where there are no such kernels, the model itself.

    Matrices with fewer numbers than `least` stay as they are: oneDNN takes some 20 µs to begin with.
    """
    if model.stand_ins() or not _can_pack(model):
        return model
    if rows == 1:
        return _with(model, _for_one_row, 2**18 if least is None else least)
    return _with(model, Packed, 2**15 if least is None else least)


def _for_one_row(W: Tensor, *, table: bool) -> StandIn:
    """oneDNN is faster where there are many rows in W and each is short."""
    return Packed(W, rows=1, table=table) if len(W) >= 4 * W.shape[1] else Shared(W)


def _can_pack(model: Part) -> bool:
    if not torch.backends.mkldnn.is_available() or not hasattr(torch.ops.mkldnn, "_linear_pointwise"):  # type: ignore[no-untyped-call]
        return False
    return all(part.device.type == "cpu" and part.dtype == torch.float32 for part in model.parameters())


@torch.no_grad()
def _with(model: Model, make: Callable[..., StandIn], least: int = 0) -> Model:
    """A copy with another form of its matrices; what has no other form is shared."""
    hyper: Any = model.hyper
    twin = copy.deepcopy(model, memo={id(part): part for part in (*model.parameters(), *model.buffers())})
    for part in [module for module in twin.modules() if isinstance(module, Part)]:
        for name in [name for name in MATRICES if name in part._parameters]:
            W = part._parameters[name]
            if W is None or W.numel() < least or (name == "W_e" and not hyper.tied):  # an embedding alone is never multiplied by
                continue
            del part._parameters[name]
            part.register_module(name, make(W.detach().contiguous(), table=name == "W_e"))
    return twin
