"""docs/errata.md, entry by entry: the literal text fails, the decision works."""

import inspect
import re
from dataclasses import replace
from math import cos, exp, inf, isnan, sin
from pathlib import Path

import pytest
import torch
from torch.testing import assert_close

from tests.strategies import fill, normal, random_attention, random_heads, rng
from tests.tolerance import tolerance
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
    single_query_attention,
    unidirectional,
)
from transalg.formal.classification import EClassifier, ECTheta
from transalg.formal.mask import sparse
from transalg.formal.notation import choose, softmax, tempered
from transalg.formal.positions import paper_sinusoids, relative, sinusoids
from transalg.formal.systems import Gopher
from transalg.tokenization import train

D = {"N_V": 11, "ell_max": 7, "H": 2, "d_e": 6, "d_mlp": 13}
MASK, BOS, EOS = 8, 9, 10
theta = fill(DTheta.init(**D, L=2), 0)
etheta = fill(ETheta.init(**D, L=2, d_f=5), 0)
edtheta = EDTheta.init(**D, L_enc=1, L_dec=2, generator=rng(0))


def test_every_entry_has_its_test_and_every_test_its_entry() -> None:
    text = (Path(__file__).parents[2] / "docs" / "errata.md").read_text(encoding="utf-8")
    entries = re.findall(r"^## (\d+)\. .*?^- \*\*Test\*\*: `(test_(\d+)_\w+)`$", text, re.M | re.S)
    assert [int(number) for number, _, _ in entries] == list(range(1, len(entries) + 1)) and len(entries) >= 21
    assert all(int(number) == int(test) for number, _, test in entries)
    assert [name for _, name, _ in entries] == [name for name in globals() if re.match(r"test_\d\d_", name)]


def test_01_unembedding_of_the_encoder() -> None:
    literal = torch.zeros(11, 6, dtype=torch.float64)  # N_V × d_e
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        literal @ torch.zeros(5, 3, dtype=torch.float64)  # X has d_f rows after line 10
    with pytest.raises(ValueError, match=r"d_f = 5 in W_u"):
        replace(etheta, W_u=literal)
    assert ETransformer([1, 2, 3], etheta).shape == (11, 3)


def test_02_decoder_loop_variable() -> None:
    theta = EDTheta.init(**D, L_enc=3, L_dec=1, generator=rng(0))
    for l in range(len(theta.enc)):  # noqa: B007  the paper's line 4
        pass
    with pytest.raises(IndexError):
        [theta.dec[l] for i in range(len(theta.dec))]  # the paper's line 13
    assert EDTransformer([1, 2], [1], theta).shape == (11, 1)


def test_03_layer_norm_of_equal_activations() -> None:
    e, gamma, beta = torch.full((5,), 3.0, dtype=torch.float64), normal(0, 5), normal(1, 5)
    assert layer_norm(e, gamma, beta, eps=0.0).isnan().all()
    assert_close(layer_norm(e, gamma, beta), beta)
    e = normal(2, 5)
    literal = (e - e.mean()) / e.var(unbiased=False).sqrt() * gamma + beta
    assert_close(layer_norm(e, gamma, beta, eps=0.0), literal, rtol=0, atol=tolerance(torch.float64, terms=5))


def test_04_sinusoids() -> None:
    vaswani = [f(3 / 10000 ** (2 * i / 8)) for i in range(4) for f in (sin, cos)]
    assert not torch.allclose(paper_sinusoids(8, 7)[:, 3], torch.tensor(vaswani, dtype=torch.float64))
    assert_close(sinusoids(8, 7)[:, 3], torch.tensor(vaswani, dtype=torch.float64))
    literal = [f(3 / 7 ** (2 * i / 8)) for i in range(1, 5) for f in (sin, cos)]
    assert_close(paper_sinusoids(8, 7)[:, 2], torch.tensor(literal, dtype=torch.float64))
    for positions in (paper_sinusoids, sinusoids):
        with pytest.raises(ValueError, match=r"d_e: expected an even number.*got 7"):
            positions(7, 3)


