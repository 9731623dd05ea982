"""MLPs: how each is computed, and the formal component it equals. Their parameters and costs: `hyper/mlp.py`."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from transalg.formal.mlp import MLP as formal_MLP
from transalg.formal.mlp import GatedDecoderLayer, GatedLayer, GatedMLP, Perceptron, SiLU, tanh_GELU
from transalg.formal.notation import GELU, ReLU
from transalg.formal.theta import DecoderLayer, Layer
from transalg.model.parameters import ParameterModule

Activation = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class MLP:
    """W_mlp2 GELU(W_mlp1 X + b_mlp1) + b_mlp2 with some activation in the place of GELU."""

    activation: Activation
    formal_activation: Activation
    literal: ClassVar[bool] = True  # whether Algorithms 8–10 have it in their own lines, up to the activation
    layer_theta: ClassVar[type[Layer]] = Layer  # where its parameters stand in θ
    decoder_layer_theta: ClassVar[type[DecoderLayer]] = DecoderLayer

    @property
    def formal(self) -> Perceptron:
        return partial(formal_MLP, GELU=self.formal_activation)

    def compute(self, module: ParameterModule, X: Float[Tensor, "T d_e"], number: int) -> Float[Tensor, "T d_e"]:
        """With W_mlp and b_mlp of this number, then of the next."""
        X = module.linear(X, f"W_mlp{number}", f"b_mlp{number}", self.activation)
        return module.linear(X, f"W_mlp{number + 1}", f"b_mlp{number + 1}")


@dataclass(frozen=True)
class Gated(MLP):
    """W_mlp2 (SiLU(W_gate X + b_gate) ⊙ (W_mlp1 X + b_mlp1)) + b_mlp2 with some activation in the place of SiLU."""

    literal = False
    layer_theta = GatedLayer
    decoder_layer_theta = GatedDecoderLayer

    @property
    def formal(self) -> Perceptron:
        return partial(GatedMLP, SiLU=self.formal_activation)

    def compute(self, module: ParameterModule, X: Float[Tensor, "T d_e"], number: int) -> Float[Tensor, "T d_e"]:
        gate, value = module.linear(X, f"W_glu{number}", f"b_glu{number}").chunk(2, dim=-1)
        return module.linear(self.activation(gate) * value, f"W_mlp{number + 1}", f"b_mlp{number + 1}")


_tanh_gelu = partial(F.gelu, approximate="tanh")

MLPS: dict[str, MLP] = {
    "ReLU": MLP(F.relu, ReLU),
    "GELU": MLP(F.gelu, GELU),
    "tanh_GELU": MLP(_tanh_gelu, tanh_GELU),
    "SiLU": MLP(F.silu, SiLU),
    "SwiGLU": Gated(F.silu, SiLU),
    "GEGLU": Gated(F.gelu, GELU),
    "tanh_GEGLU": Gated(_tanh_gelu, tanh_GELU),
}
