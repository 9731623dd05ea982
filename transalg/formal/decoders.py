"""Today's decoders: Algorithm 10 with some of its lines replaced, each under the number it has there.

Positions are rotary, so W_p of θ is not used. What a system does without, biases or an offset β, θ has as 0:
`unbiased(theta)`. `transalg algorithm Llama` shows a system as its difference from Algorithm 10.
"""

from dataclasses import dataclass
from functools import partial
from math import sqrt

from jaxtyping import Float, Int
from torch import Tensor

from .bias import without_biases
from .components import MHAttention, layer_norm
from .domains import checked, epsilon, tokens
from .heads import GroupedMHAttention, GroupedMHAttentionTheta, NormedAttention, NormedMHAttentionTheta
from .mask import banded, unidirectional
from .mlp import GatedLayer, SiLU, tanh_GELU
from .norm import RMSnorm, RMSnorm_1p
from .notation import GELU, columns, length, softmax
from .positions import RotaryAttention, rotate
from .theta import DTheta


@dataclass(frozen=True, eq=False, repr=False)
class LlamaLayer(GatedLayer):
    """A layer with grouped queries and a gate."""

    W: GroupedMHAttentionTheta


@dataclass(frozen=True, eq=False, repr=False)
class LlamaTheta(DTheta):
    """θ of Algorithm 10 with grouped queries and a gate in every layer."""

    layers: tuple[LlamaLayer, ...]


@dataclass(frozen=True, eq=False, repr=False)
class Qwen3Layer(GatedLayer):
    """A layer with grouped queries, norms of queries and keys, and a gate."""

    W: NormedMHAttentionTheta


@dataclass(frozen=True, eq=False, repr=False)
class Qwen3Theta(DTheta):
    """θ of Algorithm 10 with grouped queries, norms of queries and keys, and a gate in every layer."""

    layers: tuple[Qwen3Layer, ...]


@checked(theta=without_biases(LlamaTheta, "none"), x=tokens, eps=epsilon)
def Llama(
    x: Int[Tensor, "ell"],
    theta: LlamaTheta,
    *,
    omega: Float[Tensor, "n"],
    eps: float = 1e-5,
) -> Float[Tensor, "N_V ell"]:
    """Variant of Algorithm 10: P ← Llama(x | θ)

    Llama 2 and 3 (Touvron et al. 2023), TinyLlama, SmolLM 2.
    Input: x ∈ V*, a sequence of token IDs.
    Output: P ∈ (0,1)^{N_V×length(x)}, where the t-th column of P represents P̂_θ(x[t+1] | x[1:t]).
    Hyperparameters: as in Algorithm 10; ω, see rotary_frequencies; ε.
    Parameters: θ, see LlamaTheta.
    """
    # 1: ℓ ← length(x)
    ell = length(x)
    # 2: for t∈[ℓ]: e_t ← W_e[:,x[t]]  ⟦e_t ∈ ℝ^{d_e}⟧
    e = [theta.W_e[:, x[t]] for t in range(ell)]
    # 3: X ← [e_1, e_2, …, e_ℓ]  ⟦X ∈ ℝ^{d_e×ℓ}⟧
    X = columns(e)
    # 4: for l = 1, 2, …, L do
    for l, layer in enumerate(theta.layers):
        # 5: for t∈[ℓ]: X̃[:,t] ← RMSnorm(X[:,t] | γ_l^1)  ⟦X̃ ∈ ℝ^{d_e×ℓ}⟧
        X_tilde = columns(RMSnorm(X[:, t], layer.gamma1, eps=eps) for t in range(ell))
        # 6: X ← X + GroupedMHAttention(X̃ | 𝒲_l, Mask[t,t′]=⟦t ≤ t′⟧) with RotaryAttention(ω)
        head = partial(RotaryAttention, omega=omega)
        X = X + GroupedMHAttention(X_tilde, X_tilde, layer.W, unidirectional(ell), Attention=head)
        # 7: for t∈[ℓ]: X̃[:,t] ← RMSnorm(X[:,t] | γ_l^2)
        X_tilde = columns(RMSnorm(X[:, t], layer.gamma2, eps=eps) for t in range(ell))
        # 8: X ← X + W_mlp2^l (SiLU(W_gate^l X̃) ⊙ W_mlp1^l X̃)
        X = X + layer.W_mlp2 @ (SiLU(layer.W_gate @ X_tilde) * (layer.W_mlp1 @ X_tilde))
    # 9: end
    # 10: for t∈[ℓ]: X[:,t] ← RMSnorm(X[:,t] | γ)
    X = columns(RMSnorm(X[:, t], theta.gamma, eps=eps) for t in range(ell))
    # 11: return P = softmax(W_u X)  ⟦P ∈ ℝ^{N_V×ℓ}⟧
    return softmax(theta.W_u @ X)


