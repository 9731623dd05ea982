"""With the paper's layer the systems are the paper's algorithms; each of their other parts, against its definition."""

from dataclasses import replace
from functools import partial
from itertools import combinations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from tests.strategies import fill, normal, rng, sequences, theta_d, thetas
from tests.tolerance import tolerance
from transalg.formal import (
    DTheta,
    DTransformer,
    EDInference,
    EDTheta,
    EDTraining,
    EDTransformer,
    ETheta,
    ETraining,
    ETransformer,
    MHAttention,
    unidirectional,
)
from transalg.formal.classification import EClassifier, ECTheta
from transalg.formal.embedding import BERT_embed, scaled
from transalg.formal.mask import sparse
from transalg.formal.mlp import MLP, ReLU_MLP, tanh_GELU
from transalg.formal.norm import RMSnorm, no_norm
from transalg.formal.positions import (
    RelativeAttention,
    paper_sinusoids,
    relative,
    sinusoids,
    with_positions,
    without_positions,
)
from transalg.formal.systems import (
    BERT,
    GPT,
    BERTClassifier,
    BERTClassifierTheta,
    BERTTheta,
    PreNormEDTheta,
    PreNormEDTransformer,
    parallel_norm,
    post_norm,
    post_norm_decoder,
    pre_norm,
)
from transalg.formal.unembedding import tied

without_norm = partial(BERT_embed, layer_norm=no_norm)
exactly = {"rtol": 0, "atol": tolerance(torch.float64, terms=13, depth=4, size=10)}  # norms of few numbers enlarge errors


def widened(theta, kind: type, **parts: torch.Tensor):
    """θ with further parts."""
    return kind.from_named(theta.named() | parts)


def neutral(theta, kind: type, N_S: int = 1):
    d_e = len(theta.W_e)
    parts = {"W_s": torch.zeros(d_e, N_S).double(), "gamma_e": torch.ones(d_e).double(), "beta_e": torch.zeros(d_e).double()}
    return widened(theta, kind, **parts, **({"b_u": torch.zeros(theta.N_V).double()} if kind is BERTTheta else {}))


@given(st.data())
def test_gpt_is_algorithm_10(data: st.DataObject) -> None:
    theta = data.draw(thetas(DTheta))
    x = data.draw(sequences(theta))
    assert_close(GPT(x, theta), DTransformer(x, theta), **exactly)
    assert_close(GPT(x, theta, Mask=sparse(1)), DTransformer(x, theta, Mask=sparse(1)), **exactly)
    tanh_MLP = partial(MLP, GELU=tanh_GELU)
    assert_close(GPT(x, theta, MLP=tanh_MLP, layer_norm=RMSnorm), DTransformer(x, theta, GELU=tanh_GELU, layer_norm=RMSnorm), **exactly)


@given(st.data())
def test_bert_without_its_own_parts_is_algorithm_9(data: st.DataObject) -> None:
    theta = data.draw(thetas(ETheta))
    x = data.draw(sequences(theta))
    assert_close(BERT(x, neutral(theta, BERTTheta), embed=without_norm), ETransformer(x, theta), **exactly)


@given(st.data())
def test_its_classifier_is_eclassifier(data: st.DataObject) -> None:
    theta = data.draw(thetas(ECTheta))
    x = [theta.bos_token, *data.draw(sequences(theta))][: theta.ell_max]
    assert_close(BERTClassifier(x, neutral(theta, BERTClassifierTheta), embed=without_norm), EClassifier(x, theta), **exactly)


@given(st.data())
def test_with_norms_after_the_sub_layers_it_is_algorithm_8(data: st.DataObject) -> None:
    theta = data.draw(thetas(EDTheta))
    z, x = data.draw(sequences(theta)), data.draw(sequences(theta))
    ends = {name: torch.zeros(len(theta.W_e)).double() for name in ("gamma_enc", "beta_enc", "gamma_dec", "beta_dec")}
    P = PreNormEDTransformer(
        z, x, widened(theta, PreNormEDTheta, **ends), block=post_norm, decoder_block=post_norm_decoder, final_norm=no_norm
    )
    assert_close(P, EDTransformer(z, x, theta), **exactly)


