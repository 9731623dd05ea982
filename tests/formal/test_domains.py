"""Bad input gets a ValueError that names the paper's symbol, what was expected and what came."""

from dataclasses import replace
from math import inf, nan
from typing import Any

import numpy as np
import pytest
import torch
from jaxtyping import Float, Int
from torch import Tensor

from tests.strategies import normal, random_attention, random_heads, rng
from transalg.formal import (
    Attention,
    DInference,
    DTheta,
    DTraining,
    DTransformer,
    EDInference,
    EDTheta,
    EDTraining,
    EDTransformer,
    ETheta,
    ETraining,
    ETransformer,
    MHAttention,
    bidirectional,
    layer_norm,
    positional_embedding,
    single_query_attention,
    token_embedding,
    unembedding,
    unidirectional,
)
from transalg.formal.bias import unbiased
from transalg.formal.classification import ECInference, EClassifier, ECTheta, ECTraining
from transalg.formal.decoders import Gemma, GPTNeoX, Llama, LlamaTheta, Mistral, Qwen2, Qwen3, Qwen3Theta
from transalg.formal.domains import checked, index, natural
from transalg.formal.heads import NormedAttention, grouped, normed
from transalg.formal.mask import banded, sparse
from transalg.formal.mlp import GatedMLP, gated
from transalg.formal.norm import RMSnorm_1p
from transalg.formal.positions import RotaryAttention, linear_scaling, llama3_scaling, relative, rotary_frequencies, rotate
from transalg.formal.systems import Gopher

D = {"N_V": 11, "ell_max": 7, "H": 2, "d_e": 6, "d_mlp": 13}
MASK, BOS, EOS = 8, 9, 10
theta = DTheta.init(**D, L=2, generator=rng(0))
etheta = ETheta.init(**D, L=2, d_f=5, generator=rng(0))
edtheta = EDTheta.init(**D, L_enc=1, L_dec=1, generator=rng(0))
ctheta = ECTheta.init(**D, L=1, d_f=5, N_C=3, generator=rng(0))
e, E = normal(0, 6), normal(1, 6, 5)
W_qkv = random_attention(0, d_attn=2, d_x=6, d_z=5, d_out=7)
W = random_heads(0, H=2, d_attn=2, d_mid=5, d_x=6, d_z=5, d_out=7)
X, Z = normal(2, 6, 3), normal(3, 5, 4)
omega = rotary_frequencies(2)
ltheta = LlamaTheta.init(**D | {"H": 6}, H_kv=2, d_attn=3, d_mid=5, L=2, generator=rng(0))
qtheta = Qwen3Theta.init(**D | {"H": 6}, H_kv=2, d_attn=3, d_mid=5, L=2, generator=rng(0))


def biased(name: str) -> LlamaTheta:
    """A θ of Llama with one bias that is not 0."""
    return LlamaTheta.from_named(ltheta.named() | {name: ltheta.named()[name] + 1})


def turning(omega: object) -> Tensor:
    return RotaryAttention(X, Z, W_qkv, bidirectional(4, 3), omega=omega)


def nans(theta: Any, name: str, value: float = nan) -> Any:
    part = theta.named()[name].clone()
    part.view(-1)[-1] = value
    return type(theta).from_named(theta.named() | {name: part})


