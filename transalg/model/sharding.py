"""A model sharded over processes (torch's FSDP2), layer by layer."""

from typing import TypeVar

from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard, register_fsdp_forward_method

from transalg.formal.domains import refuse
from transalg.model.layers import Sublayers

Module = TypeVar("Module", bound=nn.Module)


def shard(module: Module, mesh: DeviceMesh | None = None) -> Module:
    """Every process keeps a part of each parameter, and has a layer whole only while that layer runs, decoding included; in place.

    The module is a model, or one that has a model in it and is called instead of it.
    """
    if next(module.buffers(), None) is not None:
        raise refuse("norm", "one without running statistics for a sharded model, layer_norm or RMSnorm", "batch_norm")
    for layer in module.modules():
        if isinstance(layer, Sublayers):
            fully_shard(layer, mesh=mesh)
            _like_forward(layer, "decode", "keys_and_values")
    fully_shard(module, mesh=mesh)
    _like_forward(module, "cache", "decode")
    return module


def _like_forward(module: nn.Module, *methods: str) -> None:
    for method in methods:
        if hasattr(module, method):
            register_fsdp_forward_method(module, method)
