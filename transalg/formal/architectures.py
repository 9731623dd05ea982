"""Algorithms 8–10: the encoder–decoder, the encoder-only and the decoder-only transformer (§6).

Each takes the components it calls by keyword, under the paper's names: a variant is the algorithm with another one in its
place, `DTransformer(x, theta, layer_norm=RMSnorm)`, and its lines stay as they are.
"""

from collections.abc import Callable
from typing import Any

from jaxtyping import Float, Int
from torch import Tensor

from .components import MHAttention, layer_norm
from .domains import checked, epsilon, masks, parameters, tokens
from .notation import GELU, ReLU, bidirectional, columns, length, softmax, unidirectional
from .theta import DTheta, EDTheta, ETheta

Norm = Callable[[Tensor, Tensor, Tensor, float], Tensor]  # ê ← layer_norm(e | γ, β), ε last
MultiHead = Callable[[Tensor, Tensor, Any, Tensor], Tensor]  # Ṽ ← MHAttention(X, Z | 𝒲, Mask)
Activation = Callable[[Tensor], Tensor]  # ReLU or GELU, element by element
Masks = Callable[[int, int], Tensor]  # Mask ∈ {0,1}^{ℓ×ℓ} from ℓ and the layer l


@checked(theta=parameters(EDTheta), z=tokens, x=tokens, eps=epsilon)
def EDTransformer(
    z: Int[Tensor, "ell_z"], x: Int[Tensor, "ell_x"], theta: EDTheta, *, eps: float = 1e-5, layer_norm: Norm = layer_norm, MHAttention: MultiHead = MHAttention, ReLU: Activation = ReLU
) -> Float[Tensor, "N_V ell_x"]:
    """Algorithm 8: P ← EDTransformer(z, x | θ)

    Encoder-decoder transformer forward pass.
    Input: z, x ∈ V*, two sequences of token IDs.
    Output: P ∈ (0,1)^{N_V×length(x)}, where the t-th column of P represents P̂_θ(x[t+1] | x[1:t], z).
    Hyperparameters: ℓ_max, L_enc, L_dec, H, d_e, d_mlp, d_attn, d_mid ∈ ℕ, read off θ; ε.
    Parameters: θ, see EDTheta.
    """
    ell_z = length(z)  # 1: ℓ_z ← length(z)
    e = [theta.W_e[:, z[t]] + theta.W_p[:, t] for t in range(ell_z)]  # 2: for t∈[ℓ_z]: e_t ← W_e[:,z[t]] + W_p[:,t]  ⟦e_t ∈ ℝ^{d_e}⟧
    Z = columns(e)  # 3: Z ← [e_1, e_2, …, e_{ℓ_z}]  ⟦Z ∈ ℝ^{d_e×ℓ_z}⟧
    for l, layer in enumerate(theta.enc):  # 4: for l = 1, 2, …, L_enc do
        Z = Z + MHAttention(Z, Z, layer.W, bidirectional(ell_z, ell_z))  # 5: Z ← Z + MHAttention(Z | 𝒲_l^enc, Mask≡1)
        Z = columns(layer_norm(Z[:, t], layer.gamma1, layer.beta1, eps) for t in range(ell_z))  # 6: for t∈[ℓ_z]: Z[:,t] ← layer_norm(Z[:,t] | γ_l^1, β_l^1)
        Z = Z + layer.W_mlp2 @ ReLU(layer.W_mlp1 @ Z + layer.b_mlp1[:, None]) + layer.b_mlp2[:, None]  # 7: Z ← Z + W_mlp2^l ReLU(W_mlp1^l Z + b_mlp1^l 1ᵀ) + b_mlp2^l 1ᵀ
        Z = columns(layer_norm(Z[:, t], layer.gamma2, layer.beta2, eps) for t in range(ell_z))  # 8: for t∈[ℓ_z]: Z[:,t] ← layer_norm(Z[:,t] | γ_l^2, β_l^2)
    # 9: end
    ell_x = length(x)  # 10: ℓ_x ← length(x)
    e = [theta.W_e[:, x[t]] + theta.W_p[:, t] for t in range(ell_x)]  # 11: for t∈[ℓ_x]: e_t ← W_e[:,x[t]] + W_p[:,t]
    X = columns(e)  # 12: X ← [e_1, e_2, …, e_{ℓ_x}]  ⟦X ∈ ℝ^{d_e×ℓ_x}⟧
    for l, layer in enumerate(theta.dec):  # 13: for l = 1, 2, …, L_dec do  (erratum 2)
        X = X + MHAttention(X, X, layer.W_dec, unidirectional(ell_x))  # 14: X ← X + MHAttention(X | 𝒲_l^dec, Mask[t,t′]≡⟦t ≤ t′⟧)
        X = columns(layer_norm(X[:, t], layer.gamma3, layer.beta3, eps) for t in range(ell_x))  # 15: for t∈[ℓ_x]: X[:,t] ← layer_norm(X[:,t] | γ_l^3, β_l^3)
        X = X + MHAttention(X, Z, layer.W_ed, bidirectional(ell_z, ell_x))  # 16: X ← X + MHAttention(X, Z | 𝒲_l^e/d, Mask≡1)
        X = columns(layer_norm(X[:, t], layer.gamma4, layer.beta4, eps) for t in range(ell_x))  # 17: for t∈[ℓ_x]: X[:,t] ← layer_norm(X[:,t] | γ_l^4, β_l^4)
        X = X + layer.W_mlp4 @ ReLU(layer.W_mlp3 @ X + layer.b_mlp3[:, None]) + layer.b_mlp4[:, None]  # 18: X ← X + W_mlp4^l ReLU(W_mlp3^l X + b_mlp3^l 1ᵀ) + b_mlp4^l 1ᵀ
        X = columns(layer_norm(X[:, t], layer.gamma5, layer.beta5, eps) for t in range(ell_x))  # 19: for t∈[ℓ_x]: X[:,t] ← layer_norm(X[:,t] | γ_l^5, β_l^5)
    # 20: end
    return softmax(theta.W_u @ X)  # 21: return P = softmax(W_u X)  ⟦P ∈ ℝ^{N_V×ℓ_x}⟧