@checked(theta=without_biases(LlamaTheta, "none"), x=tokens, eps=epsilon)
def Mistral(
    x: Int[Tensor, "ell"],
    theta: LlamaTheta,
    *,
    omega: Float[Tensor, "n"],
    w: int,
    eps: float = 1e-5,
) -> Float[Tensor, "N_V ell"]:
    """Variant of Algorithm 10: P ← Mistral(x | θ)

    Mistral 7B (Jiang et al. 2023): Llama with a sliding window in every layer.
    Input: x ∈ V*, a sequence of token IDs.
    Output: P ∈ (0,1)^{N_V×length(x)}, where the t-th column of P represents P̂_θ(x[t+1] | x[1:t]).
    Hyperparameters: as in Algorithm 10; ω, see rotary_frequencies; w, the width of the window; ε.
    Parameters: θ, see LlamaTheta.
    """
    # 1: ℓ ← length(x)
    ell = length(x)
    # 2: for t∈[ℓ]: e_t ← W_e[:,x[t]]  ⟦e_t ∈ ℝ^{d_e}⟧
    e = [theta.W_e[:, x[t]] for t in range(ell)]
    # 3: X ← [e_1, e_2, …, e_ℓ]  ⟦X ∈ ℝ^{d_e×ℓ}⟧
    X = columns(e)
    # 4: for l = 1, 2, …, L do
    for l, layer in enumerate(theta.layers):
        # 5: for t∈[ℓ]: X̃[:,t] ← RMSnorm(X[:,t] | γ_l^1)  ⟦X̃ ∈ ℝ^{d_e×ℓ}⟧
        X_tilde = columns(RMSnorm(X[:, t], layer.gamma1, eps=eps) for t in range(ell))
        # 6: X ← X + GroupedMHAttention(X̃ | 𝒲_l, Mask[t,t′]=⟦t′ − w < t ≤ t′⟧) with RotaryAttention(ω)
        head = partial(RotaryAttention, omega=omega)
        X = X + GroupedMHAttention(X_tilde, X_tilde, layer.W, banded(ell, w), Attention=head)
        # 7: for t∈[ℓ]: X̃[:,t] ← RMSnorm(X[:,t] | γ_l^2)
        X_tilde = columns(RMSnorm(X[:, t], layer.gamma2, eps=eps) for t in range(ell))
        # 8: X ← X + W_mlp2^l (SiLU(W_gate^l X̃) ⊙ W_mlp1^l X̃)
        X = X + layer.W_mlp2 @ (SiLU(layer.W_gate @ X_tilde) * (layer.W_mlp1 @ X_tilde))
    # 9: end
    # 10: for t∈[ℓ]: X[:,t] ← RMSnorm(X[:,t] | γ)
    X = columns(RMSnorm(X[:, t], theta.gamma, eps=eps) for t in range(ell))
    # 11: return P = softmax(W_u X)  ⟦P ∈ ℝ^{N_V×ℓ}⟧
    return softmax(theta.W_u @ X)


