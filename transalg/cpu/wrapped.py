"""A model whose matrices have kernels: a copy of a model that computes the same, and whose modules multiply by other means.

`model/` knows nothing of it. Its modules multiply through `linear` and look up rows through `rows`; here their classes get subclasses in
which these two ask a kernel first.
"""

import copy
from collections.abc import Callable
from functools import cache
from typing import TypeVar

import torch
from torch import Tensor, nn

from transalg.cpu.linear import LinearKernel
from transalg.hyper import Hyper
from transalg.model.cache import Cache
from transalg.model.checks import Lengths
from transalg.model.decoder import Decoder
from transalg.model.parameters import ParameterModule
from transalg.model.transformer import Transformer
from transalg.model.unembedding import matrix_name

Model = TypeVar("Model", bound=Transformer[Hyper])
SingleToken = Callable[[Tensor, Cache], Tensor]  # the logits, 1 × N_V, of what follows one token of one row


class Wrapped(ParameterModule):
    """A module of a wrapped model."""

    kernels: nn.ModuleDict

    def linear(self, X: Tensor, W: str, b: str, activation: Callable[[Tensor], Tensor] | None = None) -> Tensor:
        kernel = self.kernels._modules.get(W)
        if not isinstance(kernel, LinearKernel):
            return super().linear(X, W, b, activation)
        return kernel.multiply(X) if activation is None else kernel.activated(X, activation)

    def rows(self, W: str, ids: Tensor) -> Tensor:
        kernel = self.kernels._modules.get(W)
        return kernel.rows(ids) if isinstance(kernel, LinearKernel) else super().rows(W, ids)

    def matrices(self) -> dict[str, Tensor]:
        result = super().matrices()
        for name, kernel in kernels(self).items():
            result[name] = kernel.matrix()
        return result

    def one_row(self, W: str, b: str) -> Callable[[Tensor], Tensor]:
        """`linear` with these as a function of one row, looked up once."""
        kernel = self.kernels._modules.get(W)
        return kernel.one_row() if isinstance(kernel, LinearKernel) else lambda X: self.linear(X, W, b)

    def one_row_into(self, W: str, b: str) -> Callable[[Tensor, Tensor], object]:
        """The same, into memory that exists."""
        kernel = self.kernels._modules.get(W)
        return kernel.one_row_into() if isinstance(kernel, LinearKernel) else lambda X, Y: Y.copy_(self.linear(X, W, b))


class WrappedTransformer(Wrapped, Transformer[Hyper]):
    """A wrapped model."""

    @property
    def unembedding(self) -> Tensor:
        kernel = self.kernels._modules.get(matrix_name(self.hyper))
        return kernel.matrix() if isinstance(kernel, LinearKernel) else super().unembedding


class WrappedDecoder(WrappedTransformer, Decoder[Hyper]):
    """A wrapped decoder. One new token of one row takes a fast path, where there is one."""

    single_token: SingleToken | None = None
    all_kernels: tuple[LinearKernel, ...] = ()  # of this model and of its layers

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "single_token": None}  # the fast path of a copy would lead through the original's parameters

    @torch.no_grad()
    def decode(self, ids: Tensor, cache: Cache, lengths: Lengths = None, *, last: bool = False) -> Tensor:
        if any(kernel.changed() for kernel in self.all_kernels):
            raise ValueError("model: its weights have changed since it was packed; pack it again")
        if self.single_token is not None and self._one_more(ids, cache, lengths):
            logits = self.single_token(ids, cache)
            return logits if last else logits[:, None]
        return super().decode(ids, cache, lengths, last=last)

    def _one_more(self, ids: object, cache: object, lengths: Lengths) -> bool:
        """Whether this is one token, and one row that has room for it, in a cache that this model made."""
        if not isinstance(cache, Cache) or cache.model is None or cache.model() is not self or cache.keys.dtype != self.dtype:
            return False
        return lengths is None and len(cache.lengths) == 1 and cache.lengths[0] < cache.ell and self.is_one_token(ids)


@cache
def _wrapped_class(kind: type[ParameterModule]) -> type[ParameterModule]:
    mixin = WrappedDecoder if issubclass(kind, Decoder) else WrappedTransformer if issubclass(kind, Transformer) else Wrapped
    return type(f"Wrapped{kind.__name__}", (mixin, kind), {})


def original_class(module: nn.Module) -> type:
    """The class of a module before it was wrapped."""
    return next(kind for kind in type(module).__mro__ if not issubclass(kind, Wrapped))


def kernels(model: nn.Module) -> dict[str, LinearKernel]:
    """The kernels of all modules, by the names of their matrices."""
    return {
        f"{name}.{W}" if name else W: kernel
        for name, module in model.named_modules()
        if isinstance(module, Wrapped)
        for W, kernel in module.kernels.items()
        if isinstance(kernel, LinearKernel)
    }


def multiplied(model: Transformer[Hyper], least: float) -> list[tuple[ParameterModule, str, Tensor]]:
    """The matrices of at least so many numbers that `linear` multiplies by, each with its module and its name there."""
    unembedding = matrix_name(model.hyper)
    return [
        (module, name, W)
        for module in model.modules()
        if isinstance(module, ParameterModule)
        for name, W in module._parameters.items()
        if W is not None and W.ndim == 2 and W.numel() >= least and name.startswith("W_")
        if (name in MULTIPLIED and name != "W_e") or (module is model and name == unembedding)
    ]


MULTIPLIED = (
    "W_u",
    "W_f",
    "W_qkv",
    "W_q",
    "W_kv",
    "W_o",
    "W_mlp1",
    "W_mlp2",
    "W_mlp3",
    "W_mlp4",
    "W_glu1",
    "W_glu3",
)  # by the units that kernels are tested with


@torch.no_grad()
def wrap(model: Model, make: Callable[..., LinearKernel], least: float = 0) -> Model:
    """A copy whose matrices of at least so many numbers have kernels; it shares everything else with the model."""
    twin = copy.deepcopy(model, memo={id(part): part for part in (*model.parameters(), *model.buffers())})
    matrices = multiplied(twin, least)
    for module in twin.modules():
        if isinstance(module, ParameterModule):
            module.__class__ = _wrapped_class(type(module))  # type: ignore[arg-type]
            module.kernels = nn.ModuleDict()
    for module, name, W in matrices:
        b = module._parameters.get("b_u" if name == "W_e" else f"b{name[1:]}")
        del module._parameters[name]
        assert isinstance(module, Wrapped)
        module.kernels[name] = make(W, None if b is None else b.detach(), table=name == "W_e")
    if isinstance(twin, WrappedDecoder):
        twin.all_kernels = tuple(kernels(twin).values())
    return twin
