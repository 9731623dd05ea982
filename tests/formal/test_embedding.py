"""The embedding as a component: another in its place brings parts of its own."""

from dataclasses import dataclass, replace
from functools import partial

import pytest
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.testing import assert_close

from tests.strategies import normal, theta_d
from transalg.formal import DTheta, DTraining, DTransformer
from transalg.formal.embedding import embed, scaled
from transalg.formal.systems import GPT

exactly = {"rtol": 0, "atol": 1e-13}
x = [9, 1, 2, 3]


@dataclass(frozen=True, eq=False, repr=False)
class ColouredTheta(DTheta):
    """θ with an embedding W_k of colours, as one would add it."""

    W_k: Float[Tensor, "d_e N_K"]


def coloured_embed(x: Int[Tensor, "ell"], theta: ColouredTheta, *, colours: list[int]) -> Tensor:
    return embed(x, theta) + theta.W_k[:, colours]


def test_it_is_lines_2_and_3() -> None:
    theta = theta_d()
    assert_close(embed(torch.tensor(x), theta), theta.W_e[:, x] + theta.W_p[:, :4], **exactly)
    doubled = GPT(x, theta, embed=lambda x, theta: 2 * embed(x, theta))
    assert_close(doubled, GPT(x, replace(theta, W_e=2 * theta.W_e, W_p=2 * theta.W_p)), **exactly)


def test_another_embedding_stands_in_its_place() -> None:
    theta = ColouredTheta.from_named(theta_d().named() | {"W_k": normal(0, 6, 3)})
    transformer = partial(GPT, embed=partial(coloured_embed, colours=[0, 1, 1, 2]))
    shifted = partial(GPT, embed=lambda x, plain: embed(x, plain) + theta.W_k[:, [0, 1, 1, 2]])
    assert_close(transformer(x, theta), shifted(x, theta_d()), **exactly)
    trained = DTraining([x], theta, 1, 0.1, DTransformer=transformer)
    assert type(trained) is ColouredTheta and not trained.W_k.equal(theta.W_k)


def test_parts_that_an_embedding_does_not_know_are_refused() -> None:
    theta = ColouredTheta.from_named(theta_d().named() | {"W_k": normal(0, 6, 3)})
    for transformer in (DTransformer, GPT, partial(GPT, embed=lambda x, theta: embed(x, theta))):
        with pytest.raises(ValueError, match="theta: expected a DTheta, got ColouredTheta"):
            transformer(x, theta)


def test_scaled_embeddings() -> None:
    theta = theta_d()
    assert_close(scaled(theta).W_e, 6**0.5 * theta.W_e, **exactly)
    assert scaled(theta).W_p.equal(theta.W_p)