@checked(theta=without_biases(LlamaTheta, "qkv"), x=tokens, eps=epsilon)
def Qwen2(
    x: Int[Tensor, "ell"],
    theta: LlamaTheta,
    *,
    omega: Float[Tensor, "n"],
    eps: float = 1e-5,
) -> Float[Tensor, "N_V ell"]:
    """Variant of Algorithm 10: P ← Qwen2(x | θ)

    Qwen 2 and 2.5 (Yang et al. 2024): Llama with biases of queries, keys and values.
    Input: x ∈ V*, a sequence of token IDs.
    Output: P ∈ (0,1)^{N_V×length(x)}, where the t-th column of P represents P̂_θ(x[t+1] | x[1:t]).
    Hyperparameters: as in Algorithm 10; ω, see rotary_frequencies; ε.
    Parameters: θ, see LlamaTheta.
    """
    # 1: ℓ ← length(x)
    ell = length(x)
    # 2: for t∈[ℓ]: e_t ← W_e[:,x[t]]  ⟦e_t ∈ ℝ^{d_e}⟧
    e = [theta.W_e[:, x[t]] for t in range(ell)]
    # 3: X ← [e_1, e_2, …, e_ℓ]  ⟦X ∈ ℝ^{d_e×ℓ}⟧
    X = columns(e)
    # 4: for l = 1, 2, …, L do
    for l, layer in enumerate(theta.layers):
        # 5: for t∈[ℓ]: X̃[:,t] ← RMSnorm(X[:,t] | γ_l^1)  ⟦X̃ ∈ ℝ^{d_e×ℓ}⟧
        X_tilde = columns(RMSnorm(X[:, t], layer.gamma1, eps=eps) for t in range(ell))
        # 6: X ← X + GroupedMHAttention(X̃ | 𝒲_l, Mask[t,t′]=⟦t ≤ t′⟧) with RotaryAttention(ω)
        head = partial(RotaryAttention, omega=omega)
        X = X + GroupedMHAttention(X_tilde, X_tilde, layer.W, unidirectional(ell), Attention=head)
        # 7: for t∈[ℓ]: X̃[:,t] ← RMSnorm(X[:,t] | γ_l^2)
        X_tilde = columns(RMSnorm(X[:, t], layer.gamma2, eps=eps) for t in range(ell))
        # 8: X ← X + W_mlp2^l (SiLU(W_gate^l X̃) ⊙ W_mlp1^l X̃)
        X = X + layer.W_mlp2 @ (SiLU(layer.W_gate @ X_tilde) * (layer.W_mlp1 @ X_tilde))
    # 9: end
    # 10: for t∈[ℓ]: X[:,t] ← RMSnorm(X[:,t] | γ)
    X = columns(RMSnorm(X[:, t], theta.gamma, eps=eps) for t in range(ell))
    # 11: return P = softmax(W_u X)  ⟦P ∈ ℝ^{N_V×ℓ}⟧
    return softmax(theta.W_u @ X)


