"""Algorithm 8 and its training against torch.nn.Transformer (post-norm, ReLU), values and gradients."""

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from tests.parity.compare import IDS, assert_same_theta, gradient, log_likelihood, randomise, weight
from tests.tolerance import PROMISED
from transalg.formal import DecoderLayer, EDTheta, EDTraining, EDTransformer, Layer, MHAttentionTheta

N_V, ELL_MAX, L_ENC, L_DEC, H, D_E, D_MLP = 23, 11, 2, 3, 3, 15, 19


class Peer(nn.Module):
    """torch.nn.Transformer between embeddings and an unembedding. Its stacks end without the extra norm torch adds."""

    def __init__(self, eps: float) -> None:
        super().__init__()
        common = {
            "d_model": D_E,
            "nhead": H,
            "dim_feedforward": D_MLP,
            "dropout": 0,
            "activation": "relu",
            "batch_first": True,
            "layer_norm_eps": eps,
            "norm_first": False,
        }
        encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(**common), L_ENC, enable_nested_tensor=False)
        decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(**common), L_DEC)
        self.transformer = nn.Transformer(D_E, H, custom_encoder=encoder, custom_decoder=decoder, batch_first=True)
        self.embedding, self.position = nn.Embedding(N_V, D_E), nn.Embedding(ELL_MAX, D_E)
        self.unembedding = nn.Linear(D_E, N_V, bias=False)

    def embed(self, x: list[int]) -> Tensor:
        return (self.embedding(torch.tensor(x)) + self.position(torch.arange(len(x))))[None]

    def forward(self, z: list[int], x: list[int]) -> Tensor:
        causal = nn.Transformer.generate_square_subsequent_mask(len(x), dtype=torch.float64)
        return self.unembedding(self.transformer(self.embed(z), self.embed(x), tgt_mask=causal)[0])


def theta_of(model: Peer, of=weight) -> EDTheta:
    def attention(module: nn.MultiheadAttention) -> MHAttentionTheta:
        W, b = of(module.in_proj_weight), of(module.in_proj_bias)
        (W_q, W_k, W_v), (b_q, b_k, b_v) = ((part.reshape(H, D_E // H, *part.shape[1:]) for part in stacked.chunk(3)) for stacked in (W, b))
        return MHAttentionTheta(W_q, b_q, W_k, b_k, W_v, b_v, of(module.out_proj.weight), of(module.out_proj.bias))

    def norms(layer: nn.Module, *names: str) -> list[Tensor]:
        return [of(part) for name in names for part in (getattr(layer, name).weight, getattr(layer, name).bias)]

    def mlp(layer: nn.Module) -> list[Tensor]:
        return [of(part) for part in (layer.linear1.weight, layer.linear1.bias, layer.linear2.weight, layer.linear2.bias)]

    enc = tuple(Layer(attention(one.self_attn), *norms(one, "norm1", "norm2"), *mlp(one)) for one in model.transformer.encoder.layers)
    dec = tuple(
        DecoderLayer(
            attention(one.self_attn),
            attention(one.multihead_attn),
            *norms(one, "norm1", "norm2", "norm3"),
            *mlp(one),
        )
        for one in model.transformer.decoder.layers
    )
    return EDTheta(of(model.embedding.weight).T, of(model.position.weight).T, enc, dec, of(model.unembedding.weight))


def peer(eps: float = 1e-5) -> Peer:
    return randomise(Peer(eps)).train()  # dropout is 0; eval mode would take a fused path without gradients


@pytest.mark.parametrize(("ell_z", "ell_x"), [(1, 1), (1, 7), (7, 1), (5, 3), (3, ELL_MAX)])
def test_probabilities(ell_z: int, ell_x: int) -> None:
    model, z, x = peer(), IDS[::-1][:ell_z], IDS[:ell_x]
    assert_close(EDTransformer(z, x, theta_of(model)), model(z, x).softmax(dim=-1).T.detach(), rtol=0, atol=PROMISED)


def test_epsilon_reaches_every_norm() -> None:
    model, z, x = peer(eps=0.1), IDS[::-1][:5], IDS[:3]
    assert_close(
        EDTransformer(z, x, theta_of(model), eps=0.1),
        model(z, x).softmax(dim=-1).T.detach(),
        rtol=0,
        atol=PROMISED,
    )


def test_gradients() -> None:
    model, z, x = peer(), [4, 9, 2, 16, 1], IDS[:7]
    log_likelihood(model(z, x), x).backward()
    ours = torch.func.grad(lambda theta: -sum(EDTransformer(z, x, theta)[x[t + 1], t].log() for t in range(6)))(theta_of(model))
    assert_same_theta(ours, theta_of(model, gradient))


def test_training() -> None:
    """EDTraining is torch.optim.SGD on the summed loss of one pair at a time."""
    zs, xs, N_epochs, eta = (
        [[4, 9], [1, 2, 3, 8], [6]],
        [[21, 1, 5, 22], [21, 7, 2], [21, 9, 4, 11, 0, 22]],
        2,
        0.01,
    )
    model = peer()
    theta_hat = EDTraining(zs, xs, theta_of(model), N_epochs, eta)
    optimiser = torch.optim.SGD(model.parameters(), lr=eta)
    for _ in range(N_epochs):
        for z, x in zip(zs, xs, strict=True):
            optimiser.zero_grad()
            log_likelihood(model(z, x), x).backward()
            optimiser.step()
    assert_same_theta(theta_hat, theta_of(model))
