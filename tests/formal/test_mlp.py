"""The MLP as a component, another in its place, and its activations."""

from dataclasses import dataclass, replace
from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from jaxtyping import Float
from torch import Tensor
from torch.testing import assert_close

from tests.strategies import normal, rng, theta_d
from transalg.formal import DInference, DTheta, DTraining, DTransformer, Layer, MLPTheta, mlp
from transalg.formal.domains import checked
from transalg.formal.mlp import MLP, GatedMLP, ReLU_MLP, SiLU, tanh_GELU
from transalg.formal.systems import GPT

exactly = {"rtol": 0, "atol": 1e-12}
seeds = st.integers(0, 2**16)
x = [9, 1, 2, 3]


@given(seeds)
def test_tanh_gelu_is_torchs(seed: int) -> None:
    A = 3 * normal(seed, 5, 7)
    assert_close(tanh_GELU(A), torch.nn.functional.gelu(A, approximate="tanh"), **exactly)


@given(seeds)
def test_it_is_torchs(seed: int) -> None:
    X, layer = normal(seed, 6, 3), theta_d(seed).layers[0]
    for ours, theirs in ((MLP, torch.nn.GELU()), (ReLU_MLP, torch.nn.ReLU()), (partial(MLP, GELU=tanh_GELU), torch.nn.GELU("tanh"))):
        hidden = theirs(torch.nn.functional.linear(X.T, layer.W_mlp1, layer.b_mlp1))
        assert_close(ours(X, layer.mlp), torch.nn.functional.linear(hidden, layer.W_mlp2, layer.b_mlp2).T, **exactly)


# A gated MLP (Shazeer 2020), as one would add it -----------------------------------------------------------------------


@dataclass(frozen=True, eq=False, repr=False)
class GatedMLPTheta(MLPTheta):
    W_gate: Float[Tensor, "d_mlp d_e"]


@dataclass(frozen=True, eq=False, repr=False)
class GatedLayer(Layer):
    W_gate: Float[Tensor, "d_mlp d_e"]

    @property
    def mlp(self) -> GatedMLPTheta:
        return GatedMLPTheta(**vars(super().mlp), W_gate=self.W_gate)


@checked()
def SwiGLU(X: Float[Tensor, "d_e ell"], W: GatedMLPTheta) -> Float[Tensor, "d_e ell"]:
    gate = torch.nn.functional.silu(W.W_gate @ X)
    return W.W_mlp2 @ (gate * (W.W_mlp1 @ X + W.b_mlp1[:, None])) + W.b_mlp2[:, None]


def gated(seed: int = 0) -> DTheta:
    theta = theta_d(seed)
    layers = (GatedLayer(**vars(layer), W_gate=normal(seed + l, 13, 6)) for l, layer in enumerate(theta.layers))
    return replace(theta, layers=tuple(layers))


def test_another_mlp_stands_in_its_place() -> None:
    theta, transformer = gated(), partial(GPT, MLP=SwiGLU)
    P = transformer(x, theta)
    assert P.shape == (11, 4) and not torch.allclose(P, GPT(x, theta_d()))
    trained = DTraining([x], theta, 1, 0.1, DTransformer=transformer)
    assert isinstance(trained.layers[1], GatedLayer) and not trained.layers[1].W_gate.equal(theta.layers[1].W_gate)
    assert DInference(x, theta, 2, 0, DTransformer=transformer).shape == (2,)
    silent = replace(theta, layers=tuple(replace(layer, W_gate=0 * layer.W_gate, b_mlp2=0 * layer.b_mlp2) for layer in theta.layers))
    nothing = replace(theta, layers=tuple(replace(layer, W_mlp2=0 * layer.W_mlp2, b_mlp2=0 * layer.b_mlp2) for layer in theta.layers))
    assert_close(transformer(x, silent), transformer(x, nothing), **exactly)


def test_parts_that_an_mlp_does_not_know_are_refused() -> None:
    """Neither Algorithm 10, whose line 8 is written out, nor the paper's MLP leaves a gate out in silence."""
    with pytest.raises(ValueError, match=r"theta: expected layers\.0 to be a Layer, got GatedLayer"):
        DTransformer(x, gated())
    with pytest.raises(ValueError, match="W: expected a MLPTheta, got GatedMLPTheta"):
        GPT(x, gated())
    with pytest.raises(ValueError, match="W: expected a GatedMLPTheta, got MLPTheta"):
        GPT(x, theta_d(), MLP=SwiGLU)


# The gated MLP that the package has ------------------------------------------------------------------------------------


def random_gated(seed: int) -> mlp.GatedMLPTheta:
    shapes = (13, 6), (13,), (6, 13), (6,), (13, 6), (13,)
    return mlp.GatedMLPTheta(*(normal(seed + i, *shape) for i, shape in enumerate(shapes)))


@given(seeds)
def test_silu_is_torchs(seed: int) -> None:
    A = 3 * normal(seed, 5, 7)
    assert_close(SiLU(A), torch.nn.functional.silu(A), **exactly)


def test_a_gate_by_hand() -> None:
    """x = 1: the gate is 2·1 + 1 = 3, the value 5·1 − 1 = 4; with the square for SiLU, 9 · 4 · 10 + 7."""
    one = torch.ones(1, 1).double()
    W = mlp.GatedMLPTheta(5 * one, -one[0], 10 * one, 7 * one[0], 2 * one, one[0])
    assert GatedMLP(one, W, SiLU=torch.square).item() == 367


@given(seeds)
def test_swiglu_and_geglu_are_torchs(seed: int) -> None:
    X, W = normal(seed, 6, 3), random_gated(seed)
    linear = torch.nn.functional.linear
    for ours, theirs in ((GatedMLP, torch.nn.SiLU()), (partial(GatedMLP, SiLU=tanh_GELU), torch.nn.GELU("tanh"))):
        hidden = theirs(linear(X.T, W.W_gate, W.b_gate)) * linear(X.T, W.W_mlp1, W.b_mlp1)
        assert_close(ours(X, W), linear(hidden, W.W_mlp2, W.b_mlp2).T, **exactly)


@given(seeds)
def test_a_gate_of_ones_is_the_plain_mlp(seed: int) -> None:
    """W_gate = 0, b_gate = 1 and the identity leave every unit as it is."""
    X, W = normal(seed, 6, 3), random_gated(seed)
    open_gate = replace(W, W_gate=0 * W.W_gate, b_gate=torch.ones_like(W.b_gate))
    plain = MLPTheta(W.W_mlp1, W.b_mlp1, W.W_mlp2, W.b_mlp2)
    assert_close(GatedMLP(X, open_gate, SiLU=lambda A: A), MLP(X, plain, GELU=lambda A: A), **exactly)


def test_a_decoder_trains_its_gates() -> None:
    theta = mlp.gated(theta_d(), rng(0))
    assert [layer.W_gate.shape for layer in theta.layers] == [(13, 6), (13, 6)]
    assert not theta.layers[0].W_gate.equal(theta.layers[1].W_gate) and not theta.layers[0].b_gate.any()
    trained = DTraining([x], theta, 1, 0.1, DTransformer=partial(GPT, MLP=GatedMLP))
    for layer, before in zip(trained.layers, theta.layers, strict=True):
        assert not layer.W_gate.equal(before.W_gate) and layer.b_gate.any()