def theta_bert() -> BERTTheta:
    sizes = {"N_V": 11, "ell_max": 7, "H": 2, "d_e": 6, "d_mlp": 13, "L": 1, "d_f": 5}
    return fill(neutral(ETheta.init(**sizes), BERTTheta, N_S=3), 4)


def test_a_segment_adds_its_embedding_to_its_tokens_alone() -> None:
    """Segment 2 for the second token is W_s[:,2] − W_s[:,0] more at position 2, nothing else."""
    theta, x = theta_bert(), [3, 1, 4]
    moved = theta.W_p.clone()
    moved[:, 1] += theta.W_s[:, 2] - theta.W_s[:, 0]
    expected = BERT(x, BERTTheta.from_named(theta.named() | {"W_p": moved}))
    assert_close(BERT(x, theta, [0, 2, 0]), expected, **exactly)
    assert_close(BERT(x, theta), BERT(x, theta, [0, 0, 0]), **exactly)


def test_the_output_bias_multiplies_the_odds() -> None:
    theta, x = theta_bert(), [3, 1, 4]
    without = BERT(x, BERTTheta.from_named(theta.named() | {"b_u": torch.zeros(11).double()}))
    odds = BERT(x, theta) / without
    assert_close(odds / odds[0], (theta.b_u - theta.b_u[0]).exp()[:, None].expand(11, 3), **exactly)


def test_norm_and_sublayer_change_places() -> None:
    """Where attention and MLP give nothing, a post-norm layer is its two norms, a pre-norm layer nothing."""
    layer = theta_bert().layers[0]
    idle = type(layer).from_named(
        layer.named()
        | {name: torch.zeros_like(part) for name, part in layer.named().items() if name in ("W.W_o", "W.b_o", "W_mlp2", "b_mlp2")}
    )
    X, Mask = normal(3, 6, 4), torch.ones(4, 4, dtype=torch.bool)
    assert pre_norm(X, idle, Mask).equal(X)
    twice = torch.nn.functional.layer_norm(
        torch.nn.functional.layer_norm(X.T, (6,), idle.gamma1, idle.beta1), (6,), idle.gamma2, idle.beta2
    ).T
    assert_close(post_norm(X, idle, Mask), twice, **exactly)


@given(st.integers(0, 2**16))
def test_parallel_sub_layers_read_the_same_x(seed: int) -> None:
    """X + attention(norm1 X) + MLP(norm2 X): what the attention adds is not what the MLP reads."""
    layer, X, Mask = theta_d(seed).layers[0], normal(seed, 6, 4), unidirectional(4)
    one, two = (
        torch.nn.functional.layer_norm(X.T, (6,), gamma, beta).T
        for gamma, beta in ((layer.gamma1, layer.beta1), (layer.gamma2, layer.beta2))
    )
    expected = X + MHAttention(one, one, layer.W, Mask) + MLP(two, layer.mlp)
    assert_close(parallel_norm(X, layer, Mask), expected, **exactly)
    silent = replace(layer, W=replace(layer.W, W_o=0 * layer.W.W_o, b_o=0 * layer.W.b_o))
    assert_close(parallel_norm(X, silent, Mask), pre_norm(X, silent, Mask), **exactly)
    assert not torch.allclose(parallel_norm(X, layer, Mask), pre_norm(X, layer, Mask))


