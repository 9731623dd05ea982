"""Published systems: Algorithms 8–10 with their embedding, their layer and their unembedding as components.

With the paper's components they are the paper's algorithms: `GPT(x, theta)` is `DTransformer(x, theta)`. A
system is one of these with other components, `GPT(x, theta, block=post_norm, MLP=partial(MLP,
GELU=tanh_GELU))`, or with a map on θ, `GPT(x, tied(theta))`. To train with a map, put it inside the
transformer that is trained, `DTraining(…, DTransformer=lambda x, theta: GPT(x, tied(theta)))`: the part it
replaces then has the gradient 0.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypedDict, Unpack

from jaxtyping import Bool, Float, Int
from torch import Tensor

from .architectures import DTransformer
from .classification import ECTheta
from .components import MHAttention, MultiHead, Norm, layer_norm
from .domains import checked, embeddable, epsilon, masks, parameters, segments, starting_with_bos, tokens
from .embedding import BERT_embed, BERTEmbeddingTheta, embed
from .head import Head, head
from .mask import Masks, bidirectional, unidirectional
from .mlp import MLP, Perceptron, ReLU_MLP
from .norm import RMSnorm, normalized
from .notation import GELU, Activation, length, softmax
from .pooling import Pooling, bos_pooling
from .positions import RelativeAttention, without_positions
from .theta import DecoderLayer, DTheta, EDTheta, Layer
from .unembedding import BiasedEDTheta, BiasedETheta, biased_unembed, unembed

Dropout = Callable[[Tensor], Tensor]  # sets some elements to 0 and scales the rest, or leaves all as they are
Embed = Callable[..., Tensor]  # X ← embed(x | θ)
Unembed = Callable[..., Tensor]  # P ← unembed(X | θ)
Block = Callable[..., Tensor]  # X ← block(X | θ_l, Mask), or of a decoder X ← block(X, Z | θ_l)


class Heads(TypedDict, total=False):
    """What a system hands on to its layers."""

    MHAttention: MultiHead


class Sublayers(Heads, total=False):
    """The same, with the MLP."""

    MLP: Perceptron


def no_dropout(A: Float[Tensor, "rows columns"]) -> Float[Tensor, "rows columns"]:
    """The paper's dropout: none."""
    return A


# Layers -------------------------------------------------------------------------------------------


def pre_norm(
    X: Float[Tensor, "d_e ell"],
    theta_l: Layer,
    Mask: Bool[Tensor, "ell ell"],
    *,
    eps: float = 1e-5,
    layer_norm: Norm = layer_norm,
    MHAttention: MultiHead = MHAttention,
    MLP: Perceptron = MLP,
    dropout: Dropout = no_dropout,
) -> Float[Tensor, "d_e ell"]:
    """Variant of Algorithm 10: X ← pre_norm(X | θ_l, Mask)

    One layer, the norm before each sub-layer: lines 5–8 of Algorithm 10.
    """
    # 1: for t∈[ℓ]: X̃[:,t] ← layer_norm(X[:,t] | γ_l^1, β_l^1)  ⟦X̃ ∈ ℝ^{d_e×ℓ}⟧
    X_tilde = normalized(X, theta_l.gamma1, theta_l.beta1, eps, layer_norm)
    # 2: X ← X + dropout(MHAttention(X̃ | 𝒲_l, Mask))  ⟦X ∈ ℝ^{d_e×ℓ}⟧
    X = X + dropout(MHAttention(X_tilde, X_tilde, theta_l.W, Mask))
    # 3: for t∈[ℓ]: X̃[:,t] ← layer_norm(X[:,t] | γ_l^2, β_l^2)
    X_tilde = normalized(X, theta_l.gamma2, theta_l.beta2, eps, layer_norm)
    # 4: return X + dropout(MLP(X̃ | 𝒲_mlp^l))  ⟦X ∈ ℝ^{d_e×ℓ}⟧
    return X + dropout(MLP(X_tilde, theta_l.mlp))


