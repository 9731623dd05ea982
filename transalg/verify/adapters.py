"""How to run anyone's module on a batch: modules of the engine, models of transformers, and what a caller describes with a function."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from inspect import signature
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from transalg.model import DTransformer, EDTransformer, Model
from transalg.verify.batches import Batch

Call = Callable[..., Any]  # (module, x[, mask]), of an encoder–decoder (module, z, x[, z_mask, x_mask]); masks are True where a token is
Step = Callable[..., tuple[Any, Any]]  # (module, x, state), of an encoder–decoder (module, z, x, state): logits of new tokens, next state


class InDouble(TorchFunctionMode):
    """Whatever asks for float32 gets float64: norms and softmax of transformers compute in float32 whatever the weights are."""

    def __torch_function__(self, function: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        call: Callable[..., Any] = Tensor.double if function is Tensor.float else function
        return call(*map(self._wide, args), **{name: self._wide(value) for name, value in (kwargs or {}).items()})

    @staticmethod
    def _wide(value: object) -> object:
        return torch.float64 if value is torch.float32 else value


@contextmanager
def in_double() -> Iterator[None]:
    """Compute in float64, whatever a module says."""
    default = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with InDouble():
            yield
    finally:
        torch.set_default_dtype(default)


@dataclass(frozen=True)
class Adapter:
    """A way to call a module."""

    has_mask: bool  # whether it is told which tokens are padding
    call: Callable[[nn.Module, Batch], Any]
    step: Step | None = None  # decoding with a cache

    def output(self, module: nn.Module, batch: Batch) -> Tensor:
        """B × ℓ × N_V, or B × N_C of a classifier: whatever the module returns."""
        with in_double():
            return tensor(self.call(module, batch))


def tensor(output: Any) -> Tensor:
    """The logits of what a module returns: a tensor, the first of several, or what has a field `logits`."""
    output = getattr(output, "logits", output)
    output = output[0] if isinstance(output, tuple | list) else output
    if not isinstance(output, Tensor):
        raise ValueError(f"module: expected a tensor of logits, got {type(output).__name__}; say with call= how it is called")
    return output.double()


def adapter(module: nn.Module, like: str, call: Call | None, step: Step | None) -> Adapter:
    """How to call this module: as the caller says, or as its class is known to be called."""
    pairs = like == "EDTransformer"
    if call is not None:
        masks = len(signature(call).parameters) > (3 if pairs else 2)
        return Adapter(masks, lambda module, batch: call(module, *_inputs(batch, masks)), step)
    if isinstance(module, Model):
        return Adapter(True, lambda module, batch: batch.logits(module), step or _engine_step(module))  # type: ignore[arg-type]
    parameters = signature(module.forward).parameters
    if "input_ids" in parameters:
        return Adapter(True, _transformers(pairs), step or (_transformers_step(pairs) if "past_key_values" in parameters else None))
    if "lengths" in parameters and not pairs:
        return Adapter(True, lambda module, batch: module(batch.x, lengths=torch.tensor(batch.x_lengths)), step)
    if "attention_mask" in parameters and not pairs:
        return Adapter(True, lambda module, batch: module(batch.x, attention_mask=_mask(batch.x, batch.x_lengths)), step)
    return Adapter(False, lambda module, batch: module(*_inputs(batch, masks=False)), step)


def _mask(ids: Tensor, lengths: tuple[int, ...] | None) -> Tensor:
    assert lengths is not None
    return torch.arange(ids.shape[1]) < torch.tensor(lengths)[:, None]


def _inputs(batch: Batch, masks: bool) -> list[Tensor]:
    sequences = [(batch.x, batch.x_lengths)] if batch.z is None else [(batch.z, batch.z_lengths), (batch.x, batch.x_lengths)]
    return [*(ids for ids, _ in sequences), *(_mask(ids, lengths) for ids, lengths in sequences if masks)]


def _transformers(pairs: bool) -> Callable[[nn.Module, Batch], Any]:
    def call(module: nn.Module, batch: Batch) -> Any:
        x_mask = _mask(batch.x, batch.x_lengths).long()
        if not pairs:
            return module(input_ids=batch.x, attention_mask=x_mask)
        assert batch.z is not None
        z_mask = _mask(batch.z, batch.z_lengths).long()
        return module(input_ids=batch.z, attention_mask=z_mask, decoder_input_ids=batch.x, decoder_attention_mask=x_mask)

    return call


def _transformers_step(pairs: bool) -> Step:
    def step(module: nn.Module, *inputs: Any) -> tuple[Any, Any]:
        *_, x, state = inputs
        past = {"past_key_values": state, "use_cache": True}
        output = module(input_ids=inputs[0], decoder_input_ids=x, **past) if pairs else module(input_ids=x, **past)
        return output, output.past_key_values

    return step


def _engine_step(module: Model) -> Step | None:
    if isinstance(module, EDTransformer):
        return lambda module, z, x, state: (module.decode(x, state := state or module.cache(z)), state)
    if isinstance(module, DTransformer):
        return lambda module, x, state: (module.decode(x, state := state or module.cache(len(x))), state)
    return None
