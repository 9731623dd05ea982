"""What the paper names without pseudocode, stated as formally: the parts of GPT-3, Gopher and BERT, and classification (§3).

A variant is one of two things. Another component under the paper's name, given by keyword:
`DTransformer(x, theta, layer_norm=RMSnorm)`, `DTransformer(x, theta, Mask=sparse(w))`. Or a map on θ: `DTransformer(x, tied(theta))`,
`EDTransformer(z, x, with_positions(theta, sinusoids(d_e, ell_max)))`. To train with it, the map stands inside the transformer
that is trained, `DTraining(…, DTransformer=lambda x, theta: DTransformer(x, tied(theta)))`: the part it replaces then gets the
gradient 0 and stays as it was.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import inf, pi, sqrt
from typing import TypeVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.func import grad

from .architectures import Activation, DTransformer, MultiHead, Norm
from .components import MHAttention, layer_norm
from .domains import checked, classes, epsilon, learning_rate, mask, natural, parameters, sequences, shaped, starting_with_bos, tokens
from .notation import GELU, bidirectional, columns, length, softmax, unidirectional
from .theta import AttentionTheta, DTheta, EDTheta, ETheta, Layer, MHAttentionTheta, TransformerTheta
from .tree import normal

# Normalisation (Gopher) ------------------------------------------------------------------------------------------------


@checked(e=shaped("d_e"), gamma=shaped("d_e", parameter=True), eps=epsilon)
def RMSnorm(e: Float[Tensor, "d_e"], gamma: Float[Tensor, "d_e"], beta: Float[Tensor, "d_e"] | None = None, eps: float = 1e-5) -> Float[Tensor, "d_e"]:
    """Variant of Algorithm 6: ê ← RMSnorm(e | γ)

    Root mean square layer normalisation: layer_norm with m = β = 0, whatever β is given.
    Input: e ∈ ℝ^{d_e}, neural network activations.
    Output: ê ∈ ℝ^{d_e}, normalized activations.
    Parameters: γ ∈ ℝ^{d_e}, element-wise scale.
    Hyperparameters: ε ∈ [0, ∞)
    """
    v = (e**2).sum() / len(e)  # 1: v ← Σ_{i=1}^{d_e} e[i]² / d_e  ⟦v ∈ ℝ⟧
    return e / torch.sqrt(v + eps) * gamma  # 2: return ê = e/√(v + ε) ⊙ γ  ⟦ê ∈ ℝ^{d_e}⟧


# Activation (GPT-2) ----------------------------------------------------------------------------------------------------


def tanh_GELU(A: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """GELU(x) ≈ x/2 · (1 + tanh(√(2/π) (x + 0.044715 x³))), as GPT-2 computes it (Hendrycks & Gimpel 2016)."""
    return A / 2 * (1 + torch.tanh(sqrt(2 / pi) * (A + 0.044715 * A**3)))


# Positions -------------------------------------------------------------------------------------------------------------


def _waves(positions: Float[Tensor, "*n"], wavelengths: Float[Tensor, "half"]) -> Float[Tensor, "2*half *n"]:
    """Row 2i−1 is sin(t / wavelength_i), row 2i is cos(t / wavelength_i)."""
    angles = positions / wavelengths.reshape(-1, *[1] * positions.ndim)
    return torch.stack([angles.sin(), angles.cos()], dim=1).flatten(0, 1)


def _pairs(d_e: int, symbol: str = "d_e") -> Float[Tensor, "half"]:
    """i = 1, 2, …, d_e/2."""
    if d_e % 2 or d_e < 1:
        raise ValueError(f"{symbol}: expected an even number, for sinusoids come as pairs of sine and cosine, got {d_e}")
    return torch.arange(1, d_e // 2 + 1, dtype=torch.float64)


def paper_sinusoids(d_e: int, ell_max: int) -> Float[Tensor, "d_e ell_max"]:
    """W_p[2i−1,t] = sin(t / ℓ_max^{2i/d_e}), W_p[2i,t] = cos(t / ℓ_max^{2i/d_e}), 0 < i ≤ d_e/2, t ∈ [ℓ_max]: as the paper has it."""
    return _waves(torch.arange(1, ell_max + 1, dtype=torch.float64), ell_max ** (2 * _pairs(d_e) / d_e))


def sinusoids(d_e: int, ell_max: int) -> Float[Tensor, "d_e ell_max"]:
    """W_p[2i−1,t] = sin((t−1) / 10000^{2(i−1)/d_e}), W_p[2i,t] = cos(…), 0 < i ≤ d_e/2, t ∈ [ℓ_max]: as Vaswani et al. have it."""
    return relative_sinusoids(torch.arange(ell_max), d_e)


def relative_sinusoids(delta: Int[Tensor, "*n"], d_r: int) -> Float[Tensor, "d_r *n"]:
    """The sinusoids of Vaswani et al. at any positions δ, also negative ones."""
    return _waves(delta.double(), 10000 ** (2 * (_pairs(d_r) - 1) / d_r))


T = TypeVar("T", bound=TransformerTheta)


def scaled(theta: T) -> T:
    """θ with √d_e W_e for W_e, as the original Transformer embeds; tie before, not after: `scaled(tied(theta))`."""
    return replace(theta, W_e=sqrt(len(theta.W_e)) * theta.W_e)


def with_positions(theta: T, W_p: Float[Tensor, "d_e ell_max"]) -> T:
    """θ with a hard-coded W_p, `sinusoids(d_e, ell_max)` say."""
    return replace(theta, W_p=W_p.to(theta.W_e))


def without_positions(theta: T) -> T:
    """θ with W_p = 0: no absolute positions."""
    return replace(theta, W_p=torch.zeros_like(theta.W_p))


@dataclass(frozen=True, eq=False, repr=False)
class RelativeAttentionTheta(AttentionTheta):
    """𝒲_qkv of a head that attends by relative position."""

    W_r: Float[Tensor, "d_attn d_r"]
    u: Float[Tensor, "d_attn"]
    w: Float[Tensor, "d_attn"]


@dataclass(frozen=True, eq=False, repr=False)
class RelativeMHAttentionTheta(MHAttentionTheta):
    """𝒲 with, for every head, a projection W_r of the distance and two biases u, w, of content and of distance."""

    W_r: Float[Tensor, "H d_attn d_r"]
    u: Float[Tensor, "H d_attn"]
    w: Float[Tensor, "H d_attn"]

    @property
    def W_qkv(self) -> Sequence[RelativeAttentionTheta]:
        parts = (self.W_q, self.b_q, self.W_k, self.b_k, self.W_v, self.b_v, self.W_r, self.u, self.w)
        return [RelativeAttentionTheta(*head) for head in zip(*parts, strict=True)]


def relative(theta: DTheta, d_r: int, generator: torch.Generator | None = None) -> DTheta:
    """θ with what relative positions take in every layer, W_r, u and w random. W_p stays, and `Gopher` does not use it."""
    _pairs(d_r, "d_r")

    def extend(W: MHAttentionTheta) -> RelativeMHAttentionTheta:
        H, d_attn, _ = W.W_q.shape
        parts = (W.W_q, W.b_q, W.W_k, W.b_k, W.W_v, W.b_v, W.W_o, W.b_o)
        shapes = ((H, d_attn, d_r), d_r), ((H, d_attn), d_attn), ((H, d_attn), d_attn)
        return RelativeMHAttentionTheta(*parts, *(normal(shape, d, generator, W.W_q.dtype, W.W_q.device) for shape, d in shapes))

    return replace(theta, layers=tuple(replace(layer, W=extend(layer.W)) for layer in theta.layers))


@checked(W_qkv=parameters(RelativeAttentionTheta), X=shaped("d_x", "ell_x"), Z=shaped("d_z", "ell_z"), Mask=mask)
def RelativeAttention(X: Float[Tensor, "d_x ell_x"], Z: Float[Tensor, "d_z ell_z"], W_qkv: RelativeAttentionTheta, Mask: Bool[Tensor, "ell_z ell_x"]) -> Float[Tensor, "d_out ell_x"]:
    """Variant of Algorithm 4: Ṽ ← RelativeAttention(X, Z | 𝒲_qkv, Mask)

    A head that sees how far apart two tokens are (Transformer-XL, Dai et al. 2019; Gopher).
    Input: X ∈ ℝ^{d_x×ℓ_x}, Z ∈ ℝ^{d_z×ℓ_z}, vector representations of primary and context sequence.
    Output: Ṽ ∈ ℝ^{d_out×ℓ_x}, updated representations of tokens in X, folding in information from tokens in Z.
    Parameters: 𝒲_qkv as in Algorithm 4 and W_r ∈ ℝ^{d_attn×d_r}, u, w ∈ ℝ^{d_attn}.
    Hyperparameters: Mask ∈ {0,1}^{ℓ_z×ℓ_x}; r(δ) ∈ ℝ^{d_r}, the sinusoids of Vaswani et al. at position δ.
    """
    Q = W_qkv.W_q @ X + W_qkv.b_q[:, None]  # 1: Q ← W_q X + b_q 1ᵀ  ⟦Query ∈ ℝ^{d_attn×ℓ_x}⟧
    K = W_qkv.W_k @ Z + W_qkv.b_k[:, None]  # 2: K ← W_k Z + b_k 1ᵀ  ⟦Key ∈ ℝ^{d_attn×ℓ_z}⟧
    V = W_qkv.W_v @ Z + W_qkv.b_v[:, None]  # 3: V ← W_v Z + b_v 1ᵀ  ⟦Value ∈ ℝ^{d_out×ℓ_z}⟧
    r = relative_sinusoids(torch.arange(X.shape[1]) - torch.arange(Z.shape[1])[:, None], W_qkv.W_r.shape[1]).to(X)  # 4: ∀t_z, t_x: r[:,t_z,t_x] ← r(t_x − t_z)  ⟦r ∈ ℝ^{d_r×ℓ_z×ℓ_x}⟧
    R = torch.tensordot(W_qkv.W_r, r, dims=1)  # 5: ∀t_z, t_x: R[:,t_z,t_x] ← W_r r[:,t_z,t_x]  ⟦R ∈ ℝ^{d_attn×ℓ_z×ℓ_x}⟧
    S = K.T @ (Q + W_qkv.u[:, None]) + (R * (Q + W_qkv.w[:, None])[:, None, :]).sum(dim=0)  # 6: ∀t_z, t_x: S[t_z,t_x] ← K[:,t_z]ᵀ(Q[:,t_x] + u) + R[:,t_z,t_x]ᵀ(Q[:,t_x] + w)  ⟦Score ∈ ℝ^{ℓ_z×ℓ_x}⟧
    S = torch.where(Mask, S, -inf)  # 7: ∀t_z, t_x, if ¬Mask[t_z,t_x] then S[t_z,t_x] ← −∞
    return V @ softmax(S / sqrt(W_qkv.d_attn))  # 8: return Ṽ = V · softmax(S / √d_attn)  ⟦Ṽ ∈ ℝ^{d_out×ℓ_x}⟧


@checked(W=parameters(RelativeMHAttentionTheta), X=shaped("d_x", "ell_x"), Z=shaped("d_z", "ell_z"), Mask=mask)
def RelativeMHAttention(X: Float[Tensor, "d_x ell_x"], Z: Float[Tensor, "d_z ell_z"], W: RelativeMHAttentionTheta, Mask: Bool[Tensor, "ell_z ell_x"]) -> Float[Tensor, "d_out ell_x"]:
    """Variant of Algorithm 5: Ṽ ← RelativeMHAttention(X, Z | 𝒲, Mask)

    Multi-head attention by relative position.
    """
    Y_h = [RelativeAttention(X, Z, W_qkv, Mask) for W_qkv in W.W_qkv]  # 1: For h∈[H]: Y^h ← RelativeAttention(X, Z | 𝒲_qkv^h, Mask)  ⟦Y^h ∈ ℝ^{d_mid×ℓ_x}⟧
    Y = torch.cat(Y_h)  # 2: Y ← [Y^1; Y^2; …; Y^H]  ⟦Y ∈ ℝ^{H·d_mid×ℓ_x}⟧
    return W.W_o @ Y + W.b_o[:, None]  # 3: return Ṽ = W_o Y + b_o 1ᵀ  ⟦Ṽ ∈ ℝ^{d_out×ℓ_x}⟧


@checked(theta=parameters(DTheta), x=tokens, eps=epsilon)
def Gopher(x: Int[Tensor, "ell"], theta: DTheta, *, eps: float = 1e-5) -> Float[Tensor, "N_V ell"]:
    """Algorithm 10 as Gopher has it, for a θ made by `relative`: RMSnorm in lines 5, 7 and 10, relative positions and no others."""
    return DTransformer(x, without_positions(theta), eps=eps, layer_norm=RMSnorm, MHAttention=RelativeMHAttention)


# Sparse attention (GPT-3) ----------------------------------------------------------------------------------------------


def banded(ell: int, w: int) -> Bool[Tensor, "ell ell"]:
    """Mask[t_z,t_x] = ⟦t_x − w < t_z ≤ t_x⟧: every query attends to itself and the w − 1 tokens before it."""
    if not isinstance(w, int) or w < 1:
        raise ValueError(f"w: expected a width of at least 1, got {w}")
    return unidirectional(ell) & ~torch.ones(ell, ell, dtype=torch.bool).triu(w)


def sparse(w: int) -> Callable[[int, int], Bool[Tensor, "ell ell"]]:
    """GPT-3's Mask: dense in layers l = 1, 3, 5, …, a band of width w in layers l = 2, 4, 6, …"""
    banded(1, w)
    return lambda ell, l: unidirectional(ell) if l % 2 == 0 else banded(ell, w)


