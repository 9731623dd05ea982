"""Dropout: in training only, in every kind of attention, and where the formal algorithms have it."""

from functools import partial
from itertools import count

import pytest
import torch
import torch.nn.functional as F
from torch.testing import assert_close

from tests.model.models import KINDS, RICH, UNITS, inputs, inputs_of
from tests.strategies import rng
from tests.tolerance import PROMISED
from transalg.hyper import ClassifierHyper, DHyper, EDHyper, Hyper
from transalg.model import MODELS, build
from transalg.verify.batches import draw
from transalg.verify.cases import small


@pytest.mark.parametrize("kind", KINDS)
def test_dropout_is_for_training_only(kind: type) -> None:
    hyper = small(kind, **RICH[kind] | {"dropout": 0.4, "attention_dropout": 0.3})
    model = MODELS[kind](hyper, generator=rng(0))
    plain = MODELS[kind](small(kind, **RICH[kind]), generator=rng(0))
    ids = inputs(kind, full=False)
    assert model.eval()(*ids).equal(plain(*ids))
    model.train()
    torch.manual_seed(0)
    one, other = model(*ids), model(*ids)
    torch.manual_seed(0)
    assert not one.equal(other) and model(*ids).equal(one)


@pytest.mark.parametrize("hyper", UNITS.values(), ids=UNITS)
def test_attention_weights_are_dropped_in_every_kind_of_attention(hyper: Hyper) -> None:
    """In training two passes differ though nothing else is random; otherwise they are the same."""
    model = build(hyper.replace(attention_dropout=0.5), dtype=torch.float64, generator=rng(0)).train()
    ids = inputs_of(hyper)
    torch.manual_seed(0)
    one, other = model(*ids), model(*ids)
    assert not torch.allclose(one, other)
    assert model.eval()(*ids).equal(model(*ids))


@pytest.mark.parametrize("kind", [DHyper, EDHyper])
def test_decoding_drops_nothing(kind: type) -> None:
    """Whatever mode the model is in, and it stays in that mode."""
    model = MODELS[kind](small(kind, dropout=0.4, attention_dropout=0.3), generator=rng(0)).train()
    ids = torch.tensor([[1, 2, 3], [4, 5, 6]])

    def decoded() -> torch.Tensor:
        return model.decode(ids, model.cache(ids) if kind is EDHyper else model.cache(2))

    training = decoded()
    assert model.training and all(module.training for module in model.modules())
    assert training.equal(decoded())
    model.eval()
    assert training.equal(decoded())


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_dropout_stands_where_the_formal_algorithms_have_it(kind: type, norm_first: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """With one and the same mask for the n-th dropout of either, engine and formal agree."""
    from transalg.formal import systems
    from transalg.formal.embedding import BERT_embed
    from transalg.formal.norm import no_norm
    from transalg.formal.theta import EDTheta

    masks: list[torch.Tensor] = []
    hyper = small(kind, norm_first=norm_first, dropout=0.4)
    model = MODELS[kind](hyper, dtype=torch.float64, generator=rng(0)).train()
    batch = draw(hyper, rng(1), rows=1)
    row = batch.row(0)

    def engine_dropout(X: torch.Tensor, p: float, training: bool) -> torch.Tensor:
        assert p == 0.4 and training
        masks.append((torch.rand(X.shape, generator=rng(len(masks)), dtype=torch.float64) > p) / (1 - p))
        return X * masks[-1]

    monkeypatch.setattr(F, "dropout", engine_dropout)
    ours = batch.log_probabilities(model)[0].exp()
    calls = count()

    def dropout(A: torch.Tensor) -> torch.Tensor:
        return A * masks[next(calls)].T

    theta = model.theta()
    block = systems.pre_norm if norm_first else systems.post_norm
    if kind is DHyper:
        P = systems.GPT(row["x"], theta, block=block, dropout=dropout)
    elif kind is EDHyper:
        named = theta.named()
        neutral = {
            f"{part}_{stack}": torch.full((hyper.d_e,), float(part == "gamma"), dtype=torch.float64)
            for part in ("gamma", "beta")
            for stack in ("enc", "dec")
        }
        theta = systems.PreNormEDTheta.from_named(neutral | named) if type(theta) is EDTheta else theta
        decoder, final = (systems.pre_norm_decoder, systems.layer_norm) if norm_first else (systems.post_norm_decoder, no_norm)
        P = systems.PreNormEDTransformer(row["z"], row["x"], theta, block=block, decoder_block=decoder, final_norm=final, dropout=dropout)
    else:
        wide = {
            "W_s": torch.zeros(hyper.d_e, 1),
            "gamma_e": torch.ones(hyper.d_e),
            "beta_e": torch.zeros(hyper.d_e),
            "b_u": torch.zeros(hyper.N_V),
        }
        classes = systems.BERTClassifierTheta if kind is ClassifierHyper else systems.BERTTheta
        if kind is ClassifierHyper:
            del wide["b_u"]
        theta = classes.from_named({name: part.double() for name, part in (wide | theta.named()).items()})
        P = (systems.BERTClassifier if kind is ClassifierHyper else systems.BERT)(
            row["x"], theta, embed=partial(BERT_embed, layer_norm=no_norm), block=block, dropout=dropout
        )
    assert next(calls) == len(masks) > 1
    assert_close(ours, P, rtol=0, atol=PROMISED)