@checked(theta=parameters(ETheta), x=tokens, eps=epsilon)
def ETransformer(x: Int[Tensor, "ell"], theta: ETheta, *, eps: float = 1e-5, layer_norm: Norm = layer_norm, MHAttention: MultiHead = MHAttention, GELU: Activation = GELU) -> Float[Tensor, "N_V ell"]:
    """Algorithm 9: P ← ETransformer(x | θ)

    BERT, an encoder-only transformer, forward pass.
    Input: x ∈ V*, a sequence of token IDs.
    Output: P ∈ (0,1)^{N_V×length(x)}, where each column of P is a distribution over the vocabulary.
    Hyperparameters: ℓ_max, L, H, d_e, d_mlp, d_f, d_attn, d_mid ∈ ℕ, read off θ; ε.
    Parameters: θ, see ETheta.
    """
    ell = length(x)  # 1: ℓ ← length(x)
    e = [theta.W_e[:, x[t]] + theta.W_p[:, t] for t in range(ell)]  # 2: for t∈[ℓ]: e_t ← W_e[:,x[t]] + W_p[:,t]  ⟦e_t ∈ ℝ^{d_e}⟧
    X = columns(e)  # 3: X ← [e_1, e_2, …, e_ℓ]  ⟦X ∈ ℝ^{d_e×ℓ}⟧
    for l, layer in enumerate(theta.layers):  # 4: for l = 1, 2, …, L do
        X = X + MHAttention(X, X, layer.W, bidirectional(ell, ell))  # 5: X ← X + MHAttention(X | 𝒲_l, Mask≡1)
        X = columns(layer_norm(X[:, t], layer.gamma1, layer.beta1, eps) for t in range(ell))  # 6: for t∈[ℓ]: X[:,t] ← layer_norm(X[:,t] | γ_l^1, β_l^1)
        X = X + layer.W_mlp2 @ GELU(layer.W_mlp1 @ X + layer.b_mlp1[:, None]) + layer.b_mlp2[:, None]  # 7: X ← X + W_mlp2^l GELU(W_mlp1^l X + b_mlp1^l 1ᵀ) + b_mlp2^l 1ᵀ
        X = columns(layer_norm(X[:, t], layer.gamma2, layer.beta2, eps) for t in range(ell))  # 8: for t∈[ℓ]: X[:,t] ← layer_norm(X[:,t] | γ_l^2, β_l^2)
    # 9: end
    X = GELU(theta.W_f @ X + theta.b_f[:, None])  # 10: X ← GELU(W_f X + b_f 1ᵀ)  ⟦X ∈ ℝ^{d_f×ℓ}⟧
    X = columns(layer_norm(X[:, t], theta.gamma, theta.beta, eps) for t in range(ell))  # 11: for t∈[ℓ]: X[:,t] ← layer_norm(X[:,t] | γ, β)
    return softmax(theta.W_u @ X)  # 12: return P = softmax(W_u X)  ⟦P ∈ ℝ^{N_V×ℓ}⟧


