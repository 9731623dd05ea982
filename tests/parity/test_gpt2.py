"""Algorithm 10 and its training against Hugging Face's GPT-2 with exact GELU, values and gradients."""

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from tests.parity.compare import IDS, assert_same_theta, gradient, log_likelihood, randomise, weight
from tests.tolerance import PROMISED
from transalg.formal import DTheta, DTraining, DTransformer, Layer, MHAttentionTheta
from transalg.formal.mlp import tanh_GELU
from transalg.formal.unembedding import tied

transformers = pytest.importorskip("transformers", reason="the peer transformers is not installed: pip install -e '.[test]'")

N_V, ELL_MAX, L, H, D_E, D_MLP = 23, 11, 3, 3, 15, 19


def peer(tie: bool = False, eps: float = 1e-5, activation: str = "gelu") -> torch.nn.Module:
    config = transformers.GPT2Config(
        vocab_size=N_V, n_positions=ELL_MAX, n_layer=L, n_head=H, n_embd=D_E, n_inner=D_MLP, activation_function=activation,
        layer_norm_epsilon=eps, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0, tie_word_embeddings=tie, bos_token_id=21, eos_token_id=22,
    )  # fmt: skip
    return randomise(transformers.GPT2LMHeadModel(config))


def theta_of(model: torch.nn.Module, of=weight) -> DTheta:
    """GPT-2's weights as θ; with of=gradient, their gradients."""

    def attention(block: torch.nn.Module) -> MHAttentionTheta:
        W, b = of(block.attn.c_attn.weight).T, of(block.attn.c_attn.bias)  # Conv1D has its weight transposed
        (W_q, W_k, W_v), (b_q, b_k, b_v) = ((part.reshape(H, D_E // H, *part.shape[1:]) for part in stacked.chunk(3)) for stacked in (W, b))
        return MHAttentionTheta(W_q, b_q, W_k, b_k, W_v, b_v, of(block.attn.c_proj.weight).T, of(block.attn.c_proj.bias))

    def layer(block: torch.nn.Module) -> Layer:
        return Layer(
            attention(block), of(block.ln_1.weight), of(block.ln_1.bias), of(block.ln_2.weight), of(block.ln_2.bias),
            of(block.mlp.c_fc.weight).T, of(block.mlp.c_fc.bias), of(block.mlp.c_proj.weight).T, of(block.mlp.c_proj.bias),
        )  # fmt: skip

    gpt = model.transformer
    return DTheta(
        of(gpt.wte.weight).T,
        of(gpt.wpe.weight).T,
        tuple(map(layer, gpt.h)),
        of(gpt.ln_f.weight),
        of(gpt.ln_f.bias),
        of(model.lm_head.weight),
    )


def logits(model: torch.nn.Module, x: list[int]) -> Tensor:
    return model(torch.tensor([x])).logits[0]


@pytest.mark.parametrize("ell", [1, 2, 7, ELL_MAX])
def test_probabilities(ell: int) -> None:
    model = peer()
    x = IDS[:ell]
    assert_close(DTransformer(x, theta_of(model)), logits(model, x).softmax(dim=-1).T, rtol=0, atol=PROMISED)


def test_epsilon_reaches_every_norm() -> None:
    model, x = peer(eps=0.1), IDS[:7]
    assert_close(DTransformer(x, theta_of(model), eps=0.1), logits(model, x).softmax(dim=-1).T, rtol=0, atol=PROMISED)


def test_gpt2_itself() -> None:
    """GPT-2 as published: tied weights, and its own approximation of GELU."""
    model, x = peer(tie=True, activation="gelu_new"), IDS[:7]
    theirs = logits(model, x).softmax(dim=-1).T
    assert_close(DTransformer(x, tied(theta_of(model)), GELU=tanh_GELU), theirs, rtol=0, atol=PROMISED)
    assert (DTransformer(x, tied(theta_of(model))) - theirs).abs().max() > 1e-6


def test_gradients() -> None:
    model, x = peer(), IDS[:7]
    log_likelihood(logits(model, x), x).backward()
    ours = torch.func.grad(lambda theta: -sum(DTransformer(x, theta)[x[t + 1], t].log() for t in range(6)))(theta_of(model))
    assert_same_theta(ours, theta_of(model, gradient))


def test_training() -> None:
    """DTraining is torch.optim.SGD on the summed loss of one sequence at a time."""
    model, xs, N_epochs, eta = peer(), [[21, 1, 5, 3, 22], [21, 7, 2], [21, 9, 9, 4, 11, 0, 22]], 3, 0.03
    theta_hat = DTraining(xs, theta_of(model), N_epochs, eta)
    optimiser = torch.optim.SGD(model.parameters(), lr=eta)
    for _ in range(N_epochs):
        for x in xs:
            optimiser.zero_grad()
            log_likelihood(logits(model, x), x).backward()
            optimiser.step()
    assert_same_theta(theta_hat, theta_of(model))


def test_training_with_tied_weights() -> None:
    """W_u = W_eᵀ as a map on θ: training moves W_e as GPT-2's tied weight moves, and leaves W_u alone."""
    model, xs, eta = peer(tie=True), [[21, 1, 5, 3, 22], [21, 7, 2]], 0.03
    start = theta_of(model)
    theta_hat = DTraining(xs, start, 2, eta, DTransformer=lambda x, theta: DTransformer(x, tied(theta)))
    optimiser = torch.optim.SGD(model.parameters(), lr=eta)
    for x in xs + xs:
        optimiser.zero_grad()
        log_likelihood(logits(model, x), x).backward()
        optimiser.step()
    assert theta_hat.W_u.equal(start.W_u)
    assert_same_theta(tied(theta_hat), theta_of(model))
