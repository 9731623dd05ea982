"""Algorithms 8–10 with their layer as a component: the norm before or behind a sub-layer, dropout, and BERT's own embeddings.

With the paper's layer they are the paper's algorithms: `GPT(x, theta)` is `DTransformer(x, theta)`. What else a published system
changes is a component or a map on θ of `variants`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from jaxtyping import Bool, Float, Int
from torch import Tensor

from .architectures import Activation, Masks, MultiHead, Norm
from .components import MHAttention, layer_norm
from .domains import checked, epsilon, masks, parameters, segments, starting_with_bos, tokens
from .notation import GELU, ReLU, bidirectional, columns, length, softmax, unidirectional
from .theta import DecoderLayer, DTheta, EDTheta, ETheta, Layer
from .variants import ECTheta

Dropout = Callable[[Tensor], Tensor]  # sets some of its elements to 0 and scales the rest, or leaves all as they are
Block = Callable[..., Tensor]  # X ← pre_norm(X | θ_l, Mask) or post_norm


def no_dropout(A: Float[Tensor, "rows columns"]) -> Float[Tensor, "rows columns"]:
    """Dropout as the paper has it: none."""
    return A


def no_norm(e: Float[Tensor, "d_e"], gamma: Float[Tensor, "d_e"], beta: Float[Tensor, "d_e"], eps: float) -> Float[Tensor, "d_e"]:
    """A norm in a place where the paper has none."""
    return e


# Layers ----------------------------------------------------------------------------------------------------------------


def pre_norm(
    X: Float[Tensor, "d_e ell"],
    theta_l: Layer,
    Mask: Bool[Tensor, "ell ell"],
    *,
    eps: float = 1e-5,
    layer_norm: Norm = layer_norm,
    MHAttention: MultiHead = MHAttention,
    GELU: Activation = GELU,
    dropout: Dropout = no_dropout,
) -> Float[Tensor, "d_e ell"]:
    """Variant of Algorithm 10: X ← pre_norm(X | θ_l, Mask)

    One layer, the norm before each sub-layer: lines 5–8 of Algorithm 10.
    """
    X_tilde = columns(layer_norm(e, theta_l.gamma1, theta_l.beta1, eps) for e in X.T)  # 1: for t∈[ℓ]: X̃[:,t] ← layer_norm(X[:,t] | γ_l^1, β_l^1)  ⟦X̃ ∈ ℝ^{d_e×ℓ}⟧
    X = X + dropout(MHAttention(X_tilde, X_tilde, theta_l.W, Mask))  # 2: X ← X + dropout(MHAttention(X̃ | 𝒲_l, Mask))  ⟦X ∈ ℝ^{d_e×ℓ}⟧
    X_tilde = columns(layer_norm(e, theta_l.gamma2, theta_l.beta2, eps) for e in X.T)  # 3: for t∈[ℓ]: X̃[:,t] ← layer_norm(X[:,t] | γ_l^2, β_l^2)
    return X + dropout(
        theta_l.W_mlp2 @ GELU(theta_l.W_mlp1 @ X_tilde + theta_l.b_mlp1[:, None]) + theta_l.b_mlp2[:, None]
    )  # 4: return X + dropout(W_mlp2^l GELU(W_mlp1^l X̃ + b_mlp1^l 1ᵀ) + b_mlp2^l 1ᵀ)


def post_norm(
    X: Float[Tensor, "d_e ell"],
    theta_l: Layer,
    Mask: Bool[Tensor, "ell ell"],
    *,
    eps: float = 1e-5,
    layer_norm: Norm = layer_norm,
    MHAttention: MultiHead = MHAttention,
    GELU: Activation = GELU,
    dropout: Dropout = no_dropout,
) -> Float[Tensor, "d_e ell"]:
    """Variant of Algorithm 9: X ← post_norm(X | θ_l, Mask)

    One layer, the norm behind each sub-layer: lines 5–8 of Algorithms 8 and 9.
    """
    X = X + dropout(MHAttention(X, X, theta_l.W, Mask))  # 1: X ← X + dropout(MHAttention(X | 𝒲_l, Mask))  ⟦X ∈ ℝ^{d_e×ℓ}⟧
    X = columns(layer_norm(e, theta_l.gamma1, theta_l.beta1, eps) for e in X.T)  # 2: for t∈[ℓ]: X[:,t] ← layer_norm(X[:,t] | γ_l^1, β_l^1)
    X = X + dropout(theta_l.W_mlp2 @ GELU(theta_l.W_mlp1 @ X + theta_l.b_mlp1[:, None]) + theta_l.b_mlp2[:, None])  # 3: X ← X + dropout(W_mlp2^l GELU(W_mlp1^l X + b_mlp1^l 1ᵀ) + b_mlp2^l 1ᵀ)
    return columns(layer_norm(e, theta_l.gamma2, theta_l.beta2, eps) for e in X.T)  # 4: return for t∈[ℓ]: layer_norm(X[:,t] | γ_l^2, β_l^2)


def pre_norm_decoder(
    X: Float[Tensor, "d_e ell_x"],
    Z: Float[Tensor, "d_e ell_z"],
    theta_l: DecoderLayer,
    *,
    eps: float = 1e-5,
    layer_norm: Norm = layer_norm,
    MHAttention: MultiHead = MHAttention,
    ReLU: Activation = ReLU,
    dropout: Dropout = no_dropout,
) -> Float[Tensor, "d_e ell_x"]:
    """Variant of Algorithm 8: X ← pre_norm_decoder(X, Z | θ_l)

    One layer of the decoder, the norm before each sub-layer.
    """
    X_tilde = columns(layer_norm(e, theta_l.gamma3, theta_l.beta3, eps) for e in X.T)  # 1: for t∈[ℓ_x]: X̃[:,t] ← layer_norm(X[:,t] | γ_l^3, β_l^3)  ⟦X̃ ∈ ℝ^{d_e×ℓ_x}⟧
    X = X + dropout(MHAttention(X_tilde, X_tilde, theta_l.W_dec, unidirectional(X.shape[1])))  # 2: X ← X + dropout(MHAttention(X̃ | 𝒲_l^dec, Mask[t,t′]≡⟦t ≤ t′⟧))  ⟦X ∈ ℝ^{d_e×ℓ_x}⟧
    X_tilde = columns(layer_norm(e, theta_l.gamma4, theta_l.beta4, eps) for e in X.T)  # 3: for t∈[ℓ_x]: X̃[:,t] ← layer_norm(X[:,t] | γ_l^4, β_l^4)
    X = X + dropout(MHAttention(X_tilde, Z, theta_l.W_ed, bidirectional(Z.shape[1], X.shape[1])))  # 4: X ← X + dropout(MHAttention(X̃, Z | 𝒲_l^e/d, Mask≡1))
    X_tilde = columns(layer_norm(e, theta_l.gamma5, theta_l.beta5, eps) for e in X.T)  # 5: for t∈[ℓ_x]: X̃[:,t] ← layer_norm(X[:,t] | γ_l^5, β_l^5)
    return X + dropout(
        theta_l.W_mlp4 @ ReLU(theta_l.W_mlp3 @ X_tilde + theta_l.b_mlp3[:, None]) + theta_l.b_mlp4[:, None]
    )  # 6: return X + dropout(W_mlp4^l ReLU(W_mlp3^l X̃ + b_mlp3^l 1ᵀ) + b_mlp4^l 1ᵀ)


def post_norm_decoder(
    X: Float[Tensor, "d_e ell_x"],
    Z: Float[Tensor, "d_e ell_z"],
    theta_l: DecoderLayer,
    *,
    eps: float = 1e-5,
    layer_norm: Norm = layer_norm,
    MHAttention: MultiHead = MHAttention,
    ReLU: Activation = ReLU,
    dropout: Dropout = no_dropout,
) -> Float[Tensor, "d_e ell_x"]:
    """Variant of Algorithm 8: X ← post_norm_decoder(X, Z | θ_l)

    One layer of the decoder, the norm behind each sub-layer: lines 14–19 of Algorithm 8.
    """
    X = X + dropout(MHAttention(X, X, theta_l.W_dec, unidirectional(X.shape[1])))  # 1: X ← X + dropout(MHAttention(X | 𝒲_l^dec, Mask[t,t′]≡⟦t ≤ t′⟧))  ⟦X ∈ ℝ^{d_e×ℓ_x}⟧
    X = columns(layer_norm(e, theta_l.gamma3, theta_l.beta3, eps) for e in X.T)  # 2: for t∈[ℓ_x]: X[:,t] ← layer_norm(X[:,t] | γ_l^3, β_l^3)
    X = X + dropout(MHAttention(X, Z, theta_l.W_ed, bidirectional(Z.shape[1], X.shape[1])))  # 3: X ← X + dropout(MHAttention(X, Z | 𝒲_l^e/d, Mask≡1))
    X = columns(layer_norm(e, theta_l.gamma4, theta_l.beta4, eps) for e in X.T)  # 4: for t∈[ℓ_x]: X[:,t] ← layer_norm(X[:,t] | γ_l^4, β_l^4)
    X = X + dropout(theta_l.W_mlp4 @ ReLU(theta_l.W_mlp3 @ X + theta_l.b_mlp3[:, None]) + theta_l.b_mlp4[:, None])  # 5: X ← X + dropout(W_mlp4^l ReLU(W_mlp3^l X + b_mlp3^l 1ᵀ) + b_mlp4^l 1ᵀ)
    return columns(layer_norm(e, theta_l.gamma5, theta_l.beta5, eps) for e in X.T)  # 6: return for t∈[ℓ_x]: layer_norm(X[:,t] | γ_l^5, β_l^5)


# Decoder only ----------------------------------------------------------------------------------------------------------


@checked(theta=parameters(DTheta), x=tokens, eps=epsilon, Mask=masks)
def GPT(
    x: Int[Tensor, "ell"], theta: DTheta, *, eps: float = 1e-5, layer_norm: Norm = layer_norm, block: Block = pre_norm, dropout: Dropout = no_dropout, Mask: Masks = unidirectional, **components: Any
) -> Float[Tensor, "N_V ell"]:
    """Variant of Algorithm 10: P ← GPT(x | θ)

    Algorithm 10 with its layer as a component: `block=post_norm` for GPT-1's order.
    Input: x ∈ V*, a sequence of token IDs.
    Output: P ∈ (0,1)^{N_V×length(x)}, where the t-th column of P represents P̂_θ(x[t+1] | x[1:t]).
    """
    ell = length(x)  # 1: ℓ ← length(x)
    X = dropout(columns(theta.W_e[:, x[t]] + theta.W_p[:, t] for t in range(ell)))  # 2: for t∈[ℓ]: X[:,t] ← dropout(W_e[:,x[t]] + W_p[:,t])  ⟦X ∈ ℝ^{d_e×ℓ}⟧
    for l, theta_l in enumerate(theta.layers):  # 3: for l = 1, 2, …, L do
        X = block(X, theta_l, Mask(ell, l), eps=eps, layer_norm=layer_norm, dropout=dropout, **components)  # 4: X ← block(X | θ_l, Mask)
    # 5: end
    X = columns(layer_norm(e, theta.gamma, theta.beta, eps) for e in X.T)  # 6: for t∈[ℓ]: X[:,t] ← layer_norm(X[:,t] | γ, β)
    return softmax(theta.W_u @ X)  # 7: return P = softmax(W_u X)  ⟦P ∈ ℝ^{N_V×ℓ}⟧


# Encoder only (BERT) ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, repr=False)
class BERTTheta(ETheta):
    """θ of Algorithm 9 with BERT's segment embeddings W_s, norm of the embeddings γ_e, β_e, and output bias b_u."""

    W_s: Float[Tensor, "d_e N_S"]
    gamma_e: Float[Tensor, "d_e"]
    beta_e: Float[Tensor, "d_e"]
    b_u: Float[Tensor, "N_V"]


