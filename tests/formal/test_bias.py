"""Projections without biases: θ with 0 in their places, and systems that refuse anything else."""

from dataclasses import replace

import pytest
import torch
from torch.testing import assert_close

from tests.strategies import D, fill, normal, rng, theta_d
from transalg.formal import DTransformer, EDTheta, ETheta, MHAttention, unidirectional
from transalg.formal.bias import BIASES, unbiased
from transalg.formal.decoders import Llama, LlamaTheta, Qwen2
from transalg.formal.mlp import MLP
from transalg.formal.positions import rotary_frequencies

exactly = {"rtol": 0, "atol": 1e-12}
OMEGA = rotary_frequencies(4)


def biases(theta: object) -> dict[str, bool]:
    """Whether each bias of a layer has a number other than 0."""
    named = theta.named()  # type: ignore[attr-defined]
    return {name: bool(part.any()) for name, part in named.items() if "." in name and name.rpartition(".")[2].startswith("b_")}


@pytest.mark.parametrize("theta", [theta_d(), fill(ETheta.init(**D, L=2, d_f=5), 0), fill(EDTheta.init(**D, L_enc=2, L_dec=1), 0)])
def test_which_biases_stay(theta: object) -> None:
    assert all(biases(theta).values())
    for bias, staying in {"all": ("b_",), "qkv": ("b_q", "b_k", "b_v"), "none": ()}.items():
        left = unbiased(theta, bias)
        for name, any_left in biases(left).items():
            assert any_left == name.rpartition(".")[2].startswith(staying), f"{name} with {bias}"
        for name, part in left.named().items():
            assert name in biases(theta) or part.equal(theta.named()[name]), f"{name} is no bias of a layer"
    assert set(BIASES) == {"all", "qkv", "none"} and not any(biases(unbiased(theta)).values()), "none unless another is given"


def test_layers_without_biases_by_hand() -> None:
    """W_o [V softmax(KᵀQ/√d)] and W_mlp2 GELU(W_mlp1 X), nothing added."""
    theta, X = unbiased(theta_d()), normal(0, 6, 4)
    W, layer = theta.layers[0].W, theta.layers[0]
    Y = []
    for h in range(2):
        S = (W.W_k[h] @ X).T @ (W.W_q[h] @ X) / 5**0.5
        weights = torch.softmax(S.masked_fill(~unidirectional(4), -torch.inf), dim=0)
        Y.append(W.W_v[h] @ X @ weights)
    assert_close(MHAttention(X, X, W, unidirectional(4)), W.W_o @ torch.cat(Y), **exactly)
    assert_close(MLP(X, layer.mlp), layer.W_mlp2 @ torch.nn.functional.gelu(layer.W_mlp1 @ X), **exactly)


def test_taking_them_away_twice_is_as_once() -> None:
    theta = theta_d()
    assert DTransformer([1, 2], unbiased(unbiased(theta))).equal(DTransformer([1, 2], unbiased(theta)))
    assert not torch.allclose(DTransformer([1, 2], unbiased(theta)), DTransformer([1, 2], theta))


def llama(bias: str) -> LlamaTheta:
    sizes = {"N_V": 11, "ell_max": 7, "H": 6, "H_kv": 2, "d_e": 5, "d_mlp": 13, "d_attn": 4, "d_mid": 3}
    return unbiased(fill(LlamaTheta.init(**sizes, L=2, generator=rng(0)), 0), bias)


@pytest.mark.parametrize("name", ["W.b_q", "W.b_k", "W.b_v", "W.b_o", "b_mlp1", "b_mlp2", "b_gate"])
def test_a_system_refuses_biases_that_it_would_leave_out(name: str) -> None:
    theta = llama("none")
    assert Llama([1, 2], theta, omega=OMEGA).shape == (11, 2)
    named = theta.named()
    part = named[f"layers.1.{name}"].clone()
    part.view(-1)[-1] = 0.5
    biased = LlamaTheta.from_named(named | {f"layers.1.{name}": part})
    with pytest.raises(ValueError, match=rf"theta: expected layers\.1\.{name} = 0, for this system has no such bias; see unbiased"):
        Llama([1, 2], biased, omega=OMEGA)
    if name in ("W.b_q", "W.b_k", "W.b_v"):
        assert not torch.allclose(Qwen2([1, 2], biased, omega=OMEGA), Qwen2([1, 2], theta, omega=OMEGA))
    else:
        with pytest.raises(ValueError, match=rf"theta: expected layers\.1\.{name} = 0"):
            Qwen2([1, 2], biased, omega=OMEGA)


def test_an_unknown_choice_is_refused() -> None:
    with pytest.raises(ValueError, match="bias: expected all or qkv or none, got 'q'"):
        unbiased(theta_d(), "q")
    assert replace(theta_d()).named().keys() == unbiased(theta_d()).named().keys()