def test_05_self_attention_without_Z() -> None:
    X = normal(0, 6, 3)
    with pytest.raises(TypeError, match="missing a required argument"):
        MHAttention(X, theta.layers[0].W, Mask=unidirectional(3))  # the paper's MHAttention(X | 𝒲, Mask)
    assert MHAttention(X, X, theta.layers[0].W, unidirectional(3)).shape == (6, 3)
    assert theta.sizes()["d_attn"] == theta.sizes()["d_mid"] == 3


def test_06_mask_orientation() -> None:
    W_qkv, X = random_attention(0, d_attn=5, d_x=6, d_z=6, d_out=2), normal(0, 6, 3)
    elsewhere = torch.ones(3, 3, dtype=torch.bool).tril()  # a row for every query, as most code has it
    S = (W_qkv.W_k @ X + W_qkv.b_k[:, None]).T @ (W_qkv.W_q @ X + W_qkv.b_q[:, None])
    weights = softmax(torch.where(elsewhere, S, -inf))
    assert (weights[1:, 0] > 0).all()  # followed to the letter, the first token would see its future
    with pytest.raises(ValueError, match=r"Mask: .*upper triangular, got its transpose"):
        Attention(X, X, W_qkv, elsewhere)
    changed = X.clone()
    changed[:, 1:] += 1
    assert_close(Attention(X, X, W_qkv, elsewhere.T)[:, 0], Attention(changed, changed, W_qkv, elsewhere.T)[:, 0])


def test_07_fully_masked_column() -> None:
    S = torch.full((4, 1), -inf, dtype=torch.float64)
    assert (S.exp() / S.exp().sum(dim=0)).isnan().all()
    W_qkv, X, Z = random_attention(0, d_attn=5, d_x=6, d_z=3, d_out=2), normal(0, 6, 2), normal(1, 3, 4)
    Mask = torch.tensor([[True, False]] * 4)

    def total(X: torch.Tensor, Z: torch.Tensor) -> torch.Tensor:
        return Attention(X, Z, W_qkv, Mask).sum()

    V = Attention(X, Z, W_qkv, Mask)
    assert V[:, 0].abs().sum() > 0 and (V[:, 1] == 0).all()
    by_X, by_Z = torch.func.grad(total, argnums=(0, 1))(X, Z)
    assert by_X.isfinite().all() and by_Z.isfinite().all() and (by_X[:, 1] == 0).all() and (by_X[:, 0] != 0).any()


def test_08_inference_beyond_its_bounds() -> None:
    with pytest.raises(ValueError, match="at most ℓ_max = 7 tokens, got ℓ = 8"):
        DTransformer([BOS] * 8, theta)  # line 3 once x has outgrown ℓ_max
    assert DInference([BOS] * 7, theta, 3, 1.0, rng(0)).shape == (3,)
    with pytest.raises(ValueError, match="at least one token"):
        DTransformer([], theta)  # line 3 for the empty prompt
    assert DInference([], theta, 2, 0).equal(DInference([BOS], theta, 2, 0))
    tokens = DInference([BOS], theta, 50, inf, rng(0)).tolist()
    assert EOS in tokens[:-1]  # to the letter, it continues past the end
    assert DInference([BOS], theta, 50, inf, rng(0), stop=EOS).tolist() == tokens[: tokens.index(EOS) + 1]


def test_09_limits_of_temperature() -> None:
    p = torch.tensor([0.2, 0.5, 0.3], dtype=torch.float64)
    with pytest.raises(ZeroDivisionError):
        p ** (1 / 0)
    assert tempered(p, 0.0).tolist() == [0, 1, 0]
    assert tempered(torch.tensor([0.4, 0.2, 0.4], dtype=torch.float64), 0.0).tolist() == [1, 0, 0]
    assert_close(tempered(p, inf), torch.full((3,), 1 / 3, dtype=torch.float64))