@checked(theta=parameters(DTheta), x=tokens, eps=epsilon, Mask=masks)
def DTransformer(
    x: Int[Tensor, "ell"], theta: DTheta, *, eps: float = 1e-5, layer_norm: Norm = layer_norm, MHAttention: MultiHead = MHAttention, GELU: Activation = GELU, Mask: Masks = unidirectional
) -> Float[Tensor, "N_V ell"]:
    """Algorithm 10: P ← DTransformer(x | θ)

    GPT, a decoder-only transformer, forward pass.
    Input: x ∈ V*, a sequence of token IDs.
    Output: P ∈ (0,1)^{N_V×length(x)}, where the t-th column of P represents P̂_θ(x[t+1] | x[1:t]).
    Hyperparameters: ℓ_max, L, H, d_e, d_mlp, d_attn, d_mid ∈ ℕ, read off θ; ε; Mask, a function of ℓ and the layer l.
    Parameters: θ, see DTheta.
    """
    ell = length(x)  # 1: ℓ ← length(x)
    e = [theta.W_e[:, x[t]] + theta.W_p[:, t] for t in range(ell)]  # 2: for t∈[ℓ]: e_t ← W_e[:,x[t]] + W_p[:,t]  ⟦e_t ∈ ℝ^{d_e}⟧
    X = columns(e)  # 3: X ← [e_1, e_2, …, e_ℓ]  ⟦X ∈ ℝ^{d_e×ℓ}⟧
    for l, layer in enumerate(theta.layers):  # 4: for l = 1, 2, …, L do
        X_tilde = columns(layer_norm(X[:, t], layer.gamma1, layer.beta1, eps) for t in range(ell))  # 5: for t∈[ℓ]: X̃[:,t] ← layer_norm(X[:,t] | γ_l^1, β_l^1)  ⟦X̃ ∈ ℝ^{d_e×ℓ}⟧
        X = X + MHAttention(X_tilde, X_tilde, layer.W, Mask(ell, l))  # 6: X ← X + MHAttention(X̃ | 𝒲_l, Mask[t,t′]=⟦t ≤ t′⟧)
        X_tilde = columns(layer_norm(X[:, t], layer.gamma2, layer.beta2, eps) for t in range(ell))  # 7: for t∈[ℓ]: X̃[:,t] ← layer_norm(X[:,t] | γ_l^2, β_l^2)
        X = X + layer.W_mlp2 @ GELU(layer.W_mlp1 @ X_tilde + layer.b_mlp1[:, None]) + layer.b_mlp2[:, None]  # 8: X ← X + W_mlp2^l GELU(W_mlp1^l X̃ + b_mlp1^l 1ᵀ) + b_mlp2^l 1ᵀ
    # 9: end
    X = columns(layer_norm(X[:, t], theta.gamma, theta.beta, eps) for t in range(ell))  # 10: for t∈[ℓ]: X[:,t] ← layer_norm(X[:,t] | γ, β)
    return softmax(theta.W_u @ X)  # 11: return P = softmax(W_u X)  ⟦P ∈ ℝ^{N_V×ℓ}⟧