@dataclass(frozen=True, eq=False, repr=False)
class BERTClassifierTheta(ECTheta):
    """θ of the classifier with BERT's segment embeddings W_s and norm of the embeddings γ_e, β_e."""

    W_s: Float[Tensor, "d_e N_S"]
    gamma_e: Float[Tensor, "d_e"]
    beta_e: Float[Tensor, "d_e"]


@checked(theta=parameters(BERTTheta), x=tokens, s=segments, eps=epsilon)
def BERT(
    x: Int[Tensor, "ell"],
    theta: BERTTheta,
    s: Int[Tensor, "ell"] = None,  # type: ignore[assignment]
    *,
    eps: float = 1e-5,
    layer_norm: Norm = layer_norm,
    embedding_norm: Norm = layer_norm,
    block: Block = post_norm,
    GELU: Activation = GELU,
    dropout: Dropout = no_dropout,
    **components: Any,
) -> Float[Tensor, "N_V ell"]:
    """Variant of Algorithm 9: P ← BERT(x, s | θ)

    Algorithm 9 as BERT was published: with segment embeddings, a norm of the embeddings, and an output bias.
    Input: x ∈ V*, a sequence of token IDs.
    Input: s ∈ [N_S]*, the segment every token belongs to; all the first unless given.
    Output: P ∈ (0,1)^{N_V×length(x)}, where each column of P is a distribution over the vocabulary.
    """
    ell = length(x)  # 1: ℓ ← length(x)
    e = [theta.W_e[:, x[t]] + theta.W_p[:, t] + theta.W_s[:, s[t]] for t in range(ell)]  # 2: for t∈[ℓ]: e_t ← W_e[:,x[t]] + W_p[:,t] + W_s[:,s[t]]  ⟦e_t ∈ ℝ^{d_e}⟧
    X = dropout(columns(embedding_norm(e_t, theta.gamma_e, theta.beta_e, eps) for e_t in e))  # 3: for t∈[ℓ]: X[:,t] ← dropout(layer_norm(e_t | γ_e, β_e))  ⟦X ∈ ℝ^{d_e×ℓ}⟧
    for l, theta_l in enumerate(theta.layers):  # 4: for l = 1, 2, …, L do
        X = block(X, theta_l, bidirectional(ell, ell), eps=eps, layer_norm=layer_norm, GELU=GELU, dropout=dropout, **components)  # 5: X ← block(X | θ_l, Mask≡1)
    # 6: end
    X = GELU(theta.W_f @ X + theta.b_f[:, None])  # 7: X ← GELU(W_f X + b_f 1ᵀ)  ⟦X ∈ ℝ^{d_f×ℓ}⟧
    X = columns(layer_norm(e_t, theta.gamma, theta.beta, eps) for e_t in X.T)  # 8: for t∈[ℓ]: X[:,t] ← layer_norm(X[:,t] | γ, β)
    return softmax(theta.W_u @ X + theta.b_u[:, None])  # 9: return P = softmax(W_u X + b_u 1ᵀ)  ⟦P ∈ ℝ^{N_V×ℓ}⟧