def post_norm(
    X: Float[Tensor, "d_e ell"],
    theta_l: Layer,
    Mask: Bool[Tensor, "ell ell"],
    *,
    eps: float = 1e-5,
    layer_norm: Norm = layer_norm,
    MHAttention: MultiHead = MHAttention,
    MLP: Perceptron = MLP,
    dropout: Dropout = no_dropout,
) -> Float[Tensor, "d_e ell"]:
    """Variant of Algorithm 9: X ← post_norm(X | θ_l, Mask)

    One layer, the norm after each sub-layer: lines 5–8 of Algorithms 8 and 9.
    """
    # 1: X ← X + dropout(MHAttention(X | 𝒲_l, Mask))  ⟦X ∈ ℝ^{d_e×ℓ}⟧
    X = X + dropout(MHAttention(X, X, theta_l.W, Mask))
    # 2: for t∈[ℓ]: X[:,t] ← layer_norm(X[:,t] | γ_l^1, β_l^1)
    X = normalized(X, theta_l.gamma1, theta_l.beta1, eps, layer_norm)
    # 3: X ← X + dropout(MLP(X | 𝒲_mlp^l))
    X = X + dropout(MLP(X, theta_l.mlp))
    # 4: return for t∈[ℓ]: layer_norm(X[:,t] | γ_l^2, β_l^2)  ⟦X ∈ ℝ^{d_e×ℓ}⟧
    return normalized(X, theta_l.gamma2, theta_l.beta2, eps, layer_norm)


def parallel_norm(
    X: Float[Tensor, "d_e ell"],
    theta_l: Layer,
    Mask: Bool[Tensor, "ell ell"],
    *,
    eps: float = 1e-5,
    layer_norm: Norm = layer_norm,
    MHAttention: MultiHead = MHAttention,
    MLP: Perceptron = MLP,
    dropout: Dropout = no_dropout,
) -> Float[Tensor, "d_e ell"]:
    """Variant of Algorithm 10: X ← parallel_norm(X | θ_l, Mask)

    One layer whose two sub-layers read the same X, each through its own norm (GPT-NeoX).
    """
    # 1: for t∈[ℓ]: X̃[:,t] ← layer_norm(X[:,t] | γ_l^1, β_l^1)  ⟦X̃ ∈ ℝ^{d_e×ℓ}⟧
    X_tilde = normalized(X, theta_l.gamma1, theta_l.beta1, eps, layer_norm)
    # 2: Y ← dropout(MHAttention(X̃ | 𝒲_l, Mask))  ⟦Y ∈ ℝ^{d_e×ℓ}⟧
    Y = dropout(MHAttention(X_tilde, X_tilde, theta_l.W, Mask))
    # 3: for t∈[ℓ]: X̃[:,t] ← layer_norm(X[:,t] | γ_l^2, β_l^2)
    X_tilde = normalized(X, theta_l.gamma2, theta_l.beta2, eps, layer_norm)
    # 4: return X + Y + dropout(MLP(X̃ | 𝒲_mlp^l))  ⟦X ∈ ℝ^{d_e×ℓ}⟧
    return X + Y + dropout(MLP(X_tilde, theta_l.mlp))


def pre_norm_decoder(
    X: Float[Tensor, "d_e ell_x"],
    Z: Float[Tensor, "d_e ell_z"],
    theta_l: DecoderLayer,
    *,
    eps: float = 1e-5,
    layer_norm: Norm = layer_norm,
    MHAttention: MultiHead = MHAttention,
    MLP: Perceptron = ReLU_MLP,
    dropout: Dropout = no_dropout,
) -> Float[Tensor, "d_e ell_x"]:
    """Variant of Algorithm 8: X ← pre_norm_decoder(X, Z | θ_l)

    One layer of the decoder, the norm before each sub-layer.
    """
    # 1: for t∈[ℓ_x]: X̃[:,t] ← layer_norm(X[:,t] | γ_l^3, β_l^3)  ⟦X̃ ∈ ℝ^{d_e×ℓ_x}⟧
    X_tilde = normalized(X, theta_l.gamma3, theta_l.beta3, eps, layer_norm)
    # 2: X ← X + dropout(MHAttention(X̃ | 𝒲_l^dec, Mask[t,t′]≡⟦t ≤ t′⟧))  ⟦X ∈ ℝ^{d_e×ℓ_x}⟧
    X = X + dropout(MHAttention(X_tilde, X_tilde, theta_l.W_dec, unidirectional(X.shape[1])))
    # 3: for t∈[ℓ_x]: X̃[:,t] ← layer_norm(X[:,t] | γ_l^4, β_l^4)
    X_tilde = normalized(X, theta_l.gamma4, theta_l.beta4, eps, layer_norm)
    # 4: X ← X + dropout(MHAttention(X̃, Z | 𝒲_l^e/d, Mask≡1))
    X = X + dropout(MHAttention(X_tilde, Z, theta_l.W_ed, bidirectional(Z.shape[1], X.shape[1])))
    # 5: for t∈[ℓ_x]: X̃[:,t] ← layer_norm(X[:,t] | γ_l^5, β_l^5)
    X_tilde = normalized(X, theta_l.gamma5, theta_l.beta5, eps, layer_norm)
    # 6: return X + dropout(MLP(X̃ | 𝒲_mlp^l))  ⟦X ∈ ℝ^{d_e×ℓ_x}⟧
    return X + dropout(MLP(X_tilde, theta_l.mlp))


