"""Algorithms 8–10: the encoder–decoder, the encoder-only and the decoder-only transformer (§6).

Each takes the components it calls by keyword, under the paper's names. A variant is the algorithm with
another component in its place, `DTransformer(x, theta, layer_norm=RMSnorm)`, and its lines stay as they
are.
"""

from jaxtyping import Float, Int
from torch import Tensor

from .components import MHAttention, MultiHead, Norm, layer_norm
from .domains import checked, epsilon, masks, tokens
from .mask import Masks, bidirectional, unidirectional
from .notation import GELU, Activation, ReLU, columns, length, softmax
from .theta import DTheta, EDTheta, ETheta


@checked(z=tokens, x=tokens, eps=epsilon)
def EDTransformer(
    z: Int[Tensor, "ell_z"],
    x: Int[Tensor, "ell_x"],
    theta: EDTheta,
    *,
    eps: float = 1e-5,
    layer_norm: Norm = layer_norm,
    MHAttention: MultiHead = MHAttention,
    ReLU: Activation = ReLU,
) -> Float[Tensor, "N_V ell_x"]:
    """Algorithm 8: P ← EDTransformer(z, x | θ)

    Encoder-decoder transformer forward pass.
    Input: z, x ∈ V*, two sequences of token IDs.
    Output: P ∈ (0,1)^{N_V×length(x)}, where the t-th column of P represents P̂_θ(x[t+1] | x[1:t], z).
    Hyperparameters: ℓ_max, L_enc, L_dec, H, d_e, d_mlp, d_attn, d_mid ∈ ℕ, read off θ; ε.
    Parameters: θ, see EDTheta.
    """
    # 1: ℓ_z ← length(z)
    ell_z = length(z)
    # 2: for t∈[ℓ_z]: e_t ← W_e[:,z[t]] + W_p[:,t]  ⟦e_t ∈ ℝ^{d_e}⟧
    e = [theta.W_e[:, z[t]] + theta.W_p[:, t] for t in range(ell_z)]
    # 3: Z ← [e_1, e_2, …, e_{ℓ_z}]  ⟦Z ∈ ℝ^{d_e×ℓ_z}⟧
    Z = columns(e)
    # 4: for l = 1, 2, …, L_enc do
    for l, layer in enumerate(theta.enc):
        # 5: Z ← Z + MHAttention(Z | 𝒲_l^enc, Mask≡1)
        Z = Z + MHAttention(Z, Z, layer.W, bidirectional(ell_z, ell_z))
        # 6: for t∈[ℓ_z]: Z[:,t] ← layer_norm(Z[:,t] | γ_l^1, β_l^1)
        Z = columns(layer_norm(Z[:, t], layer.gamma1, layer.beta1, eps) for t in range(ell_z))
        # 7: Z ← Z + W_mlp2^l ReLU(W_mlp1^l Z + b_mlp1^l 1ᵀ) + b_mlp2^l 1ᵀ
        Z = Z + layer.W_mlp2 @ ReLU(layer.W_mlp1 @ Z + layer.b_mlp1[:, None]) + layer.b_mlp2[:, None]
        # 8: for t∈[ℓ_z]: Z[:,t] ← layer_norm(Z[:,t] | γ_l^2, β_l^2)
        Z = columns(layer_norm(Z[:, t], layer.gamma2, layer.beta2, eps) for t in range(ell_z))
    # 9: end
    # 10: ℓ_x ← length(x)
    ell_x = length(x)
    # 11: for t∈[ℓ_x]: e_t ← W_e[:,x[t]] + W_p[:,t]
    e = [theta.W_e[:, x[t]] + theta.W_p[:, t] for t in range(ell_x)]
    # 12: X ← [e_1, e_2, …, e_{ℓ_x}]  ⟦X ∈ ℝ^{d_e×ℓ_x}⟧
    X = columns(e)
    # 13: for l = 1, 2, …, L_dec do  (erratum 2)
    for l, layer in enumerate(theta.dec):
        # 14: X ← X + MHAttention(X | 𝒲_l^dec, Mask[t,t′]≡⟦t ≤ t′⟧)
        X = X + MHAttention(X, X, layer.W_dec, unidirectional(ell_x))
        # 15: for t∈[ℓ_x]: X[:,t] ← layer_norm(X[:,t] | γ_l^3, β_l^3)
        X = columns(layer_norm(X[:, t], layer.gamma3, layer.beta3, eps) for t in range(ell_x))
        # 16: X ← X + MHAttention(X, Z | 𝒲_l^e/d, Mask≡1)
        X = X + MHAttention(X, Z, layer.W_ed, bidirectional(ell_z, ell_x))
        # 17: for t∈[ℓ_x]: X[:,t] ← layer_norm(X[:,t] | γ_l^4, β_l^4)
        X = columns(layer_norm(X[:, t], layer.gamma4, layer.beta4, eps) for t in range(ell_x))
        # 18: X ← X + W_mlp4^l ReLU(W_mlp3^l X + b_mlp3^l 1ᵀ) + b_mlp4^l 1ᵀ
        X = X + layer.W_mlp4 @ ReLU(layer.W_mlp3 @ X + layer.b_mlp3[:, None]) + layer.b_mlp4[:, None]
        # 19: for t∈[ℓ_x]: X[:,t] ← layer_norm(X[:,t] | γ_l^5, β_l^5)
        X = columns(layer_norm(X[:, t], layer.gamma5, layer.beta5, eps) for t in range(ell_x))
    # 20: end
    # 21: return P = softmax(W_u X)  ⟦P ∈ ℝ^{N_V×ℓ_x}⟧
    return softmax(theta.W_u @ X)