REFUSED = {
    # a token ID outside V
    "x: expected token IDs in V = {0, …, N_V−1} with N_V = 11, got 11 at index 1": lambda: DTransformer([1, 11], theta),
    "x: expected token IDs in V = {0, …, N_V−1} with N_V = 11, got -1 at index 0": lambda: ETransformer([-1], etheta),
    "z: expected token IDs in V = {0, …, N_V−1} with N_V = 11, got 99 at index 2": lambda: EDTransformer([1, 2, 99], [1], edtheta),
    "x_2: expected token IDs in V": lambda: DTraining([[BOS, 1], [BOS, 12]], theta, 1, 0.1),
    "z_1: expected token IDs in V": lambda: EDTraining([[11]], [[BOS, 1]], edtheta, 1, 0.1),
    "v: expected one of 0, …, N_V−1 with N_V = 5, got 5": lambda: token_embedding(5, E),
    "v: expected one of 0, …, N_V−1 with N_V = 5, got -1": lambda: token_embedding(-1, E),
    "ell: expected one of 0, …, ell_max−1 with ell_max = 5, got 7": lambda: positional_embedding(torch.tensor(7), E),
    "x: expected a sequence of token IDs, whole numbers, got torch.float32": lambda: DTransformer([1.0, 2.0], theta),
    "x: expected a sequence of token IDs, whole numbers, got torch.int64 of shape (1, 2)": lambda: DTransformer([[1, 2]], theta),
    "x: expected a sequence of token IDs, whole numbers, got torch.bool": lambda: DTransformer([True], theta),
    # ℓ > ℓ_max, an empty sequence
    "x: expected at most ℓ_max = 7 tokens, got ℓ = 8": lambda: DTransformer([1] * 8, theta),
    "z: expected at most ℓ_max = 7 tokens, got ℓ = 9": lambda: EDInference([1] * 9, edtheta, 1.0),
    "x: expected at least one token, got an empty sequence": lambda: ETransformer([], etheta),
    "x_1: expected at least one token, got an empty sequence": lambda: ETraining([[]], etheta, 1, 0.1, 0.5),
    # θ parts whose shapes disagree, NaN in θ, another algorithm's θ
    "theta: expected a DTheta, got ETheta": lambda: DTransformer([1], etheta),
    "theta_hat: expected a EDTheta, got DTheta": lambda: EDInference([1], theta, 1.0),
    "theta: expected finite numbers in theta.layers.1.W.W_q, got NaN": lambda: DTransformer([1], nans(theta, "layers.1.W.W_q")),
    "theta: expected finite numbers in theta.W_p, got NaN": lambda: ETransformer([1], nans(etheta, "W_p")),
    "theta_hat: expected finite numbers in theta_hat.W_u, got NaN": lambda: DInference([1], nans(theta, "W_u"), 1, 1.0),
    "theta: expected finite numbers in theta.W_u, got ±∞": lambda: EDTransformer([1], [1], nans(edtheta, "W_u", inf)),
    "W: expected finite numbers in W.b_o, got NaN": lambda: MHAttention(X, Z, nans(W, "b_o"), bidirectional(4, 3)),
    "W_e: expected finite numbers in W_e, got NaN": lambda: token_embedding(0, E * nan),
    "theta: expected one dtype and device, torch.float64 on cpu as in theta.W_e, got torch.float32 on cpu in theta.W_p": lambda: DTransformer([1], replace(theta, W_p=theta.W_p.float())),
    "theta: expected d_e = 6 in W_u": lambda: DTransformer([1], replace(theta, W_u=theta.W_u[:, :5])),
    "theta: expected H = 2 in layers.1.W.W_q": lambda: replace(theta, layers=(theta.layers[0], DTheta.init(**(D | {"H": 1}), L=1).layers[0])),
    "gamma: expected d_e = 6 in ℝ^{d_e}, got 5": lambda: layer_norm(e, normal(0, 5), e),
    "beta: expected d_e = 6 in ℝ^{d_e}, got 5": lambda: layer_norm(e, e, normal(0, 5)),
    "W_u: expected d_e = 6 in ℝ^{N_V×d_e}, got 5": lambda: unembedding(e, normal(0, 7, 5)),
    "e: expected a tensor in ℝ^{d_e}, got list": lambda: unembedding([1.0], normal(0, 7, 5)),
    "e: expected a tensor in ℝ^{d_e}, got the shape (6, 5)": lambda: layer_norm(E, e, e),
    "e: expected real numbers in e, got torch.int64": lambda: layer_norm(torch.ones(3, dtype=torch.long), e[:3], e[:3]),
    "e: expected d_x = 6 in ℝ^{d_x}, got 5": lambda: single_query_attention(normal(0, 5), E, W_qkv),
    "E: expected d_z = 5 in ℝ^{d_z×T}, got 6": lambda: single_query_attention(e, E, W_qkv),
    "X: expected d_x = 6 in ℝ^{d_x×ell_x}, got 5": lambda: Attention(Z, Z, W_qkv, bidirectional(4, 4)),
    "Z: expected d_z = 5 in ℝ^{d_z×ell_z}, got 6": lambda: MHAttention(X, X, W, bidirectional(3, 3)),
    # a Mask of the wrong orientation or kind
    "Mask: expected booleans in {0,1}^{ℓ_z×ℓ_x} = 4×3, a row for every key, got 3×4, its transpose": lambda: Attention(X, Z, W_qkv, bidirectional(3, 4)),
    "Mask: expected booleans in {0,1}^{ℓ_z×ℓ_x} = 4×3, a row for every key, got 4×4": lambda: MHAttention(X, Z, W, bidirectional(4, 4)),
    "Mask: expected booleans in {0,1}^{ℓ_z×ℓ_x} = 4×3, a row for every key, got torch.float64": lambda: Attention(X, Z, W_qkv, normal(0, 4, 3)),
    "Mask: expected booleans in {0,1}^{ℓ_z×ℓ_x} = 4×3, a row for every key, got NoneType": lambda: Attention(X, Z, W_qkv, None),
    "Mask: expected a row for every key, so that ⟦t_z ≤ t_x⟧ is upper triangular, got its transpose": lambda: Attention(X, X, random_attention(0, d_attn=2, d_x=6, d_z=6, d_out=7), unidirectional(3).T),
    # numbers outside their range
    "tau: expected a number in [0, ∞], got -0.1": lambda: DInference([1], theta, 1, -0.1),
    "tau: expected a number in [0, ∞], got nan": lambda: EDInference([1], edtheta, nan),
    "tau: expected a number in [0, ∞], got '1'": lambda: DInference([1], theta, 1, "1"),
    "p_mask: expected a number in (0, 1), got 0": lambda: ETraining([[1]], etheta, 1, 0.1, 0),
    "p_mask: expected a number in (0, 1), got 1.0": lambda: ETraining([[1]], etheta, 1, 0.1, 1.0),
    "p_mask: expected a number in (0, 1), got nan": lambda: ETraining([[1]], etheta, 1, 0.1, nan),
    "eta: expected a number in (0, ∞), got 0": lambda: DTraining([[BOS]], theta, 1, 0),
    "eta: expected a number in (0, ∞), got inf": lambda: DTraining([[BOS]], theta, 1, inf),
    "N_epochs: expected a whole number, 0 or more, got -1": lambda: DTraining([[BOS]], theta, -1, 0.1),
    "N_epochs: expected a whole number, 0 or more, got 1.5": lambda: EDTraining([[1]], [[BOS]], edtheta, 1.5, 0.1),
    "N_epochs: expected a whole number, 0 or more, got True": lambda: DTraining([[BOS]], theta, True, 0.1),
    "ell_gen: expected a whole number, 0 or more, got -1": lambda: DInference([1], theta, -1, 1.0),
    "ell_gen: expected at most ℓ_max = 7, got 8": lambda: EDInference([1], edtheta, 1.0, ell_gen=8),
    "eps: expected a number in [0, ∞), got -1e-05": lambda: DTransformer([1], theta, eps=-1e-5),
    # data that does not fit the objective
    "x_2: expected bos_token = 9 first, got 3": lambda: DTraining([[BOS, 1], [3, 1]], theta, 1, 0.1),
    "x_1: expected bos_token = 9 first, got 1": lambda: EDTraining([[1]], [[1]], edtheta, 1, 0.1),
    "x_1: expected no mask_token = 8 in the data, got one at index 2": lambda: ETraining([[BOS, 1, MASK]], etheta, 1, 0.1, 0.5),
    "xs: expected N_data = 2 of them, got 1": lambda: EDTraining([[1], [2]], [[BOS]], edtheta, 1, 0.1),
    # the classifier
    "c_1: expected one of 0, …, N_C−1 with N_C = 3, got 3": lambda: ECTraining([[BOS]], [3], ctheta, 1, 0.1),
    "cs: expected N_data = 1 of them, got 2": lambda: ECTraining([[BOS]], [0, 1], ctheta, 1, 0.1),
    "theta: expected a ECTheta, got ETheta": lambda: EClassifier([BOS], etheta),
    "x: expected at least one token": lambda: ECInference([], ctheta),
    "x: expected bos_token = 9 first, got 1": lambda: EClassifier([1], ctheta),
    # what is no sequence, no data set, no number
    "x: expected a sequence of token IDs, whole numbers, got None": lambda: DTransformer(None, theta),
    "x: expected a sequence of token IDs, whole numbers, got 'abc'": lambda: DTransformer("abc", theta),
    "x: expected a sequence of token IDs, whole numbers, got [1, None]": lambda: DTransformer([1, None], theta),
    "x: expected a sequence of token IDs, whole numbers, got [[1], [2, 3]]": lambda: DTransformer([[1], [2, 3]], theta),
    "x: expected a sequence of token IDs, whole numbers, got torch.int64 of shape ()": lambda: DInference(3, theta, 1, 1.0),
    "x: expected a sequence of token IDs, whole numbers, got [9223372036854775808]": lambda: DTransformer([2**63], theta),
    "xs: expected a list, one for each n ∈ [N_data], got None": lambda: DTraining(None, theta, 1, 0.1),
    "zs: expected a list, one for each n ∈ [N_data], got 3": lambda: EDTraining(3, [[BOS]], edtheta, 1, 0.1),
    "xs: expected a list, one for each n ∈ [N_data], got ''": lambda: DTraining("", theta, 1, 0.1),
    "eta: expected a number in (0, ∞), got 1000000000": lambda: DTraining([[BOS]], theta, 1, 10**400),
    "eta: expected a number in (0, ∞), got None": lambda: DTraining([[BOS]], theta, 1, None),
    "theta: expected a DTheta, got NoneType": lambda: DTransformer([1], None),
    "theta: expected layers to be a tuple of Layer, got list": lambda: replace(theta, layers=list(theta.layers)),
    "theta: expected layers to be a tuple of Layer, got a tuple of DecoderLayer": lambda: replace(theta, layers=edtheta.dec),
    "theta: expected W to be a MHAttentionTheta, got NoneType": lambda: replace(theta.layers[0], W=None),
    "theta: expected W_e ∈ ℝ^{d_e×N_V}, got NoneType": lambda: replace(theta, W_e=None),
    "theta: expected d_f of at least 1 in W_f, got 0": lambda: replace(etheta, W_f=etheta.W_f[:0], b_f=etheta.b_f[:0]),
    "dtype: expected real numbers, got torch.int64": lambda: DTheta.init(**D, L=1, dtype=torch.int64),
    "X: expected one dtype and device, torch.float64 on cpu as in W_qkv.W_q, got torch.float32 on cpu in X": lambda: Attention(X.float(), Z, W_qkv, bidirectional(4, 3)),
    "gamma: expected one dtype and device, torch.float64 on cpu as in e, got torch.float32 on cpu in gamma": lambda: layer_norm(e, e.float(), e),
    "E: expected T of at least 1 in ℝ^{d_z×T}, got 0": lambda: single_query_attention(e, E[:5, :0], W_qkv),
    "Mask: expected a function of ℓ and l that gives the Mask of layer l, such as unidirectional, got Tensor": lambda: DTransformer([1], theta, Mask=unidirectional(1)),
    "W_qkv: expected a AttentionTheta, got RelativeAttentionTheta": lambda: DTransformer([1], relative(theta, 4)),
    "W_qkv: expected a RelativeAttentionTheta, got AttentionTheta": lambda: Gopher([1], theta),
    "stop: expected one of 0, …, N_V−1 with N_V = 11, got 99": lambda: DInference([1], theta, 1, 1.0, stop=99),
    "stop: expected one of 0, …, N_V−1 with N_V = 11, got eos": lambda: DInference([1], theta, 1, 1.0, stop="eos"),
    "generator: expected a torch.Generator or None, got 5": lambda: DInference([1], theta, 1, 1.0, 5),
    "Mask: expected a row for every key, so that ⟦t_z ≤ t_x⟧ is upper triangular, got its transpose, in which": lambda: Attention(X, X.clone(), random_attention(0, d_attn=2, d_x=6, d_z=6, d_out=7), banded(3, 2).T),
    "d_r: expected an even number": lambda: relative(theta, 3),
    "w: expected a width of at least 1, got 0": lambda: sparse(0),
    # today's decoders
    "w: expected a width of at least 1, got 0 ": lambda: Mistral([1], ltheta, omega=omega, w=0),
    "pattern: expected a string of 0 and 1, such as 01, got ''": lambda: sparse(2, ""),
    "pattern: expected a string of 0 and 1, such as 01, got '012'": lambda: sparse(2, "012"),
    "d_rot: expected an even number": lambda: rotary_frequencies(3),
    "base: expected a number in (0, ∞), got 0.0": lambda: rotary_frequencies(4, 0.0),
    "base: expected a number in (0, ∞), got inf": lambda: rotary_frequencies(4, inf),
    "factor: expected a number in (0, ∞), got 0.0": lambda: linear_scaling(omega, 0.0),
    "factor: expected a number in (0, ∞), got nan": lambda: llama3_scaling(omega, nan, 1.0, 4.0, 8192.0),
    "low: expected a number in (0, ∞), got 0.0": lambda: llama3_scaling(omega, 8.0, 0.0, 4.0, 8192.0),
    "high: expected more than low = 4.0, got 1.0": lambda: llama3_scaling(omega, 8.0, 4.0, 1.0, 8192.0),
    "high: expected more than low = 4.0, got 4.0": lambda: llama3_scaling(omega, 8.0, 4.0, 4.0, 8192.0),
    "ell: expected a number in (0, ∞), got inf": lambda: llama3_scaling(omega, 8.0, 1.0, 4.0, inf),
    "t: expected a whole number, 0 or more, got -1": lambda: rotate(e, -1, omega),
    "omega: expected 1 to 3 frequencies, one for a pair of d_attn = 6, got 4": lambda: rotate(e, 1, rotary_frequencies(8)),
    "omega: expected 1 to 3 frequencies, one for a pair of d_attn = 6, got 0": lambda: rotate(e, 1, omega[:0]),
    "omega: expected 1 to 1 frequencies, one for a pair of d_attn = 2, got 2": lambda: turning(rotary_frequencies(4)),
    "omega: expected 1 to 1 frequencies, one for a pair of d_attn = 3, got 2": lambda: Llama([1], ltheta, omega=rotary_frequencies(4)),
    "omega: expected a vector of frequencies, such as rotary_frequencies(d_rot), got (1, 1)": lambda: turning(omega[None]),
    "omega: expected a vector of frequencies, such as rotary_frequencies(d_rot), got list": lambda: turning([1.0]),
    "omega: expected finite numbers in omega, got NaN": lambda: turning(omega * nan),
    "omega: expected finite numbers in omega, got ±∞": lambda: rotate(e, 1, omega * inf),
    "H_kv: expected a divisor of H = 2, got 3": lambda: grouped(theta, 3),
    "theta: expected H_kv to divide H = 6, got 4": lambda: LlamaTheta.init(**D | {"H": 6}, H_kv=4, d_attn=3, d_mid=5, L=1),
    "theta: expected a LlamaTheta, got DTheta": lambda: Llama([1], theta, omega=omega),
    "theta: expected a LlamaTheta, got Qwen3Theta": lambda: Gemma([1], qtheta, omega=omega),
    "theta: expected a Qwen3Theta, got LlamaTheta": lambda: Qwen3([1], ltheta, omega=omega),
    "theta: expected layers.0 to be a Layer, got GatedLayer": lambda: GPTNeoX([1], gated(theta), omega=omega),
    "theta: expected layers.1.W.b_k = 0, for this system has no such bias; see unbiased, got another": lambda: Llama([1], biased("layers.1.W.b_k"), omega=omega),
    "theta: expected layers.0.b_gate = 0, for this system has no such bias; see unbiased, got another": lambda: Mistral([1], biased("layers.0.b_gate"), omega=omega, w=3),
    "theta: expected layers.0.W.b_o = 0, for this system has no such bias; see unbiased, got another": lambda: Qwen2([1], biased("layers.0.W.b_o"), omega=omega),
    "x: expected token IDs in V = {0, …, N_V−1} with N_V = 11, got 11 at index 0": lambda: Llama([11], ltheta, omega=omega),
    "x: expected at most ℓ_max = 7 tokens, got ℓ = 8 ": lambda: Gemma([1] * 8, ltheta, omega=omega),
    "eps: expected a number in [0, ∞), got -1.0": lambda: Llama([1], ltheta, omega=omega, eps=-1.0),
    "bias: expected all or qkv or none, got 'qk'": lambda: unbiased(theta, "qk"),
    "gamma: expected d_e = 6 in ℝ^{d_e}, got 5 ": lambda: RMSnorm_1p(e, normal(0, 5)),
    "W: expected a GatedMLPTheta, got MLPTheta": lambda: GatedMLP(X, theta.layers[0].mlp),
    "W_qkv: expected a NormedAttentionTheta, got AttentionTheta": lambda: NormedAttention(X, Z, W_qkv, bidirectional(4, 3)),
    "W_qkv: expected a AttentionTheta, got NormedAttentionTheta": lambda: RotaryAttention(X, X, normed(theta).layers[0].W.W_qkv[0], bidirectional(3, 3), omega=omega),
}  # fmt: skip


