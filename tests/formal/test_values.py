"""Values small enough to compute by hand, with the computation beside them."""

from dataclasses import replace
from math import exp, inf, log

import pytest
import torch
from torch import Tensor, tensor
from torch.testing import assert_close

from tests.tolerance import tolerance
from transalg.formal import (
    Attention,
    AttentionTheta,
    DTheta,
    DTraining,
    DTransformer,
    EDTheta,
    EDTransformer,
    MHAttention,
    MHAttentionTheta,
    layer_norm,
    positional_embedding,
    single_query_attention,
    token_embedding,
    unembedding,
    unidirectional,
)
from transalg.formal.notation import GELU, ReLU, softmax, tempered


def t64(*values: object) -> Tensor:
    return tensor(*values, dtype=torch.float64)


def close(actual: Tensor, expected: object) -> None:
    assert_close(actual, t64(expected), rtol=0, atol=tolerance(torch.float64, terms=5, depth=3, size=10))


def test_embeddings_are_columns() -> None:
    W = t64([[1, 2, 3], [4, 5, 6]])
    close(token_embedding(2, W), [3, 6])
    close(positional_embedding(1, W), [2, 5])


# One head with d_attn = 4, d_x = 1, d_z = 2, d_out = 1. For the query e = 1: q = W_q e + b_q = (1, 0, 0, 0) + (1, 0, 0, 0) = (2, 0, 0, 0).
# For the keys (0, 4) and (ln 3, 8): k_t = W_k e_t + b_k = (first entry, 0, 0, 0), so qᵀk_t / √4 = 0 and 2 ln 3 / 2 = ln 3,
# α = (1, 3) / 4, and v_t = second entry + b_v = 4 + 1 and 8 + 1: ṽ = 5/4 + 27/4 = 8.
HEAD = AttentionTheta(
    W_q=t64([[1], [0], [0], [0]]), b_q=t64([1, 0, 0, 0]), W_k=t64([[1, 0], [0, 0], [0, 0], [0, 0]]), b_k=t64([0, 0, 0, 0]),
    W_v=t64([[0, 1]]), b_v=t64([1]),
)  # fmt: skip
KEYS = t64([[0, log(3)], [4, 8]])


def test_single_query_attention() -> None:
    close(single_query_attention(t64([1]), KEYS, HEAD), [8])


def test_attention_masks_by_key_and_query() -> None:
    # The first query sees the first key alone (ṽ = 5), the second sees both (8): Mask[t_z, t_x] = ⟦t_z ≤ t_x⟧.
    close(Attention(t64([[1, 1]]), KEYS, HEAD, unidirectional(2)), [[5, 8]])


def test_multi_head_attention_stacks_heads_in_order() -> None:
    # The second head is the first with its values negated: Y = (8; −8), and W_o = (1, 10) gives 8 − 80 = −72, b_o = 2 gives −70.
    both = MHAttentionTheta(
        *(torch.stack([part, part]) for part in (HEAD.W_q, HEAD.b_q, HEAD.W_k, HEAD.b_k)),
        W_v=torch.stack([HEAD.W_v, -HEAD.W_v]), b_v=torch.stack([HEAD.b_v, -HEAD.b_v]), W_o=t64([[1, 10]]), b_o=t64([2]),
    )  # fmt: skip
    close(MHAttention(t64([[1]]), KEYS, both, tensor([[True], [True]])), [[-70]])


def test_layer_norm() -> None:
    # m = 2, v = ((1−2)² + (3−2)²)/2 = 1 (the unbiased variance would be 2), (e − m)/√v = (−1, 1).
    close(layer_norm(t64([1, 3]), t64([5, 7]), t64([10, 20]), eps=0), [5, 27])
    # ε = 3 under the root: (∓1)/√(1 + 3) = ∓1/2.
    close(layer_norm(t64([1, 3]), t64([2, 2]), t64([0, 0]), eps=3), [-1, 1])


def test_unembedding() -> None:
    # W_u e = (0, ln 3): p = (1, 3)/4.
    close(unembedding(t64([1, 1]), t64([[0, 0], [0, log(3)]])), [0.25, 0.75])


def test_activations() -> None:
    # Φ(1) = 0.8413447460685429, Φ(−2) = 0.0227501319481792
    close(GELU(t64([0, 1, -2])), [0, 0.8413447460685429, -0.0455002638963584])
    close(ReLU(t64([-1, 0, 2])), [0, 0, 2])


