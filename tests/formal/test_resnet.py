"""The ResNet block of image patches, held against torch's convolutions and norms."""

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from tests.strategies import fill, normal, rng
from transalg.formal.resnet import ResNet, ResNetTheta, convolve, group_norm

SIZES = {"C_r": 6, "C": 2, "k_0": 6, "k": 3, "d_e": 7, "d_Z": 6 * 4 * 4}


def block(seed: int = 0, **sizes: int) -> ResNetTheta:
    return fill(ResNetTheta.draw(SIZES | sizes, rng(seed), torch.float64, None), seed)


@pytest.mark.parametrize("stride", [1, 2, 4, 8])
def test_a_convolution_is_torch_s(stride: int) -> None:
    K, A = normal(0, 5, 3, stride + 2, stride + 2), normal(1, 3, 16, 16)
    assert convolve(K, A, stride).shape == (5, 16 // stride, 16 // stride)
    assert_close(convolve(K, A, stride), F.conv2d(A[None], K, stride=stride, padding=1)[0])


@pytest.mark.parametrize("G", [1, 2, 3, 6])
def test_group_norm_is_torch_s(G: int) -> None:
    Z, gamma, beta = normal(0, 6, 5, 5), normal(1, 6), normal(2, 6)
    assert_close(group_norm(Z, gamma, beta, G, 0.1), F.group_norm(Z[None], G, gamma, beta, 0.1)[0])


def test_the_groups_of_a_norm_are_apart() -> None:
    Z, gamma, beta = normal(0, 6, 3, 3), normal(1, 6), normal(2, 6)
    moved = Z.clone()
    moved[4] += 1  # of the second of two groups
    one, other = (group_norm(each, gamma, beta, 2) for each in (Z, moved))
    assert one[:3].equal(other[:3]) and not torch.allclose(one[3:], other[3:])


def test_the_block_is_a_residual_block_of_the_second_kind() -> None:
    W, A = block(), normal(3, 2, 16, 16)
    Z = F.conv2d(A[None], W.K_0, stride=4, padding=1)
    Y = F.conv2d(F.gelu(F.group_norm(Z, 3, W.gamma1, W.beta1, 1e-5)), W.K_1, padding=1)
    Z = Z + F.conv2d(F.gelu(F.group_norm(Y, 3, W.gamma2, W.beta2, 1e-5)), W.K_2, padding=1)
    assert_close(ResNet(A, W, 3), W.W_z @ Z.flatten() + W.b_z)


def test_without_the_last_kernels_it_is_linear() -> None:
    """Nothing stands between what the residual connection carries and W_z."""
    W = block()
    W = ResNetTheta.from_named({name: 0 * part if name in ("K_2", "b_z") else part for name, part in W.named().items()})
    A, B = normal(3, 2, 16, 16), normal(4, 2, 16, 16)
    assert_close(ResNet(A + 2 * B, W, 3), ResNet(A, W, 3) + 2 * ResNet(B, W, 3))


def test_bad_input() -> None:
    with pytest.raises(ValueError, match="G: expected a divisor of C_r = 6, got 4"):
        ResNet(normal(3, 2, 16, 16), block(), 4)
    with pytest.raises(ValueError, match="A: expected C = 2"):
        ResNet(normal(3, 3, 16, 16), block(), 3)
    with pytest.raises(ValueError, match="kernels with k = 3"):
        block(k=5)
    with pytest.raises(ValueError, match="times a square of columns"):
        block(d_Z=6 * 15)