@checked(x=tokens, eps=epsilon)
def ETransformer(
    x: Int[Tensor, "ell"],
    theta: ETheta,
    *,
    eps: float = 1e-5,
    layer_norm: Norm = layer_norm,
    MHAttention: MultiHead = MHAttention,
    GELU: Activation = GELU,
) -> Float[Tensor, "N_V ell"]:
    """Algorithm 9: P ← ETransformer(x | θ)

    BERT, an encoder-only transformer, forward pass.
    Input: x ∈ V*, a sequence of token IDs.
    Output: P ∈ (0,1)^{N_V×length(x)}, where each column of P is a distribution over the vocabulary.
    Hyperparameters: ℓ_max, L, H, d_e, d_mlp, d_f, d_attn, d_mid ∈ ℕ, read off θ; ε.
    Parameters: θ, see ETheta.
    """
    # 1: ℓ ← length(x)
    ell = length(x)
    # 2: for t∈[ℓ]: e_t ← W_e[:,x[t]] + W_p[:,t]  ⟦e_t ∈ ℝ^{d_e}⟧
    e = [theta.W_e[:, x[t]] + theta.W_p[:, t] for t in range(ell)]
    # 3: X ← [e_1, e_2, …, e_ℓ]  ⟦X ∈ ℝ^{d_e×ℓ}⟧
    X = columns(e)
    # 4: for l = 1, 2, …, L do
    for l, layer in enumerate(theta.layers):
        # 5: X ← X + MHAttention(X | 𝒲_l, Mask≡1)
        X = X + MHAttention(X, X, layer.W, bidirectional(ell, ell))
        # 6: for t∈[ℓ]: X[:,t] ← layer_norm(X[:,t] | γ_l^1, β_l^1)
        X = columns(layer_norm(X[:, t], layer.gamma1, layer.beta1, eps) for t in range(ell))
        # 7: X ← X + W_mlp2^l GELU(W_mlp1^l X + b_mlp1^l 1ᵀ) + b_mlp2^l 1ᵀ
        X = X + layer.W_mlp2 @ GELU(layer.W_mlp1 @ X + layer.b_mlp1[:, None]) + layer.b_mlp2[:, None]
        # 8: for t∈[ℓ]: X[:,t] ← layer_norm(X[:,t] | γ_l^2, β_l^2)
        X = columns(layer_norm(X[:, t], layer.gamma2, layer.beta2, eps) for t in range(ell))
    # 9: end
    # 10: X ← GELU(W_f X + b_f 1ᵀ)  ⟦X ∈ ℝ^{d_f×ℓ}⟧
    X = GELU(theta.W_f @ X + theta.b_f[:, None])
    # 11: for t∈[ℓ]: X[:,t] ← layer_norm(X[:,t] | γ, β)
    X = columns(layer_norm(X[:, t], theta.gamma, theta.beta, eps) for t in range(ell))
    # 12: return P = softmax(W_u X)  ⟦P ∈ ℝ^{N_V×ℓ}⟧
    return softmax(theta.W_u @ X)