def test_10_seq2seq_inference_halts() -> None:
    never = replace(edtheta, W_u=torch.zeros_like(edtheta.W_u))  # τ = 0 then always says token 0, never eos_token
    x_hat, y = [BOS], None
    with pytest.raises(ValueError, match="x: expected at most ℓ_max = 7 tokens"):  # noqa: PT012
        while y != EOS:  # lines 3 to 8 to the letter
            y = int(EDTransformer([1], x_hat, never)[:, -1].argmax())
            x_hat.append(y)
    x_hat = EDInference([1], never, 0.0)
    assert x_hat.tolist() == [BOS] + [0] * 7
    assert 0 in x_hat  # y ← 0 would be a token here


def test_11_first_token_is_bos() -> None:
    """No step of the literal algorithm changes what the model says before x[1]: there is no column for it."""
    start = DTheta.init(**D, L=1, generator=rng(0))
    literal = inspect.unwrap(DTraining)([torch.tensor([3, 1])], start, 30, 0.1)  # past the check: every sequence begins with 3
    assert DTransformer([BOS], literal)[:, 0].argmax() != 3
    assert DTransformer([BOS], DTraining([[BOS, 3, 1]], start, 30, 0.1))[:, 0].argmax() == 3
    with pytest.raises(ValueError, match="x_1: expected bos_token = 9 first"):
        DTraining([[3, 1]], theta, 1, 0.1)
    with pytest.raises(ValueError, match="x_1: expected bos_token = 9 first"):
        EDTraining([[3]], [[3, 1]], edtheta, 1, 0.1)
    assert not DTraining([[BOS, 1]], theta, 1, 0.1).W_u.equal(theta.W_u)


def test_12_masking() -> None:
    same = ETraining([[BOS, 1, EOS]], etheta, 1, 0.1, 1e-12, rng(0))  # nothing is masked
    assert all(a.equal(b) for a, b in zip(same.named().values(), etheta.named().values(), strict=True))
    only_special = ETraining([[BOS, EOS]], etheta, 1, 0.1, 1 - 1e-12, rng(0))  # to the letter, both would be
    assert only_special.W_u.equal(etheta.W_u)
    assert choose(1 - 1e-12, MASK, torch.tensor(BOS), rng(0)) == MASK  # line 5 to the letter
    literal = inspect.unwrap(ETraining)([torch.tensor([BOS, MASK, 1])], etheta, 1, 0.1, 1e-12, rng(0))  # past the check
    assert not literal.W_u.equal(etheta.W_u)  # nothing was masked, yet the data's own mask_token was trained
    with pytest.raises(ValueError, match="x_1: expected no mask_token = 8 in the data"):
        ETraining([[BOS, MASK]], etheta, 1, 0.1, 0.5)


def test_13_loss_is_a_sum_of_logarithms() -> None:
    logits = torch.tensor([0.0, 800.0], dtype=torch.float64)
    assert softmax(logits).log()[0] == -inf and torch.log_softmax(logits, 0)[0] == -800
    steps = []
    for x in (
        [BOS, 1, 1],
        [BOS, 1, 1, 1, 1, 1, 1],
    ):  # without positions and layers, three times the tokens are three times the step
        flat = replace(theta, layers=(), W_p=0 * theta.W_p, W_e=theta.W_e[:, [1] * 11])
        steps.append(DTraining([x], flat, 1, 1e-3).W_u - flat.W_u)
    assert_close(3 * steps[0], steps[1], rtol=0, atol=tolerance(torch.float64, terms=11, depth=2))
    ruined = replace(theta, W_u=1e6 * theta.W_u)
    with pytest.raises(ValueError, match="theta: expected finite numbers in"):
        DTraining([[BOS, 1, 2, 3]], ruined, 2, 0.1)


def test_14_words_of_the_example() -> None:
    text = "My grandma makes the best apple pie."
    words = train("word", [text])
    assert len(train("char", [text]).encode(text, ends=False)) == 36
    assert [words.token(one) for one in words.encode(text, ends=False)] == [
        "My",
        "grandma",
        "makes",
        "the",
        "best",
        "apple",
        "pie",
        ".",
    ]  # not 7
    assert [words.token(one) for one in words.encode("the worst", ends=False)] == ["the", "<unk>"]


