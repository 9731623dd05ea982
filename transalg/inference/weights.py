"""Matrices in the form in which a few tokens at a time are multiplied fastest: packed for the CPU's kernels, or in 8 bits.

Decoding a token reads every weight once and computes little with it, so its time is that of reading them from memory.
"""

import copy
import warnings
from collections.abc import Callable
from typing import Any, Literal, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor

from transalg.formal.domains import refuse
from transalg.model.parameters import Part, StandIn

Model = TypeVar("Model", bound=Part)
MATRICES = ("W_e", "W_u", "W_f", "W_qkv", "W_q", "W_kv", "W_o", "W_mlp1", "W_mlp2", "W_mlp3", "W_mlp4")  # those that `Part.linear` has
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
        r = X.abs().amax(dim=1, keepdim=True)
        r = torch.where(r == 0, 1, r)
        if self.packed is not None:
            Y = torch.ops.quantized.linear_with_input_q_dq_qweight_dq_output_fp32(X / r, 1 / 127, 128, self.packed)
        else:
            Y = F.linear((X / r * 127).round() / 127, self.numbers().to(X.dtype)) * self.s
        return torch.addcmul(b, Y, r) if b is not None else Y * r

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
    """W in float32, in the order in which oneDNN's kernels read it when they multiply so many rows."""

    table: Tensor | None

    def __init__(self, W: Tensor, *, rows: int | None, table: bool = False) -> None:
        super().__init__()
        self.packed = torch.ops.mkldnn._reorder_linear_weight(W, rows)
        self.register_buffer("table", W if table else None, persistent=False)

    device = torch.device("cpu")
    dtype = torch.float32

    def multiply(self, X: Tensor, b: Tensor | None) -> Tensor:
        Y: Tensor = torch.ops.mkldnn._linear_pointwise(X, self.packed, b, "none", [], "")
        return Y

    def rows(self, ids: Tensor) -> Tensor:
        return F.embedding(ids, self.matrix() if self.table is None else self.table)

    def matrix(self) -> Tensor:
        W: Tensor = self.packed.to_dense()
        return W


def quantize(model: Model, to: Literal["int8"] = "int8") -> Model:
    """A copy of the model whose matrices have 8 bits a number: a quarter of the memory, and of the time to read it."""
    if to != "int8":
        raise refuse("quantize", "int8", to)
    return _with(model, Int8)


def pack(model: Model, rows: int | None = None) -> Model:
    """A copy of the model, which computes the same, for decoding so many rows at a time; where there are no such kernels, the model itself."""
    if model.stand_ins() or not _can_pack(model):
        return model
    return _with(model, lambda W, table: Packed(W, rows=rows, table=table))


def _can_pack(model: Part) -> bool:
    if not torch.backends.mkldnn.is_available() or not hasattr(torch.ops.mkldnn, "_linear_pointwise"):  # type: ignore[no-untyped-call]
        return False
    return all(part.device.type == "cpu" and part.dtype == torch.float32 for part in model.parameters())


@torch.no_grad()
def _with(model: Model, make: Callable[..., StandIn]) -> Model:
    """A copy with another form of its matrices; what has no other form is shared."""
    hyper: Any = model.hyper
    twin = copy.deepcopy(model, memo={id(part): part for part in (*model.parameters(), *model.buffers())})
    for part in [module for module in twin.modules() if isinstance(module, Part)]:
        for name in [name for name in MATRICES if name in part._parameters]:
            W = part._parameters[name]
            if W is None or (name == "W_e" and not hyper.tied):
                continue  # only looked up, never multiplied by
            del part._parameters[name]
            part.register_module(name, make(W.detach().contiguous(), table=name == "W_e"))
    return twin