@checked(x=tokens, eps=epsilon, Mask=masks)
def DTransformer(
    x: Int[Tensor, "ell"],
    theta: DTheta,
    *,
    eps: float = 1e-5,
    layer_norm: Norm = layer_norm,
    MHAttention: MultiHead = MHAttention,
    GELU: Activation = GELU,
    Mask: Masks = unidirectional,
) -> Float[Tensor, "N_V ell"]:
    """Algorithm 10: P ← DTransformer(x | θ)

    GPT, a decoder-only transformer, forward pass.
    Input: x ∈ V*, a sequence of token IDs.
    Output: P ∈ (0,1)^{N_V×length(x)}, where the t-th column of P represents P̂_θ(x[t+1] | x[1:t]).
    Hyperparameters: ℓ_max, L, H, d_e, d_mlp, d_attn, d_mid ∈ ℕ, read off θ; ε; Mask, a function of ℓ and l.
    Parameters: θ, see DTheta.
    """
    # 1: ℓ ← length(x)
    ell = length(x)
    # 2: for t∈[ℓ]: e_t ← W_e[:,x[t]] + W_p[:,t]  ⟦e_t ∈ ℝ^{d_e}⟧
    e = [theta.W_e[:, x[t]] + theta.W_p[:, t] for t in range(ell)]
    # 3: X ← [e_1, e_2, …, e_ℓ]  ⟦X ∈ ℝ^{d_e×ℓ}⟧
    X = columns(e)
    # 4: for l = 1, 2, …, L do
    for l, layer in enumerate(theta.layers):
        # 5: for t∈[ℓ]: X̃[:,t] ← layer_norm(X[:,t] | γ_l^1, β_l^1)  ⟦X̃ ∈ ℝ^{d_e×ℓ}⟧
        X_tilde = columns(layer_norm(X[:, t], layer.gamma1, layer.beta1, eps) for t in range(ell))
        # 6: X ← X + MHAttention(X̃ | 𝒲_l, Mask[t,t′]=⟦t ≤ t′⟧)
        X = X + MHAttention(X_tilde, X_tilde, layer.W, Mask(ell, l))
        # 7: for t∈[ℓ]: X̃[:,t] ← layer_norm(X[:,t] | γ_l^2, β_l^2)
        X_tilde = columns(layer_norm(X[:, t], layer.gamma2, layer.beta2, eps) for t in range(ell))
        # 8: X ← X + W_mlp2^l GELU(W_mlp1^l X̃ + b_mlp1^l 1ᵀ) + b_mlp2^l 1ᵀ
        X = X + layer.W_mlp2 @ GELU(layer.W_mlp1 @ X_tilde + layer.b_mlp1[:, None]) + layer.b_mlp2[:, None]
    # 9: end
    # 10: for t∈[ℓ]: X[:,t] ← layer_norm(X[:,t] | γ, β)
    X = columns(layer_norm(X[:, t], theta.gamma, theta.beta, eps) for t in range(ell))
    # 11: return P = softmax(W_u X)  ⟦P ∈ ℝ^{N_V×ℓ}⟧
    return softmax(theta.W_u @ X)
