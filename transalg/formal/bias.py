"""Projections without biases: the departure is in θ alone."""

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from .domains import Rule, Scope, parameters, readable, refuse
from .theta import SomeTheta
from .tree import DEPTHS, Theta

# which projections of a layer keep their bias
BIASES: dict[str, tuple[str, ...]] = {"all": ("b_",), "qkv": ("b_q", "b_k", "b_v"), "none": ()}


def unbiased(theta: SomeTheta, bias: str = "none") -> SomeTheta:
    """θ with b = 0 in every layer (Llama); with "qkv" those of queries, keys and values stay (Qwen 2).

    Algorithms 8–10 stay as they are. Training moves a bias, so take it away inside the transformer that is
    trained, and from θ̂ once more after.
    """
    if bias not in BIASES:
        raise refuse("bias", " or ".join(BIASES), repr(bias))

    def acting(path: tuple[object, ...], part: Tensor) -> Tensor:
        name = str(getattr(path[-1], "name", ""))
        of_layer = getattr(path[0], "name", "") in DEPTHS and name.startswith("b_")
        return torch.zeros_like(part) if of_layer and not name.startswith(BIASES[bias]) else part

    result: SomeTheta = pytree.tree_map_with_path(acting, theta)
    return result


def without_biases(kind: type[Theta], bias: str) -> Rule:
    """A θ of this kind in which every bias of a layer but these is 0."""
    rule = parameters(kind)

    def admitted(symbol: str, theta: object, scope: Scope) -> object:
        result = rule(symbol, theta, scope)
        assert isinstance(result, Theta)
        for name, part in result.named().items():
            b = name.rpartition(".")[2]
            if b.startswith("b_") and not b.startswith(BIASES[bias]) and readable(part) and part.any():
                raise refuse(symbol, f"{name} = 0, for this system has no such bias; see unbiased", "another")
        return result

    return admitted