def test_softmax_is_over_rows() -> None:
    # Columns (0, ln 3) and (ln 4, 0): (1, 3)/4 and (4, 1)/5.
    close(softmax(t64([[0, log(4)], [log(3), 0]])), [[0.25, 0.8], [0.75, 0.2]])
    close(softmax(t64([[-inf, -inf], [0, -inf]])), [[0, 0], [1, 0]])


def test_temperature() -> None:
    # p^{1/τ} for p = (1, 4)/5: τ = 1/2 squares, (1, 16)/17; τ = 2 takes roots, (1, 2)/3.
    p = t64([0.2, 0.8])
    close(tempered(p, 0.5), [1 / 17, 16 / 17])
    close(tempered(p, 2.0), [1 / 3, 2 / 3])
    close(tempered(p, 1.0), [0.2, 0.8])
    close(tempered(p, 0.0), [0, 1])
    close(tempered(p, inf), [0.5, 0.5])


def silent(kind: type) -> DTheta | EDTheta:
    """A θ with N_V = 5, d_e = 2 whose layers add nothing: every W and b in them is 0."""
    depth = {"L_enc": 1, "L_dec": 1} if kind is EDTheta else {"L": 1}
    theta = kind.init(N_V=5, ell_max=3, H=1, d_e=2, d_mlp=3, **depth)
    theta = 0.0 * theta
    ones = {name: torch.ones_like(part) for name, part in theta.named().items() if "gamma" in name}
    return kind.from_named(theta.named() | ones)


def by_hand() -> DTheta:
    # Token 0 is (1, 0) and position 1 is (0, 3): e = (1, 3), normalised (−1, 1), times γ = (1, 2) plus β = (1, 0): (0, 2).
    # W_u's rows (7, 0), (7, ln 3 / 2) and three more like the first: logits 0, ln 3, 0, 0, 0, so P = (1, 3, 1, 1, 1)/7.
    W_u = t64([[7, 0], [7, log(3) / 2], [7, 0], [7, 0], [7, 0]])
    return replace(
        silent(DTheta),
        W_e=t64([[1, 0, 0, 0, 0], [0, 0, 0, 0, 0]]),
        W_p=t64([[0, 0, 0], [3, 0, 0]]),
        gamma=t64([1, 2]),
        beta=t64([1, 0]),
        W_u=W_u,
    )


def test_decoder_only_transformer() -> None:
    close(DTransformer([0], by_hand(), eps=0)[:, 0], [1 / 7, 3 / 7, 1 / 7, 1 / 7, 1 / 7])


def test_encoder_decoder_transformer() -> None:
    # The decoder's three post-norms of e = (1, 3) all give (∓1): logits of W_u's second column 0, ln 3, 0, 0, 0 again.
    theta = silent(EDTheta)
    W_u = t64([[0, 0], [0, log(3)], [0, 0], [0, 0], [0, 0]])
    theta = replace(theta, W_e=by_hand().W_e, W_p=by_hand().W_p, W_u=W_u)
    close(EDTransformer([4], [0], theta, eps=0)[:, 0], [1 / 7, 3 / 7, 1 / 7, 1 / 7, 1 / 7])


def test_one_step_of_training() -> None:
    # x = (bos, 1): loss = −log P[1,1]. With X[:,1] = (0, 2) as above (bos embedded like token 0 there), ∇_{W_u} loss = (p − 1_1) X[:,1]ᵀ:
    # the second column is 2 (1, 3 − 7, 1, 1, 1)/7, and η = 1/2 halves it. ε is 1e−5 in training, hence the looser bound.
    theta = by_hand()
    theta = replace(theta, W_e=theta.W_e[:, [1, 1, 1, 0, 1]])
    step = DTraining([[3, 1]], theta, 1, 0.5).W_u - theta.W_u
    expected = t64([[0, -1], [0, 4], [0, -1], [0, -1], [0, -1]]) / 7
    assert_close(step, expected, rtol=0, atol=1e-4)


@pytest.mark.parametrize("scale", [1.0, 300.0])
def test_softmax_does_not_overflow(scale: float) -> None:
    A = scale * t64([1, 2, 4])
    total = sum(exp(scale * (a - 4)) for a in (1, 2, 4))
    close(softmax(A), [exp(scale * (a - 4)) / total for a in (1, 2, 4)])