@checked(theta=without_biases(Qwen3Theta, "none"), x=tokens, eps=epsilon)
def Qwen3(
    x: Int[Tensor, "ell"],
    theta: Qwen3Theta,
    *,
    omega: Float[Tensor, "n"],
    eps: float = 1e-5,
) -> Float[Tensor, "N_V ell"]:
    """Variant of Algorithm 10: P ← Qwen3(x | θ)

    Qwen 3 (Yang et al. 2025): Llama with norms of queries and keys.
    Input: x ∈ V*, a sequence of token IDs.
    Output: P ∈ (0,1)^{N_V×length(x)}, where the t-th column of P represents P̂_θ(x[t+1] | x[1:t]).
    Hyperparameters: as in Algorithm 10; ω, see rotary_frequencies; ε.
    Parameters: θ, see Qwen3Theta.
    """
    # 1: ℓ ← length(x)
    ell = length(x)
    # 2: for t∈[ℓ]: e_t ← W_e[:,x[t]]  ⟦e_t ∈ ℝ^{d_e}⟧
    e = [theta.W_e[:, x[t]] for t in range(ell)]
    # 3: X ← [e_1, e_2, …, e_ℓ]  ⟦X ∈ ℝ^{d_e×ℓ}⟧
    X = columns(e)
    # 4: for l = 1, 2, …, L do
    for l, layer in enumerate(theta.layers):
        # 5: for t∈[ℓ]: X̃[:,t] ← RMSnorm(X[:,t] | γ_l^1)  ⟦X̃ ∈ ℝ^{d_e×ℓ}⟧
        X_tilde = columns(RMSnorm(X[:, t], layer.gamma1, eps=eps) for t in range(ell))
        # 6: X ← X + GroupedMHAttention(X̃ | 𝒲_l, Mask[t,t′]=⟦t ≤ t′⟧) with NormedAttention(ω)
        head = partial(NormedAttention, eps=eps, rotate=partial(rotate, omega=omega))
        X = X + GroupedMHAttention(X_tilde, X_tilde, layer.W, unidirectional(ell), Attention=head)
        # 7: for t∈[ℓ]: X̃[:,t] ← RMSnorm(X[:,t] | γ_l^2)
        X_tilde = columns(RMSnorm(X[:, t], layer.gamma2, eps=eps) for t in range(ell))
        # 8: X ← X + W_mlp2^l (SiLU(W_gate^l X̃) ⊙ W_mlp1^l X̃)
        X = X + layer.W_mlp2 @ (SiLU(layer.W_gate @ X_tilde) * (layer.W_mlp1 @ X_tilde))
    # 9: end
    # 10: for t∈[ℓ]: X[:,t] ← RMSnorm(X[:,t] | γ)
    X = columns(RMSnorm(X[:, t], theta.gamma, eps=eps) for t in range(ell))
    # 11: return P = softmax(W_u X)  ⟦P ∈ ℝ^{N_V×ℓ}⟧
    return softmax(theta.W_u @ X)


@checked(theta=without_biases(LlamaTheta, "none"), x=tokens, eps=epsilon)
def Gemma(
    x: Int[Tensor, "ell"],
    theta: LlamaTheta,
    *,
    omega: Float[Tensor, "n"],
    eps: float = 1e-5,
) -> Float[Tensor, "N_V ell"]:
    """Variant of Algorithm 10: P ← Gemma(x | θ)

    Gemma (Gemma Team 2024): scaled embeddings, norms with 1 + γ, GELU in the gate, W_u = W_eᵀ.
    Input: x ∈ V*, a sequence of token IDs.
    Output: P ∈ (0,1)^{N_V×length(x)}, where the t-th column of P represents P̂_θ(x[t+1] | x[1:t]).
    Hyperparameters: as in Algorithm 10; ω, see rotary_frequencies; ε.
    Parameters: θ, see LlamaTheta.
    """
    # 1: ℓ ← length(x)
    ell = length(x)
    # 2: for t∈[ℓ]: e_t ← √d_e W_e[:,x[t]]  ⟦e_t ∈ ℝ^{d_e}⟧
    e = [sqrt(len(theta.W_e)) * theta.W_e[:, x[t]] for t in range(ell)]
    # 3: X ← [e_1, e_2, …, e_ℓ]  ⟦X ∈ ℝ^{d_e×ℓ}⟧
    X = columns(e)
    # 4: for l = 1, 2, …, L do
    for l, layer in enumerate(theta.layers):
        # 5: for t∈[ℓ]: X̃[:,t] ← RMSnorm_1p(X[:,t] | γ_l^1)  ⟦X̃ ∈ ℝ^{d_e×ℓ}⟧
        X_tilde = columns(RMSnorm_1p(X[:, t], layer.gamma1, eps=eps) for t in range(ell))
        # 6: X ← X + GroupedMHAttention(X̃ | 𝒲_l, Mask[t,t′]=⟦t ≤ t′⟧) with RotaryAttention(ω)
        head = partial(RotaryAttention, omega=omega)
        X = X + GroupedMHAttention(X_tilde, X_tilde, layer.W, unidirectional(ell), Attention=head)
        # 7: for t∈[ℓ]: X̃[:,t] ← RMSnorm_1p(X[:,t] | γ_l^2)
        X_tilde = columns(RMSnorm_1p(X[:, t], layer.gamma2, eps=eps) for t in range(ell))
        # 8: X ← X + W_mlp2^l (tanh_GELU(W_gate^l X̃) ⊙ W_mlp1^l X̃)
        X = X + layer.W_mlp2 @ (tanh_GELU(layer.W_gate @ X_tilde) * (layer.W_mlp1 @ X_tilde))
    # 9: end
    # 10: for t∈[ℓ]: X[:,t] ← RMSnorm_1p(X[:,t] | γ)
    X = columns(RMSnorm_1p(X[:, t], theta.gamma, eps=eps) for t in range(ell))
    # 11: return P = softmax(W_eᵀ X)  ⟦P ∈ ℝ^{N_V×ℓ}⟧
    return softmax(theta.W_e.T @ X)