@pytest.mark.parametrize(
    ("s", "message"),
    [
        ([0, 1], r"s: expected a segment for each of the ℓ = 3 tokens, got torch.int64 of shape \(2,\)"),
        ([0.0, 1.0, 0.0], r"s: expected a segment for each of the ℓ = 3 tokens, got torch.float32"),
        ([0, 1, 3], r"s: expected segments in \{0, …, N_S−1\} with N_S = 3, got 3 at index 2"),
    ],
)
def test_segments_that_are_not(s: list, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        BERT([3, 1, 4], theta_bert(), s)


def test_a_wider_theta_is_for_the_transformer_that_takes_it() -> None:
    """Algorithms 11, 12 and 15 hand θ on: with a transformer that knows all of its parts they train and predict with them."""
    theta = theta_bert()
    data = [[theta.bos_token, 1, 2, theta.eos_token]]
    with pytest.raises(ValueError, match="theta: expected a ETheta, got BERTTheta"):
        ETraining(data, theta, 1, 0.1, 0.9, rng(0))
    trained = ETraining(data, theta, 1, 0.1, 0.9, rng(0), ETransformer=BERT)
    assert type(trained) is BERTTheta and not trained.b_u.equal(theta.b_u)
    ends = {name: torch.ones(6).double() for name in ("gamma_enc", "beta_enc", "gamma_dec", "beta_dec")}
    wider = widened(EDTheta.init(N_V=11, ell_max=7, L_enc=1, L_dec=1, H=2, d_e=6, d_mlp=13, generator=rng(0)), PreNormEDTheta, **ends)
    with pytest.raises(ValueError, match="theta: expected a EDTheta, got PreNormEDTheta"):
        EDInference([1, 2], wider, 0.0)
    x = EDInference([1, 2], wider, 0.0, ell_gen=3, EDTransformer=PreNormEDTransformer)
    assert int(x[1]) == int(PreNormEDTransformer([1, 2], [wider.bos_token], wider)[:, -1].argmax())
    trained = EDTraining([[1, 2]], data, wider, 1, 0.1, EDTransformer=PreNormEDTransformer)
    assert type(trained) is PreNormEDTheta and not trained.gamma_enc.equal(wider.gamma_enc)


# Every departure departs -----------------------------------------------------------------------------------------------

BY_DISTANCE = partial(MHAttention, Attention=RelativeAttention)
DEPARTURES = {
    "none": lambda x, theta: DTransformer(x, theta),
    "RMSnorm": lambda x, theta: DTransformer(x, theta, layer_norm=RMSnorm),
    "no_norm": lambda x, theta: DTransformer(x, theta, layer_norm=no_norm),
    "ReLU": lambda x, theta: GPT(x, theta, MLP=ReLU_MLP),
    "tanh_GELU": lambda x, theta: GPT(x, theta, MLP=partial(MLP, GELU=tanh_GELU)),
    "post_norm": lambda x, theta: GPT(x, theta, block=post_norm),
    "sparse": lambda x, theta: DTransformer(x, theta, Mask=sparse(2)),
    "sinusoids": lambda x, theta: DTransformer(x, with_positions(theta, sinusoids(6, 7))),
    "paper_sinusoids": lambda x, theta: DTransformer(x, with_positions(theta, paper_sinusoids(6, 7))),
    "without_positions": lambda x, theta: DTransformer(x, without_positions(theta)),
    "relative": lambda x, theta: DTransformer(x, without_positions(relative(theta, 4, rng(1))), MHAttention=BY_DISTANCE),
    "scaled": lambda x, theta: DTransformer(x, scaled(theta)),
    "tied": lambda x, theta: DTransformer(x, tied(theta)),
    "eps": lambda x, theta: DTransformer(x, theta, eps=0.1),
}


def test_every_departure_departs() -> None:
    """At one θ, each gives another P than the paper, and than every other: none does in silence what another does."""
    x, theta = [9, 1, 2, 3, 4], theta_d(3)
    P = {name: transformer(x, theta) for name, transformer in DEPARTURES.items()}
    for one, other in combinations(P, 2):
        assert (P[one] - P[other]).abs().max() > 1e-6, f"{one} is {other}"
