"""What the peers share: random weights in float64, and the comparison of two θ part by part."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.testing import assert_close

from tests.tolerance import PROMISED
from transalg.formal.tree import Theta

IDS = [21, 3, 0, 17, 3, 20, 8, 11, 2, 19, 22]


def randomise(model: torch.nn.Module, seed: int = 0) -> torch.nn.Module:
    """Every weight random, biases and norms too, in float64, without dropout."""
    model = model.double().eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(0.3 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
    return model


class InDouble(TorchFunctionMode):
    """Whatever asks for float32 gets float64: their decoders compute norms, softmax and angles so, whatever the weights are."""

    def __torch_function__(self, function: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        if function is Tensor.float:
            function = Tensor.double
        args, kwargs = tuple(map(self._wide, args)), {name: self._wide(value) for name, value in (kwargs or {}).items()}
        return function(*args, **kwargs)

    @staticmethod
    def _wide(value: object) -> object:
        return torch.float64 if value is torch.float32 else value


def weight(parameter: torch.nn.Parameter) -> Tensor:
    return parameter.detach().clone()


def gradient(parameter: torch.nn.Parameter) -> Tensor:
    return torch.zeros_like(parameter) if parameter.grad is None else parameter.grad.clone()


def log_likelihood(logits: Tensor, x: list[int]) -> Tensor:
    """−Σ_t log P[x[t+1], t], as the peers compute it."""
    return torch.nn.functional.cross_entropy(logits[:-1], torch.tensor(x[1:]), reduction="sum")


def assert_same_theta(ours: Theta, theirs: Theta, atol: float = PROMISED) -> None:
    assert type(ours) is type(theirs) and ours.named().keys() == theirs.named().keys()
    for name, part in ours.named().items():
        assert_close(part, theirs.named()[name], rtol=0, atol=atol, msg=lambda text, name=name: f"{name}: {text}")