@pytest.mark.parametrize("message", REFUSED)
def test_refused(message: str) -> None:
    with pytest.raises(ValueError) as refusal:  # noqa: PT011  the message is compared whole, below
        REFUSED[message]()
    assert str(refusal.value).startswith(message.rstrip())  # a blank at the end tells one message of two calls from the other
    assert "\n" not in str(refusal.value)


def test_what_is_accepted() -> None:
    """Lists, tuples and tensors of any whole type; both limits of τ; no epoch, no token to generate; a Mask of one token."""
    P = DTransformer([1, 2], theta)
    for x in (
        (1, 2),
        torch.tensor([1, 2], dtype=torch.int32),
        torch.tensor([1, 2]),
        np.array([1, 2], dtype=np.uint16),
        torch.tensor([1, 2], dtype=torch.uint16),
    ):
        assert DTransformer(x, theta).equal(P)
    assert DInference([1], theta, 0, 0).tolist() == []
    assert DInference([1], theta, np.int64(2), np.float32(0)).shape == (2,)
    square = Attention(X, Z[:, :3], W_qkv, unidirectional(3).T)  # cross-attention may have any Mask
    assert square.shape == (7, 3)
    assert DInference([1], theta, 2, inf).shape == (2,)
    assert DTraining([[BOS, 1]], theta, 0, 1).W_u.equal(theta.W_u)
    assert MHAttention(X[:, :1], Z[:, :1], W, unidirectional(1).T).shape == (7, 1)
    assert DTransformer([1], theta, eps=0).isfinite().all()


