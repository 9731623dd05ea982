"""Layers that share their parameters: a map on θ."""

import pytest
import torch
from torch.func import grad

from tests.strategies import fill
from tests.tolerance import PROMISED
from transalg.formal import DTheta, DTransformer, EDTheta
from transalg.formal.sharing import shared

SIZES = {"N_V": 13, "ell_max": 7, "H": 3, "d_e": 6, "d_mlp": 11}


def test_layers_that_share_are_the_first_of_them() -> None:
    theta = fill(DTheta.init(L=5, **SIZES), 0)
    assert [next(l for l in range(5) if layer is theta.layers[l]) for layer in shared(theta, 2).layers] == [0, 0, 2, 2, 4]
    assert all(layer is theta.layers[0] for layer in shared(theta, 7).layers)
    assert shared(theta, 1).layers == theta.layers
    pair = fill(EDTheta.init(L_enc=3, L_dec=2, **SIZES), 1)
    assert [layer is pair.enc[0] for layer in shared(pair, 2).enc] == [True, True, False]
    assert all(layer is pair.dec[0] for layer in shared(pair, 2).dec)


def test_the_first_has_the_gradient_of_all() -> None:
    """By the chain rule it is the sum of those that the layers have where they are equal but apart."""
    theta, x = fill(DTheta.init(L=3, **SIZES), 2), torch.tensor([11, 3, 5])
    together = grad(lambda theta: DTransformer(x, shared(theta, 3)).log().square().sum())(theta)
    apart = grad(lambda theta: DTransformer(x, theta).log().square().sum())(shared(theta, 3))
    for name, part in together.layers[0].named().items():
        assert torch.allclose(part, sum(layer.named()[name] for layer in apart.layers), rtol=PROMISED, atol=PROMISED), name
    assert not any(part.any() for layer in together.layers[1:] for part in layer.named().values())


@pytest.mark.parametrize("n", [0, -1, True])
def test_a_number_of_layers(n: int) -> None:
    with pytest.raises(ValueError, match="n: expected a number of layers, 1 or more, got "):
        shared(DTheta.init(L=2, **SIZES), n)