# Weight tying ----------------------------------------------------------------------------------------------------------

Tied = TypeVar("Tied", DTheta, ETheta, EDTheta)


def tied(theta: Tied) -> Tied:
    """θ with W_u = W_eᵀ (GPT-2, BERT, the original Transformer); Algorithm 9 needs d_f = d_e for it.

    Training unties what is tied before it, so tie inside the transformer that is trained (see above), and θ̂ once more after.
    """
    return replace(theta, W_u=theta.W_e.T)


# Classification with an encoder (§3) -----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, repr=False)
class ECTheta(TransformerTheta):
    """θ of the classifier: Algorithm 9's, with a matrix of classes W_c, b_c in the place of W_u."""

    layers: tuple[Layer, ...]
    W_f: Float[Tensor, "d_f d_e"]
    b_f: Float[Tensor, "d_f"]
    gamma: Float[Tensor, "d_f"]
    beta: Float[Tensor, "d_f"]
    W_c: Float[Tensor, "N_C d_f"]
    b_c: Float[Tensor, "N_C"]

    @classmethod
    def init(
        cls, *, N_V: int, N_C: int, ell_max: int, L: int, H: int, d_e: int, d_mlp: int, d_f: int, d_attn: int | None = None, d_mid: int | None = None,
        generator: torch.Generator | None = None, dtype: torch.dtype = torch.float64, device: torch.device | str | None = None,
    ) -> "ECTheta":  # fmt: skip
        """A random θ, see `draw`; d_attn and d_mid are d_e / H unless given."""
        return cls._init(N_V=N_V, N_C=N_C, ell_max=ell_max, L=L, H=H, d_e=d_e, d_mlp=d_mlp, d_f=d_f, d_attn=d_attn, d_mid=d_mid, generator=generator, dtype=dtype, device=device)

    @classmethod
    def from_encoder(cls, theta: ETheta, N_C: int, generator: torch.Generator | None = None) -> "ECTheta":
        """A classifier on a trained encoder: all of its θ but W_u, and a random W_c."""
        d_f = len(theta.b_f)
        W_c = normal((N_C, d_f), d_f, generator, theta.W_f.dtype, theta.W_f.device)
        return cls(theta.W_e, theta.W_p, theta.layers, theta.W_f, theta.b_f, theta.gamma, theta.beta, W_c, W_c.new_zeros(N_C))


