"""The ResNet block that makes a vector of an image patch (He et al. 2016, version 2), as Gato has it."""

from dataclasses import dataclass
from math import isqrt

import torch
from jaxtyping import Float
from torch import Tensor

from .domains import checked, epsilon, groups, refuse
from .notation import GELU
from .tree import Theta


@dataclass(frozen=True, eq=False, repr=False)
class ResNetTheta(Theta):
    """𝒲_res: three sets of kernels, two norms, and a last map to ℝ^{d_e}.

    The stride of K_0 is σ = k_0 − 2, so that a patch of n×n pixels becomes one of n/σ × n/σ; k = 3.
    """

    K_0: Float[Tensor, "C_r C k_0 k_0"]
    gamma1: Float[Tensor, "C_r"]
    beta1: Float[Tensor, "C_r"]
    K_1: Float[Tensor, "C_r C_r k k"]
    gamma2: Float[Tensor, "C_r"]
    beta2: Float[Tensor, "C_r"]
    K_2: Float[Tensor, "C_r C_r k k"]
    W_z: Float[Tensor, "d_e d_Z"]
    b_z: Float[Tensor, "d_e"]

    def __post_init__(self) -> None:
        super().__post_init__()
        sizes = self.sizes()
        if sizes["k"] != 3 or sizes["k_0"] < 3:
            got = f"{sizes['k']} and {sizes['k_0']}"
            raise refuse("theta", "kernels with k = 3, and k_0 = σ + 2 of at least 3", got)
        places, rest = divmod(sizes["d_Z"], sizes["C_r"])
        if rest or isqrt(places) ** 2 != places:
            expected = f"W_z with C_r = {sizes['C_r']} times a square of columns, one for every number of Z"
            raise refuse("theta", expected, sizes["d_Z"])

    @property
    def stride(self) -> int:
        """σ of K_0."""
        return self.K_0.shape[2] - 2


def convolve(
    K: Float[Tensor, "C_out C_in k k"], A: Float[Tensor, "C_in n n"], stride: int = 1
) -> Float[Tensor, "C_out m m"]:
    """(K ∗ A)[o,i,j] = Σ_{c,u,v} K[o,c,u,v] A[c, σ(i−1)+u−1, σ(j−1)+v−1], A = 0 outside; σ is the stride."""
    k = K.shape[2]
    padded = torch.nn.functional.pad(A, (1, 1, 1, 1))
    windows = padded.unfold(1, k, stride).unfold(2, k, stride)
    return torch.einsum("ocuv,cijuv->oij", K, windows)


@checked(G=groups, eps=epsilon)
def group_norm(
    Z: Float[Tensor, "C_r n n"],
    gamma: Float[Tensor, "C_r"],
    beta: Float[Tensor, "C_r"],
    G: int,
    eps: float = 1e-5,
) -> Float[Tensor, "C_r n n"]:
    """Variant of Algorithm 6: Ẑ ← group_norm(Z | γ, β)

    Normalizes an image: neighbouring channels form G groups, each with its own mean (Wu & He 2018).
    Input: Z ∈ ℝ^{C_r×n×n}, network activations.
    Output: Ẑ ∈ ℝ^{C_r×n×n}, normalized activations.
    Parameters: γ, β ∈ ℝ^{C_r}, scale and offset of every channel.
    Hyperparameters: G, a divisor of C_r; ε ∈ [0, ∞)
    """
    # 1: Y[g] ← the numbers of the g-th C_r/G channels of Z  ⟦Y ∈ ℝ^{G×n·n·C_r/G}⟧
    Y = Z.reshape(G, -1)
    # 2: ∀g: m[g] ← the mean of Y[g]  ⟦m ∈ ℝ^{G}⟧
    m = Y.sum(dim=1) / Y.shape[1]
    # 3: ∀g: v[g] ← the mean of (Y[g] − m[g])²  ⟦v ∈ ℝ^{G}⟧
    v = ((Y - m[:, None]) ** 2).sum(dim=1) / Y.shape[1]
    # 4: ∀g: Y[g] ← (Y[g] − m[g])/√(v[g] + ε)
    Y = (Y - m[:, None]) / torch.sqrt(v + eps)[:, None]
    # 5: return Ẑ = Y ⊙ γ + β, channel by channel  ⟦Ẑ ∈ ℝ^{C_r×n×n}⟧
    return Y.reshape(Z.shape) * gamma[:, None, None] + beta[:, None, None]


@checked(G=groups, eps=epsilon)
def ResNet(
    A: Float[Tensor, "C n n"],
    W: ResNetTheta,
    G: int,
    eps: float = 1e-5,
) -> Float[Tensor, "d_e"]:
    """Variant of Algorithm 1: e ← ResNet(A | 𝒲_res)

    The embedding of an image patch: a residual block, norms and activations before its convolutions.
    Input: A ∈ ℝ^{C×n×n}, the pixels of a patch.
    Output: e ∈ ℝ^{d_e}, the vector representation of the patch.
    Parameters: 𝒲_res consisting of K_0 ∈ ℝ^{C_r×C×k_0×k_0}, K_1, K_2 ∈ ℝ^{C_r×C_r×3×3}, γ^1, β^1, γ^2,
    β^2 ∈ ℝ^{C_r}, W_z ∈ ℝ^{d_e×d_Z}, b_z ∈ ℝ^{d_e}.
    Hyperparameters: G, the groups of group_norm; ε.
    """
    # 1: Z ← K_0 ∗ A with stride σ  ⟦Z ∈ ℝ^{C_r×n/σ×n/σ}⟧
    Z = convolve(W.K_0, A, W.stride)
    # 2: Y ← K_1 ∗ GELU(group_norm(Z | γ^1, β^1))  ⟦Y ∈ ℝ^{C_r×n/σ×n/σ}⟧
    Y = convolve(W.K_1, GELU(group_norm(Z, W.gamma1, W.beta1, G, eps)))
    # 3: Z ← Z + K_2 ∗ GELU(group_norm(Y | γ^2, β^2))
    Z = Z + convolve(W.K_2, GELU(group_norm(Y, W.gamma2, W.beta2, G, eps)))
    # 4: return e = W_z vec(Z) + b_z  ⟦e ∈ ℝ^{d_e}⟧
    return W.W_z @ Z.flatten() + W.b_z
