"""Algorithm 9, its training and the classifier against the encoder layers and the MLM head of Hugging Face's BERT."""

from functools import partial

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from tests.parity.compare import IDS, assert_same_theta, gradient, randomise, weight
from tests.tolerance import PROMISED
from transalg.formal import ETheta, ETraining, ETransformer, Layer, MHAttentionTheta
from transalg.formal.classification import EClassifier, ECTheta, ECTraining
from transalg.formal.notation import choose

transformers = pytest.importorskip("transformers", reason="the peer transformers is not installed: pip install -e '.[test]'")

N_V, ELL_MAX, L, H, D_E, D_MLP, EPS = 23, 11, 2, 3, 15, 19, 1e-12


def peer() -> torch.nn.Module:
    config = transformers.BertConfig(
        vocab_size=N_V, max_position_embeddings=ELL_MAX, num_hidden_layers=L, num_attention_heads=H, hidden_size=D_E, intermediate_size=D_MLP,
        hidden_act="gelu", layer_norm_eps=EPS, hidden_dropout_prob=0, attention_probs_dropout_prob=0, tie_word_embeddings=False, pad_token_id=None,
    )  # fmt: skip
    model = randomise(transformers.BertForMaskedLM(config))
    with torch.no_grad():
        model.cls.predictions.decoder.bias.zero_()  # Algorithm 9 has no output bias
    return model


def theta_of(model: torch.nn.Module, of=weight) -> ETheta:
    def heads(linear: torch.nn.Module) -> tuple[Tensor, Tensor]:
        return of(linear.weight).reshape(H, D_E // H, D_E), of(linear.bias).reshape(H, D_E // H)

    def layer(block: torch.nn.Module) -> Layer:
        attention, out = block.attention.self, block.attention.output
        return Layer(
            MHAttentionTheta(*heads(attention.query), *heads(attention.key), *heads(attention.value), of(out.dense.weight), of(out.dense.bias)),
            of(out.LayerNorm.weight), of(out.LayerNorm.bias), of(block.output.LayerNorm.weight), of(block.output.LayerNorm.bias),
            of(block.intermediate.dense.weight), of(block.intermediate.dense.bias), of(block.output.dense.weight), of(block.output.dense.bias),
        )  # fmt: skip

    embeddings, head = model.bert.embeddings, model.cls.predictions
    return ETheta(
        of(embeddings.word_embeddings.weight).T, of(embeddings.position_embeddings.weight).T, tuple(map(layer, model.bert.encoder.layer)),
        of(head.transform.dense.weight), of(head.transform.dense.bias), of(head.transform.LayerNorm.weight), of(head.transform.LayerNorm.bias),
        of(head.decoder.weight),
    )  # fmt: skip


def hidden(model: torch.nn.Module, x: Tensor) -> Tensor:
    """BERT's layers and the transform of its head, on embeddings as Algorithm 9 has them: no segments, no norm."""
    embeddings = model.bert.embeddings
    X = embeddings.word_embeddings(x) + embeddings.position_embeddings(torch.arange(len(x)))
    return model.cls.predictions.transform(model.bert.encoder(X[None])[0][0])


def logits(model: torch.nn.Module, x: Tensor) -> Tensor:
    return model.cls.predictions.decoder(hidden(model, x))


bert = partial(ETransformer, eps=EPS)


@pytest.mark.parametrize("ell", [1, 2, 7, ELL_MAX])
def test_probabilities(ell: int) -> None:
    model, x = peer(), torch.tensor(IDS[:ell])
    assert_close(bert(x, theta_of(model)), logits(model, x).softmax(dim=-1).T, rtol=0, atol=PROMISED)


def test_gradients() -> None:
    model, x, y = peer(), torch.tensor(IDS[:7]), torch.tensor([2, 3, 5, 7, 11, 13, 17])
    torch.nn.functional.cross_entropy(logits(model, x), y, reduction="sum").backward()
    ours = torch.func.grad(lambda theta: -sum(bert(x, theta)[y[t], t].log() for t in range(7)))(theta_of(model))
    assert_same_theta(ours, theta_of(model, gradient))


def test_training() -> None:
    """ETraining is SGD on the masked tokens' summed loss; the masks are redrawn here from the same seed."""
    xs, N_epochs, eta, p_mask, mask, bos, eos = (
        [[21, 1, 5, 3, 22], [21, 7, 2, 4, 4], [21, 9, 9, 4, 11, 0, 22]],
        3,
        0.02,
        0.4,
        20,
        21,
        22,
    )
    model = peer()
    theta_hat = ETraining(xs, theta_of(model), N_epochs, eta, p_mask, torch.Generator().manual_seed(5), ETransformer=bert)
    generator, masked = torch.Generator().manual_seed(5), 0
    weights = [p for name, p in model.named_parameters() if "decoder.bias" not in name]
    optimiser = torch.optim.SGD(weights, lr=eta)
    for _ in range(N_epochs):
        for x in xs:
            drawn = [choose(p_mask if v not in (bos, eos) else 0.0, mask, torch.tensor(v), generator) for v in x]
            x_tilde = torch.tensor([int(v) for v in drawn])
            T = x_tilde == mask
            masked += int(T.sum())
            optimiser.zero_grad()
            torch.nn.functional.cross_entropy(logits(model, x_tilde)[T], torch.tensor(x)[T], reduction="sum").backward()
            optimiser.step()
    assert masked > 5
    assert_same_theta(theta_hat, theta_of(model))


def test_classifier_training() -> None:
    """EClassifier is a linear layer on the first token of the same encoder, and its training SGD on the log loss."""
    model, N_C, xs, cs, eta = peer(), 5, [[21, 1, 5, 22], [21, 7, 2], [21, 9, 22]], [3, 0, 4], 0.05
    head = randomise(torch.nn.Linear(D_E, N_C), seed=1)

    def theta(of=weight) -> ECTheta:
        e = theta_of(model, of)
        return ECTheta(e.W_e, e.W_p, e.layers, e.W_f, e.b_f, e.gamma, e.beta, of(head.weight), of(head.bias))

    classify = partial(EClassifier, eps=EPS)
    for x in xs:
        assert_close(
            classify(x, theta()),
            head(hidden(model, torch.tensor(x))[0]).softmax(dim=-1).detach(),
            rtol=0,
            atol=PROMISED,
        )
    theta_hat = ECTraining(xs, cs, theta(), 3, eta, EClassifier=classify)
    optimiser = torch.optim.SGD([*model.parameters(), *head.parameters()], lr=eta)
    for _ in range(3):
        for x, c in zip(xs, cs, strict=True):
            optimiser.zero_grad()
            torch.nn.functional.cross_entropy(head(hidden(model, torch.tensor(x))[0]), torch.tensor(c)).backward()
            optimiser.step()
    assert_same_theta(theta_hat, theta())