def post_norm_decoder(
    X: Float[Tensor, "d_e ell_x"],
    Z: Float[Tensor, "d_e ell_z"],
    theta_l: DecoderLayer,
    *,
    eps: float = 1e-5,
    layer_norm: Norm = layer_norm,
    MHAttention: MultiHead = MHAttention,
    MLP: Perceptron = ReLU_MLP,
    dropout: Dropout = no_dropout,
) -> Float[Tensor, "d_e ell_x"]:
    """Variant of Algorithm 8: X ← post_norm_decoder(X, Z | θ_l)

    One layer of the decoder, the norm after each sub-layer: lines 14–19 of Algorithm 8.
    """
    # 1: X ← X + dropout(MHAttention(X | 𝒲_l^dec, Mask[t,t′]≡⟦t ≤ t′⟧))  ⟦X ∈ ℝ^{d_e×ℓ_x}⟧
    X = X + dropout(MHAttention(X, X, theta_l.W_dec, unidirectional(X.shape[1])))
    # 2: for t∈[ℓ_x]: X[:,t] ← layer_norm(X[:,t] | γ_l^3, β_l^3)
    X = normalized(X, theta_l.gamma3, theta_l.beta3, eps, layer_norm)
    # 3: X ← X + dropout(MHAttention(X, Z | 𝒲_l^e/d, Mask≡1))
    X = X + dropout(MHAttention(X, Z, theta_l.W_ed, bidirectional(Z.shape[1], X.shape[1])))
    # 4: for t∈[ℓ_x]: X[:,t] ← layer_norm(X[:,t] | γ_l^4, β_l^4)
    X = normalized(X, theta_l.gamma4, theta_l.beta4, eps, layer_norm)
    # 5: X ← X + dropout(MLP(X | 𝒲_mlp^l))
    X = X + dropout(MLP(X, theta_l.mlp))
    # 6: return for t∈[ℓ_x]: layer_norm(X[:,t] | γ_l^5, β_l^5)  ⟦X ∈ ℝ^{d_e×ℓ_x}⟧
    return normalized(X, theta_l.gamma5, theta_l.beta5, eps, layer_norm)


# Decoder only: GPT, Gopher ------------------------------------------------------------------------


@checked(
    theta=parameters(DTheta, wider_layers=True, also=("embed", "unembed")),
    x=embeddable,
    eps=epsilon,
    Mask=masks,
)
def GPT(
    x: Int[Tensor, "ell"] | Sequence[object],
    theta: DTheta,
    *,
    eps: float = 1e-5,
    layer_norm: Norm = layer_norm,
    dropout: Dropout = no_dropout,
    Mask: Masks = unidirectional,
    embed: Embed = embed,
    block: Block = pre_norm,
    unembed: Unembed = unembed,
    **sublayers: Unpack[Sublayers],
) -> Float[Tensor, "N_V ell"]:
    """Variant of Algorithm 10: P ← GPT(x | θ)

    Algorithm 10 with its parts as components: `block=post_norm` for GPT-1's order.
    Input: x ∈ V*, a sequence of token IDs, or whatever tokens `embed` takes.
    Output: P ∈ (0,1)^{N_V×length(x)}, where the t-th column of P represents P̂_θ(x[t+1] | x[1:t]).
    """
    # 1: ℓ ← length(x)
    ell = length(x)
    # 2: X ← dropout(embed(x | θ))  ⟦X ∈ ℝ^{d_e×ℓ}⟧
    X = dropout(embed(x, theta))
    # 3: for l = 1, 2, …, L do
    for l, theta_l in enumerate(theta.layers):
        # 4: X ← block(X | θ_l, Mask)
        X = block(X, theta_l, Mask(ell, l), eps=eps, layer_norm=layer_norm, dropout=dropout, **sublayers)
    # 5: end
    # 6: for t∈[ℓ]: X[:,t] ← layer_norm(X[:,t] | γ, β)
    X = normalized(X, theta.gamma, theta.beta, eps, layer_norm)
    # 7: return P = unembed(X | θ)  ⟦P ∈ ℝ^{N_V×ℓ}⟧
    return unembed(X, theta)


