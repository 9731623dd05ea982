"""What all architectures share: embedding, layers, unembedding, and the way to the formal θ and back."""

from collections.abc import Callable
from typing import Generic, TypeVar, Unpack

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from transalg.formal.domains import refuse
from transalg.formal.theta import TransformerTheta
from transalg.hyper import Hyper
from transalg.hyper.hyper import Value
from transalg.hyper.shapes import below, shapes
from transalg.model import bridge, unembedding
from transalg.model.attention import Tokens
from transalg.model.checks import within
from transalg.model.embedding import embed
from transalg.model.layers import DecoderLayer, Layer, Picked
from transalg.model.layout import Layout
from transalg.model.norm import NORMS
from transalg.model.parameters import Device, Made, ParameterModule, initialise, unsharded

ModelHyper = TypeVar("ModelHyper", bound=Hyper, covariant=True)  # a Transformer[DHyper] is a Transformer[Hyper]
AnyLayer = TypeVar("AnyLayer", Layer, DecoderLayer)
AnyTransformer = TypeVar("AnyTransformer", bound="Transformer[Hyper]")
Logits = Float[Tensor, "B ell N_V"]
Move = Callable[[Tensor, Layout], Tensor]  # of the embeddings of a batch
IDs = Tensor  # B × ℓ; what may come in, `model/checks.py` says


class Transformer(ParameterModule, Generic[ModelHyper]):
    """A model: its parameters at the top, its layers below, and its hyperparameters."""

    hyper_kind: type[Hyper]
    hyper: ModelHyper

    def __init__(self, hyper: ModelHyper, **made: Unpack[Made]) -> None:
        if type(hyper) is not self.hyper_kind:
            raise refuse("hyper", f"a {self.hyper_kind.__name__} for a {type(self).__name__}", type(hyper).__name__)
        dtype = made.get("dtype")
        if dtype is not None and not (isinstance(dtype, torch.dtype) and dtype.is_floating_point):
            raise refuse("dtype", "real numbers", dtype)
        super().__init__(shapes(hyper), **made)
        self.hyper = hyper
        NORMS[hyper.norm].register(self, self._parameters)
        self.move: Move | None = None  # what adversarial training does to the embeddings
        self.checkpointing = False  # activation checkpointing: trade time for memory in training

    def _stack(self, name: str, kind: Callable[..., AnyLayer]) -> nn.ModuleList:
        """A module for each set of parameters that the layers of a stack have; `in_order` has the layers."""
        all_shapes, made = shapes(self.hyper), {"device": self.device, "dtype": self.dtype}
        return nn.ModuleList(
            kind(self.hyper, below(all_shapes, f"{name}.{i}"), mask=self.hyper.mask(name, i * self.hyper.shared), **made)
            for i in range(self.hyper.parameter_sets(name))
        )

    def in_order(self, name: str) -> list[nn.Module]:
        """The layers of a stack, from the first to the last; layers that share their parameters are one module, several times."""
        modules = self.get_submodule(name)
        assert isinstance(modules, nn.ModuleList)
        return [modules[self.hyper.parameter_set(l)] for l in range(self.hyper.stacks[name])]

    def _through(self, layer: nn.Module, *inputs: object) -> Tokens:
        """A layer's output; with activation checkpointing, all but that is computed again in the backward pass."""
        if self.checkpointing and torch.is_grad_enabled():
            output: Tensor = checkpoint(layer, *inputs, use_reentrant=False)
            return output
        result: Tensor = layer(*inputs)
        return result

    def _through_stack(self, stack: str, X: Tokens, tokens: Layout, picked: Int[Tensor, "n"] | None = None) -> Picked:
        """X after all layers of a stack: of the picked tokens, of all of them unless given. What is not picked skips the last MLP."""
        *layers, last = self.in_order(stack)
        for layer in layers:
            X = self._through(layer, X, tokens)
        return self._through(last, X, tokens, picked)

    @staticmethod
    def _picked(tokens: Layout, where: Bool[Tensor, "B ell"] | None) -> Int[Tensor, "n"] | None:
        """The rows of these tokens; where there are none, the first row, so that every parameter has a gradient. None for all."""
        if where is None:
            return None
        picked = tokens.unpad(where).nonzero()[:, 0]
        return picked if len(picked) else picked.new_zeros(1)

    @property
    def norms_over_tokens(self) -> bool:
        """Whether norms look at all tokens of the batch, so that none may be left out before them."""
        return self.training and NORMS[self.hyper.norm].over_tokens

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Random weights as hyper says; nothing on the meta device."""
        if self.device.type != "meta":
            initialise(self, self.hyper, generator)

    @property
    def unembedding(self) -> Float[Tensor, "N_V d"]:
        """W_u, or W_e if they are tied."""
        return self.get_parameter(unembedding.matrix_name(self.hyper))

    def logits(self, X: Float[Tensor, "T d"]) -> Float[Tensor, "T N_V"]:
        """Of every token of the vocabulary, for every row of X."""
        return unembedding.logits(self, self.hyper, X)

    @classmethod
    def from_theta(
        cls: type[AnyTransformer],
        theta: TransformerTheta,
        hyper: Hyper | None = None,
        *,
        device: Device = None,
        dtype: torch.dtype | None = None,
        **departures: Value,
    ) -> AnyTransformer:
        """The model with this θ. What θ does not show, such as `norm="RMSnorm"`, is passed as a keyword, or all of it as one `hyper`."""
        hyper = bridge.hyper_of(theta, cls.hyper_kind, departures, hyper)
        first = next(iter(theta.named().values()))
        model = cls(hyper, device=device or first.device, dtype=dtype or first.dtype)
        state = bridge.state_of(theta, hyper)
        bridge.check_nothing_lost(theta, hyper, state)
        model.load_state_dict(state)
        return model

    def theta(self, dtype: torch.dtype = torch.float64) -> TransformerTheta:
        """The formal θ, a copy."""
        theta = bridge.theta_of(self.hyper, self.matrices(), dtype)
        return bridge.with_statistics(self.hyper, theta, dict(self.named_buffers()), dtype)

    def theta_gradient(self, dtype: torch.dtype = torch.float64) -> TransformerTheta:
        """The gradients of all parameters as a formal θ, 0 where the model has no such parameter."""
        gradients = {name: unsharded(torch.zeros_like(part) if part.grad is None else part.grad) for name, part in self.named_parameters()}
        return bridge.theta_of(self.hyper, gradients, dtype, gradient=True)

    def _embed(self, symbol: str, ids: IDs, layout: Layout, segments: Int[Tensor, "T"] | None = None) -> Tokens:
        """Line 2 for a batch, with dropout."""
        tokens = within(symbol, layout.unpad(ids), self.hyper.N_V)
        move = self.move
        moved = None if move is None else lambda X: move(X, layout)
        return self._dropped(embed(self, self.hyper, tokens, layout.positions(ids.device), ids.shape[1], segments, moved))

    def _dropped(self, X: Tokens) -> Tokens:
        """The embeddings with dropout."""
        return F.dropout(X, self.hyper.dropout, self.training) if self.hyper.dropout else X

    def extra_repr(self) -> str:
        symbols = ", ".join(f"{symbol}={size}" for symbol, size in self.hyper.sizes().items() if size is not None)
        departures = ", ".join(f"{name}={value!r}" for name, value in self.hyper.departures().items() if name not in ("d_attn", "d_mid"))
        return symbols + (f"; {departures}" if departures else "")