@checked(theta=parameters(BERTClassifierTheta), x=starting_with_bos, s=segments, eps=epsilon)
def BERTClassifier(
    x: Int[Tensor, "ell"],
    theta: BERTClassifierTheta,
    s: Int[Tensor, "ell"] = None,  # type: ignore[assignment]
    *,
    eps: float = 1e-5,
    layer_norm: Norm = layer_norm,
    embedding_norm: Norm = layer_norm,
    block: Block = post_norm,
    GELU: Activation = GELU,
    dropout: Dropout = no_dropout,
    **components: Any,
) -> Float[Tensor, "N_C"]:
    """Variant of Algorithm 9: p ← BERTClassifier(x, s | θ)

    EClassifier with BERT's embeddings.
    Input: x ∈ V*, a sequence of token IDs.
    Input: s ∈ [N_S]*, the segment every token belongs to; all the first unless given.
    Output: p ∈ Δ([N_C]), the distribution P̂_θ(c | x) over the classes.
    """
    ell = length(x)  # 1: ℓ ← length(x)
    e = [theta.W_e[:, x[t]] + theta.W_p[:, t] + theta.W_s[:, s[t]] for t in range(ell)]  # 2: for t∈[ℓ]: e_t ← W_e[:,x[t]] + W_p[:,t] + W_s[:,s[t]]  ⟦e_t ∈ ℝ^{d_e}⟧
    X = dropout(columns(embedding_norm(e_t, theta.gamma_e, theta.beta_e, eps) for e_t in e))  # 3: for t∈[ℓ]: X[:,t] ← dropout(layer_norm(e_t | γ_e, β_e))  ⟦X ∈ ℝ^{d_e×ℓ}⟧
    for l, theta_l in enumerate(theta.layers):  # 4: for l = 1, 2, …, L do
        X = block(X, theta_l, bidirectional(ell, ell), eps=eps, layer_norm=layer_norm, GELU=GELU, dropout=dropout, **components)  # 5: X ← block(X | θ_l, Mask≡1)
    # 6: end
    X = GELU(theta.W_f @ X + theta.b_f[:, None])  # 7: X ← GELU(W_f X + b_f 1ᵀ)  ⟦X ∈ ℝ^{d_f×ℓ}⟧
    X = columns(layer_norm(e_t, theta.gamma, theta.beta, eps) for e_t in X.T)  # 8: for t∈[ℓ]: X[:,t] ← layer_norm(X[:,t] | γ, β)
    return softmax(theta.W_c @ X[:, 0] + theta.b_c)  # 9: return p = softmax(W_c X[:,1] + b_c)  ⟦p ∈ ℝ^{N_C}⟧