@checked(x=tokens, eps=epsilon)
def Gopher(x: Int[Tensor, "ell"], theta: DTheta, *, eps: float = 1e-5) -> Float[Tensor, "N_V ell"]:
    """Gopher's Algorithm 10, for a θ made by `relative`: RMSnorm, relative positions and no others."""
    by_distance = partial(MHAttention, Attention=RelativeAttention)
    return DTransformer(x, without_positions(theta), eps=eps, layer_norm=RMSnorm, MHAttention=by_distance)


# Encoder only: BERT -------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, repr=False)
class BERTTheta(BERTEmbeddingTheta, BiasedETheta):
    """θ of Algorithm 9 with BERT's embedding and output bias."""


@dataclass(frozen=True, eq=False, repr=False)
class BERTClassifierTheta(BERTEmbeddingTheta, ECTheta):
    """θ of the classifier with BERT's embedding."""


class EncoderComponents(Sublayers, total=False):
    """The components of `encode`."""

    eps: float
    layer_norm: Norm
    dropout: Dropout
    embed: Embed
    block: Block
    GELU: Activation
    head: Head


@checked(
    theta=parameters(BERTTheta | BERTClassifierTheta, wider_layers=True), x=tokens, s=segments, eps=epsilon
)
def encode(
    x: Int[Tensor, "ell"],
    theta: BERTTheta | BERTClassifierTheta,
    s: Int[Tensor, "ell"] | None = None,
    *,
    eps: float = 1e-5,
    layer_norm: Norm = layer_norm,
    dropout: Dropout = no_dropout,
    embed: Embed = BERT_embed,
    block: Block = post_norm,
    GELU: Activation = GELU,
    head: Head = head,
    **sublayers: Unpack[Sublayers],
) -> Float[Tensor, "d_f ell"]:
    """Variant of Algorithm 9: X ← encode(x, s | θ)

    Algorithm 9 up to its last line, with its parts as components: `block=pre_norm` for its order,
    `head=tanh_head` for BERT's pooler.
    Input: x ∈ V*, a sequence of token IDs.
    Input: s ∈ [N_S]*, the segment every token belongs to; all the first unless given.
    Output: X ∈ ℝ^{d_f×ℓ}, a vector for every token.
    """
    # 1: ℓ ← length(x)
    ell = length(x)
    # 2: X ← dropout(embed(x, s | θ))  ⟦X ∈ ℝ^{d_e×ℓ}⟧
    X = dropout(embed(x, theta, s, eps))
    # 3: for l = 1, 2, …, L do
    for l, theta_l in enumerate(theta.layers):
        # 4: X ← block(X | θ_l, Mask≡1)
        Mask = bidirectional(ell, ell)
        X = block(X, theta_l, Mask, eps=eps, layer_norm=layer_norm, dropout=dropout, **sublayers)
    # 5: end
    # 6: return head(X | θ)  ⟦X ∈ ℝ^{d_f×ℓ}⟧
    return head(X, theta, eps, layer_norm=layer_norm, GELU=GELU)


@checked(theta=parameters(BERTTheta, wider_layers=True), x=tokens, s=segments)
def BERT(
    x: Int[Tensor, "ell"],
    theta: BERTTheta,
    s: Int[Tensor, "ell"] | None = None,
    *,
    unembed: Unembed = biased_unembed,
    **components: Unpack[EncoderComponents],
) -> Float[Tensor, "N_V ell"]:
    """Variant of Algorithm 9: P ← BERT(x, s | θ)

    Algorithm 9 with components. Those of BERT as it was published unless others are given: segments,
    a norm of the embeddings, and an output bias.
    Input: x ∈ V*, a sequence of token IDs.
    Input: s ∈ [N_S]*, the segment every token belongs to; all the first unless given.
    Output: P ∈ (0,1)^{N_V×length(x)}, where each column of P is a distribution over the vocabulary.
    """
    # 1: X ← encode(x, s | θ)  ⟦X ∈ ℝ^{d_f×ℓ}⟧
    X = encode(x, theta, s, **components)
    # 2: return P = unembed(X | θ)  ⟦P ∈ ℝ^{N_V×ℓ}⟧
    return unembed(X, theta)