@checked(x=tokens, eps=epsilon)
def GPTNeoX(
    x: Int[Tensor, "ell"],
    theta: DTheta,
    *,
    omega: Float[Tensor, "n"],
    eps: float = 1e-5,
) -> Float[Tensor, "N_V ell"]:
    """Variant of Algorithm 10: P ← GPTNeoX(x | θ)

    GPT-NeoX (Black et al. 2022), Pythia: attention and MLP side by side, some components turn.
    Input: x ∈ V*, a sequence of token IDs.
    Output: P ∈ (0,1)^{N_V×length(x)}, where the t-th column of P represents P̂_θ(x[t+1] | x[1:t]).
    Hyperparameters: as in Algorithm 10; ω, see rotary_frequencies; ε.
    Parameters: θ, see DTheta.
    """
    # 1: ℓ ← length(x)
    ell = length(x)
    # 2: for t∈[ℓ]: e_t ← W_e[:,x[t]]  ⟦e_t ∈ ℝ^{d_e}⟧
    e = [theta.W_e[:, x[t]] for t in range(ell)]
    # 3: X ← [e_1, e_2, …, e_ℓ]  ⟦X ∈ ℝ^{d_e×ℓ}⟧
    X = columns(e)
    # 4: for l = 1, 2, …, L do
    for l, layer in enumerate(theta.layers):
        # 5: for t∈[ℓ]: X̃[:,t] ← layer_norm(X[:,t] | γ_l^1, β_l^1)  ⟦X̃ ∈ ℝ^{d_e×ℓ}⟧
        X_tilde = columns(layer_norm(X[:, t], layer.gamma1, layer.beta1, eps) for t in range(ell))
        # 6: Y ← MHAttention(X̃ | 𝒲_l, Mask[t,t′]=⟦t ≤ t′⟧) with RotaryAttention(ω)  ⟦Y ∈ ℝ^{d_e×ℓ}⟧
        head = partial(RotaryAttention, omega=omega)
        Y = MHAttention(X_tilde, X_tilde, layer.W, unidirectional(ell), Attention=head)
        # 7: for t∈[ℓ]: X̃[:,t] ← layer_norm(X[:,t] | γ_l^2, β_l^2)
        X_tilde = columns(layer_norm(X[:, t], layer.gamma2, layer.beta2, eps) for t in range(ell))
        # 8: X ← X + Y + W_mlp2^l GELU(W_mlp1^l X̃ + b_mlp1^l 1ᵀ) + b_mlp2^l 1ᵀ
        A = GELU(layer.W_mlp1 @ X_tilde + layer.b_mlp1[:, None])
        X = X + Y + layer.W_mlp2 @ A + layer.b_mlp2[:, None]
    # 9: end
    # 10: for t∈[ℓ]: X[:,t] ← layer_norm(X[:,t] | γ, β)
    X = columns(layer_norm(X[:, t], theta.gamma, theta.beta, eps) for t in range(ell))
    # 11: return P = softmax(W_u X)  ⟦P ∈ ℝ^{N_V×ℓ}⟧
    return softmax(theta.W_u @ X)