# Shapes are said once, in the annotations ------------------------------------------------------------------------------


def test_a_shape_is_checked_as_it_is_annotated() -> None:
    @checked(k=index("n"))
    def scale(k: int, x: Float[Tensor, "n"], gamma: Float[Tensor, "n"] | None = None) -> Tensor:
        return k * x if gamma is None else k * x * gamma

    assert scale(2, torch.ones(3)).tolist() == [2, 2, 2]
    for message, call in {
        "x: expected a tensor in ℝ^{n}, got the shape (3, 1)": lambda: scale(2, torch.ones(3, 1)),
        "gamma: expected n = 3 in ℝ^{n}, got 2": lambda: scale(2, torch.ones(3), torch.ones(2)),
        "gamma: expected finite numbers in gamma, got NaN": lambda: scale(2, torch.ones(3), nan * torch.ones(3)),
        "k: expected one of 0, …, n−1 with n = 3, got 3": lambda: scale(3, torch.ones(3)),
    }.items():
        with pytest.raises(ValueError) as refusal:  # noqa: PT011
            call()
        assert str(refusal.value) == message
    assert scale(2, nan * torch.ones(3)).isnan().all(), "activations may be anything"


def test_what_no_annotation_says_needs_a_rule() -> None:
    with pytest.raises(TypeError, match="checked: expected a rule for x, which its annotation does not give"):

        @checked()
        def without(x: Int[Tensor, "ell"]) -> None: ...

    with pytest.raises(TypeError, match="checked: expected rules for arguments, got one for y"):

        @checked(y=natural)
        def unknown(x: Float[Tensor, "n"]) -> None: ...