@checked(theta=parameters(BERTClassifierTheta, wider_layers=True), x=starting_with_bos, s=segments)
def BERTClassifier(
    x: Int[Tensor, "ell"],
    theta: BERTClassifierTheta,
    s: Int[Tensor, "ell"] | None = None,
    *,
    pooling: Pooling = bos_pooling,
    **components: Unpack[EncoderComponents],
) -> Float[Tensor, "N_C"]:
    """Variant of Algorithm 9: p ← BERTClassifier(x, s | θ)

    BERT, reading the classes off one vector of the text, by default that of its first token, bos_token.
    Input: x ∈ V*, a sequence of token IDs.
    Input: s ∈ [N_S]*, the segment every token belongs to; all the first unless given.
    Output: p ∈ Δ([N_C]), the distribution P̂_θ(c | x) over the classes.
    """
    # 1: X ← encode(x, s | θ)  ⟦X ∈ ℝ^{d_f×ℓ}⟧
    X = encode(x, theta, s, **components)
    # 2: return p = softmax(W_c pooling(X) + b_c)  ⟦p ∈ ℝ^{N_C}⟧
    return softmax(theta.W_c @ pooling(X) + theta.b_c)


# Encoder–decoder ----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, repr=False)
class PreNormEDTheta(EDTheta):
    """θ of Algorithm 8 with a norm at the end of the encoder and one at the end of the decoder."""

    gamma_enc: Float[Tensor, "d_e"]
    beta_enc: Float[Tensor, "d_e"]
    gamma_dec: Float[Tensor, "d_e"]
    beta_dec: Float[Tensor, "d_e"]


@dataclass(frozen=True, eq=False, repr=False)
class MarianTheta(PreNormEDTheta, BiasedEDTheta):
    """The same with an output bias."""


@checked(
    theta=parameters(PreNormEDTheta, wider_layers=True, also=("embed", "unembed")),
    z=tokens,
    x=tokens,
    eps=epsilon,
)
def PreNormEDTransformer(
    z: Int[Tensor, "ell_z"],
    x: Int[Tensor, "ell_x"],
    theta: PreNormEDTheta,
    *,
    eps: float = 1e-5,
    layer_norm: Norm = layer_norm,
    final_norm: Norm = layer_norm,
    dropout: Dropout = no_dropout,
    embed: Embed = embed,
    block: Block = pre_norm,
    decoder_block: Block = pre_norm_decoder,
    unembed: Unembed = unembed,
    MLP: Perceptron = ReLU_MLP,
    **heads: Unpack[Heads],
) -> Float[Tensor, "N_V ell_x"]:
    """Variant of Algorithm 8: P ← PreNormEDTransformer(z, x | θ)

    Algorithm 8 with norms where Algorithm 10 has them: before each sub-layer, and at the end of both stacks.
    Input: z, x ∈ V*, two sequences of token IDs.
    Output: P ∈ (0,1)^{N_V×length(x)}, where the t-th column of P represents P̂_θ(x[t+1] | x[1:t], z).
    """
    # 1: ℓ_z ← length(z)
    ell_z = length(z)
    # 2: Z ← dropout(embed(z | θ))  ⟦Z ∈ ℝ^{d_e×ℓ_z}⟧
    Z = dropout(embed(z, theta))
    # 3: for l = 1, 2, …, L_enc do
    for l, theta_l in enumerate(theta.enc):
        # 4: Z ← block(Z | θ_l, Mask≡1)
        Mask = bidirectional(ell_z, ell_z)
        Z = block(Z, theta_l, Mask, eps=eps, layer_norm=layer_norm, dropout=dropout, MLP=MLP, **heads)
    # 5: end
    # 6: for t∈[ℓ_z]: Z[:,t] ← layer_norm(Z[:,t] | γ_enc, β_enc)
    Z = normalized(Z, theta.gamma_enc, theta.beta_enc, eps, final_norm)
    # 7: X ← dropout(embed(x | θ))  ⟦X ∈ ℝ^{d_e×ℓ_x}⟧
    X = dropout(embed(x, theta))
    # 8: for l = 1, 2, …, L_dec do
    for l, theta_l in enumerate(theta.dec):
        # 9: X ← decoder_block(X, Z | θ_l)
        X = decoder_block(X, Z, theta_l, eps=eps, layer_norm=layer_norm, dropout=dropout, MLP=MLP, **heads)
    # 10: end
    # 11: for t∈[ℓ_x]: X[:,t] ← layer_norm(X[:,t] | γ_dec, β_dec)
    X = normalized(X, theta.gamma_dec, theta.beta_dec, eps, final_norm)
    # 12: return P = unembed(X | θ)  ⟦P ∈ ℝ^{N_V×ℓ_x}⟧
    return unembed(X, theta)
