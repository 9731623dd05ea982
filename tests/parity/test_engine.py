"""The engine against the peers' own models, batched and ragged, values and gradients; and the systems as published."""

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from tests.parity import test_bert, test_gpt2, test_torch_transformer
from tests.parity.compare import assert_same_theta, gradient, randomise, weight
from tests.tolerance import PROMISED
from transalg.formal.systems import BERT, BERTTheta, PreNormEDTheta, PreNormEDTransformer
from transalg.model import DTransformer, EDTransformer, ETransformer

transformers = pytest.importorskip("transformers", reason="the peer transformers is not installed: pip install -e '.[test]'")
exactly = {"rtol": 0, "atol": PROMISED}
IDS = torch.randint(23, (4, 11), generator=torch.Generator().manual_seed(0))
LENGTHS = [11, 3, 1, 7]
THERE = torch.arange(11) < torch.tensor(LENGTHS)[:, None]
WEIGHTS = torch.randn(4, 11, 23, generator=torch.Generator().manual_seed(1), dtype=torch.float64) * THERE[..., None]


def test_gpt2_as_published() -> None:
    peer = test_gpt2.peer(tie=True, activation="gelu_new")
    model = DTransformer.from_theta(test_gpt2.theta_of(peer), tied=True, activation="tanh_GELU")
    theirs, ours = peer(IDS, attention_mask=THERE.long()).logits, model(IDS, LENGTHS)
    assert_close(ours, theirs * THERE[..., None], **exactly)
    (theirs * WEIGHTS).sum().backward()
    (ours * WEIGHTS).sum().backward()
    tied_once = test_gpt2.theta_of(peer, gradient)
    assert_same_theta(model.theta_gradient(), type(tied_once).from_named(tied_once.named() | {"W_u": torch.zeros_like(tied_once.W_u)}))


def test_gpt2_with_its_cache() -> None:
    """Decoding with our cache and with Hugging Face's, token by token."""
    peer = test_gpt2.peer(tie=True, activation="gelu_new")
    model = DTransformer.from_theta(test_gpt2.theta_of(peer), tied=True, activation="tanh_GELU")
    ours, theirs = model.cache(4), None
    with torch.no_grad():
        for t in range(11):
            step = peer(IDS[:, t : t + 1], past_key_values=theirs, use_cache=True)
            theirs = step.past_key_values
            assert_close(model.decode(IDS[:, t : t + 1], ours), step.logits, **exactly)


def bert() -> tuple[nn.Module, BERTTheta]:
    peer = test_bert.peer()
    with torch.no_grad():
        peer.cls.predictions.decoder.bias.copy_(torch.linspace(-1, 1, 23))
    return peer, theta_bert(peer)


def theta_bert(peer: nn.Module, of=weight) -> BERTTheta:
    embeddings = peer.bert.embeddings
    more = {
        "W_s": of(embeddings.token_type_embeddings.weight).T,
        "gamma_e": of(embeddings.LayerNorm.weight),
        "beta_e": of(embeddings.LayerNorm.bias),
        "b_u": of(peer.cls.predictions.decoder.bias),
    }
    return BERTTheta.from_named(test_bert.theta_of(peer, of).named() | more)


def test_bert_as_published() -> None:
    peer, theta = bert()
    segments = (IDS > 11).long()
    theirs = peer(IDS, attention_mask=THERE.long(), token_type_ids=segments).logits
    model = ETransformer.from_theta(theta, eps=test_bert.EPS)
    ours = model(IDS, LENGTHS, segments)
    assert_close(ours, theirs * THERE[..., None], **exactly)
    for row, length in enumerate(LENGTHS):
        P = BERT(IDS[row, :length], theta, segments[row, :length], eps=test_bert.EPS)
        assert_close(P, theirs[row, :length].softmax(-1).T.detach(), **exactly)
    (theirs * WEIGHTS).sum().backward()
    (ours * WEIGHTS).sum().backward()
    assert_same_theta(model.theta_gradient(), theta_bert(peer, gradient))


class PreNormPeer(test_torch_transformer.Peer):
    """torch.nn.Transformer as it is with norm_first: a norm at the end of both stacks."""

    def __init__(self) -> None:
        super().__init__(1e-5)
        sizes = {"d_model": 15, "nhead": 3, "num_encoder_layers": 2, "num_decoder_layers": 3, "dim_feedforward": 19}
        self.transformer = nn.Transformer(**sizes, dropout=0, batch_first=True, norm_first=True)

    def batched(self, z: torch.Tensor, x: torch.Tensor, z_there: torch.Tensor) -> torch.Tensor:
        embed = [self.embedding(ids) + self.position(torch.arange(ids.shape[1])) for ids in (z, x)]
        causal = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        return self.unembedding(self.transformer(*embed, tgt_mask=causal, src_key_padding_mask=~z_there, memory_key_padding_mask=~z_there))


@pytest.mark.filterwarnings("ignore:enable_nested_tensor is True")
def test_the_pre_norm_transformer() -> None:
    peer = randomise(PreNormPeer()).train()

    def theta_of(of) -> PreNormEDTheta:
        encoder, decoder = peer.transformer.encoder.norm, peer.transformer.decoder.norm
        ends = {
            "gamma_enc": of(encoder.weight),
            "beta_enc": of(encoder.bias),
            "gamma_dec": of(decoder.weight),
            "beta_dec": of(decoder.bias),
        }
        return PreNormEDTheta.from_named(test_torch_transformer.theta_of(peer, of).named() | ends)

    z, z_lengths = IDS.flip(1)[:, :7], [2, 7, 5, 1]
    z_there = torch.arange(7) < torch.tensor(z_lengths)[:, None]
    theirs = peer.batched(z, IDS, z_there)
    model = EDTransformer.from_theta(theta_of(weight))
    ours = model(z, IDS, z_lengths, LENGTHS)
    assert_close(ours, theirs * THERE[..., None], **exactly)
    P = PreNormEDTransformer(z[1], IDS[1, :3], theta_of(weight))
    assert_close(P, theirs[1, :3].softmax(-1).T.detach(), **exactly)
    (theirs * WEIGHTS).sum().backward()
    (ours * WEIGHTS).sum().backward()
    assert_same_theta(model.theta_gradient(), theta_of(gradient))