def test_15_classification() -> None:
    ctheta = ECTheta.from_encoder(etheta, 3, rng(0))
    with pytest.raises(ValueError, match="theta: expected a ETheta, got ECTheta"):
        ETransformer([BOS, 1], ctheta)  # no algorithm of the paper gives classes
    assert_close(EClassifier([BOS, 1], ctheta).sum(), torch.tensor(1.0, dtype=torch.float64))


def test_16_equivariant_not_invariant() -> None:
    blind = replace(etheta, W_p=torch.zeros_like(etheta.W_p))
    P, permuted = ETransformer([1, 2, 3], blind), ETransformer([3, 1, 2], blind)
    assert not torch.allclose(P, permuted)
    assert_close(P[:, [2, 0, 1]], permuted)


def test_17_residual_stream() -> None:
    wide = random_heads(0, H=2, d_attn=3, d_mid=3, d_x=6, d_z=6, d_out=5)
    X = normal(0, 6, 3)
    with pytest.raises(RuntimeError, match="must match the size"):
        X + MHAttention(X, X, wide, unidirectional(3))
    with pytest.raises(ValueError, match=r"theta: expected d_e = 6 in W.W_o ∈ ℝ\^\{d_e×H\*d_mid\}, as in W.W_q, got 5"):
        replace(theta, layers=(replace(theta.layers[0], W=wide, gamma1=normal(0, 6)),))
    cross = random_heads(0, H=2, d_attn=3, d_mid=7, d_x=6, d_z=11, d_out=5)
    assert MHAttention(X, normal(0, 11, 2), cross, bidirectional(2, 3)).shape == (5, 3)


def test_18_overflow_and_underflow() -> None:
    W_qkv = random_attention(0, d_attn=5, d_x=6, d_z=3, d_out=2)
    e, E = 1000 * normal(0, 6), normal(1, 3, 4)
    scores = (W_qkv.W_k @ E + W_qkv.b_k[:, None]).T @ (W_qkv.W_q @ e + W_qkv.b_q) / 5**0.5
    assert (scores.exp() / scores.exp().sum()).isnan().any()
    assert single_query_attention(e, E, W_qkv).isfinite().all()
    p, tau = torch.tensor([0.2, 0.5, 0.3], dtype=torch.float64), 1e-4
    q = p ** (1 / tau)
    assert isnan(float(q[0] / q.sum()))
    assert_close(tempered(p, tau), torch.tensor([0, 1, 0], dtype=torch.float64))
    assert tempered(p, 0.1)[0] == pytest.approx(1 / (1 + 2.5**10 + 1.5**10))
    with pytest.raises(OverflowError):
        exp(710)


def test_19_a_sequence_of_one_token() -> None:
    assert DTraining([[BOS]], theta, 1, 0.1).W_u.equal(theta.W_u)
    assert EDTraining([[1]], [[BOS]], edtheta, 1, 0.1).W_u.equal(edtheta.W_u)


def test_20_gpt3_and_gopher() -> None:
    x = [BOS, 1, 2, 3]
    dense = DTransformer(x, theta)
    gpt3 = DTransformer(x, theta, Mask=sparse(2))
    assert gpt3.shape == dense.shape and not torch.allclose(gpt3, dense)
    assert_close(gpt3[:, :2], dense[:, :2])  # a band of two covers two tokens
    gopher = Gopher(x, relative(theta, 4, rng(0)))
    assert gopher.shape == dense.shape and not torch.allclose(gopher, dense)


def test_21_one_embedding_for_both_sequences() -> None:
    grad = torch.func.grad(lambda theta: EDTransformer([1], [2], theta)[0, 0])(edtheta)
    assert (grad.W_e[:, 1] != 0).any() and (grad.W_e[:, 2] != 0).any() and (grad.W_e[:, 3] == 0).all()
    with pytest.raises(ValueError, match="z: expected at most ℓ_max = 7 tokens"):
        EDTransformer([1] * 8, [2], edtheta)