@checked(theta=parameters(ECTheta), x=starting_with_bos, eps=epsilon)
def EClassifier(x: Int[Tensor, "ell"], theta: ECTheta, *, eps: float = 1e-5, layer_norm: Norm = layer_norm, MHAttention: MultiHead = MHAttention, GELU: Activation = GELU) -> Float[Tensor, "N_C"]:
    """Variant of Algorithm 9: p ← EClassifier(x | θ)

    Classification with an encoder-only transformer: Algorithm 9, reading the classes off its first token, bos_token.
    Input: x ∈ V*, a sequence of token IDs.
    Output: p ∈ Δ([N_C]), the distribution P̂_θ(c | x) over the classes.
    Hyperparameters: ℓ_max, L, H, d_e, d_mlp, d_f, d_attn, d_mid, N_C ∈ ℕ, read off θ; ε.
    Parameters: θ, see ECTheta.
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
    return softmax(theta.W_c @ X[:, 0] + theta.b_c)  # 12: return p = softmax(W_c X[:,1] + b_c)  ⟦p ∈ ℝ^{N_C}⟧


@checked(theta=parameters(ECTheta), xs=sequences(starting_with_bos), cs=classes, N_epochs=natural, eta=learning_rate)
def ECTraining(xs: list[Int[Tensor, "_"]], cs: list[int], theta: ECTheta, N_epochs: int, eta: float, *, EClassifier: Callable[..., Tensor] = EClassifier) -> ECTheta:
    """Variant of Algorithm 12: θ̂ ← ECTraining(x_{1:N_data}, c_{1:N_data}, θ)

    Training a classifier.
    Input: {(x_n, c_n)}_{n=1}^{N_data}, a dataset of sequences and their classes.
    Input: θ, initial classifier parameters.
    Output: θ̂, the trained parameters.
    Hyperparameters: N_epochs ∈ ℕ, η ∈ (0,∞)
    """
    for i in range(N_epochs):  # 1: for i = 1, 2, …, N_epochs do
        for x_n, c_n in zip(xs, cs, strict=True):  # 2: for n = 1, 2, …, N_data do
            p = partial(EClassifier, x_n)  # 3: p(θ) ← EClassifier(x_n | θ)  ⟦p(θ) ∈ ℝ^{N_C}⟧
            loss = lambda theta: -p(theta)[c_n].log()  # 4: loss(θ) = −log p(θ)[c_n]  ⟦loss(θ) ∈ ℝ⟧
            theta = theta - eta * grad(loss)(theta)  # 5: θ ← θ − η·∇loss(θ)
        # 6: end
    # 7: end
    return theta  # 8: return θ̂ = θ


@checked(theta_hat=parameters(ECTheta), x=starting_with_bos)
def ECInference(x: Int[Tensor, "ell"], theta_hat: ECTheta, *, EClassifier: Callable[..., Tensor] = EClassifier) -> int:
    """Variant of Algorithm 15: ĉ ← ECInference(x, θ̂)

    Using a trained classifier: the most probable class.
    Input: x ∈ V*, a sequence of token IDs.
    Input: θ̂, trained classifier parameters.
    Output: ĉ ∈ [N_C], its class.
    """
    p = EClassifier(x, theta_hat)  # 1: p ← EClassifier(x | θ̂)  ⟦p ∈ ℝ^{N_C}⟧
    return int(p.argmax())  # 2: return ĉ = argmax_c p[c]