# Encoder–decoder -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, repr=False)
class PreNormEDTheta(EDTheta):
    """θ of Algorithm 8 with a norm at the end of the encoder and one at the end of the decoder."""

    gamma_enc: Float[Tensor, "d_e"]
    beta_enc: Float[Tensor, "d_e"]
    gamma_dec: Float[Tensor, "d_e"]
    beta_dec: Float[Tensor, "d_e"]


@checked(theta=parameters(PreNormEDTheta), z=tokens, x=tokens, eps=epsilon)
def PreNormEDTransformer(
    z: Int[Tensor, "ell_z"],
    x: Int[Tensor, "ell_x"],
    theta: PreNormEDTheta,
    *,
    eps: float = 1e-5,
    layer_norm: Norm = layer_norm,
    final_norm: Norm = layer_norm,
    block: Block = pre_norm,
    decoder_block: Block = pre_norm_decoder,
    MHAttention: MultiHead = MHAttention,
    ReLU: Activation = ReLU,
    dropout: Dropout = no_dropout,
) -> Float[Tensor, "N_V ell_x"]:
    """Variant of Algorithm 8: P ← PreNormEDTransformer(z, x | θ)

    Algorithm 8 with the norms where Algorithm 10 has them: before each sub-layer, and at the end of encoder and decoder.
    Input: z, x ∈ V*, two sequences of token IDs.
    Output: P ∈ (0,1)^{N_V×length(x)}, where the t-th column of P represents P̂_θ(x[t+1] | x[1:t], z).
    """
    ell_z = length(z)  # 1: ℓ_z ← length(z)
    Z = dropout(columns(theta.W_e[:, z[t]] + theta.W_p[:, t] for t in range(ell_z)))  # 2: for t∈[ℓ_z]: Z[:,t] ← dropout(W_e[:,z[t]] + W_p[:,t])  ⟦Z ∈ ℝ^{d_e×ℓ_z}⟧
    for l, theta_l in enumerate(theta.enc):  # 3: for l = 1, 2, …, L_enc do
        Z = block(Z, theta_l, bidirectional(ell_z, ell_z), eps=eps, layer_norm=layer_norm, MHAttention=MHAttention, GELU=ReLU, dropout=dropout)  # 4: Z ← pre_norm(Z | θ_l, Mask≡1)
    # 5: end
    Z = columns(final_norm(e, theta.gamma_enc, theta.beta_enc, eps) for e in Z.T)  # 6: for t∈[ℓ_z]: Z[:,t] ← layer_norm(Z[:,t] | γ_enc, β_enc)
    ell_x = length(x)  # 7: ℓ_x ← length(x)
    X = dropout(columns(theta.W_e[:, x[t]] + theta.W_p[:, t] for t in range(ell_x)))  # 8: for t∈[ℓ_x]: X[:,t] ← dropout(W_e[:,x[t]] + W_p[:,t])  ⟦X ∈ ℝ^{d_e×ℓ_x}⟧
    for l, theta_l in enumerate(theta.dec):  # 9: for l = 1, 2, …, L_dec do
        X = decoder_block(X, Z, theta_l, eps=eps, layer_norm=layer_norm, MHAttention=MHAttention, ReLU=ReLU, dropout=dropout)  # 10: X ← pre_norm_decoder(X, Z | θ_l)
    # 11: end
    X = columns(final_norm(e, theta.gamma_dec, theta.beta_dec, eps) for e in X.T)  # 12: for t∈[ℓ_x]: X[:,t] ← layer_norm(X[:,t] | γ_dec, β_dec)
    return softmax(theta.W_u @ X)  # 13: return P = softmax(W_u X)  ⟦P ∈ ℝ^{N_V×ℓ_x}⟧
