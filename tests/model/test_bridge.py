"""From a model to θ and back, without a loss; and θ that cannot be a model's."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import transalg
from tests.model.drawn import KINDS, models
from tests.strategies import fill
from tests.tolerance import PROMISED
from transalg.formal import DTheta, DTransformer, EDTheta, EDTransformer, ETheta, ETransformer
from transalg.formal.classification import ECTheta
from transalg.formal.positions import relative
from transalg.formal.systems import Gopher
from transalg.formal.unembedding import tied
from transalg.hyper import DHyper, EDHyper, EHyper, SpecialTokens
from transalg.verify.cases import small

SIZES = {"N_V": 13, "ell_max": 7, "H": 3, "d_e": 6, "d_mlp": 11}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@given(data=st.data())
def test_there_and_back(kind: type, data: st.DataObject) -> None:
    model, _, _ = data.draw(models(kind))
    again = type(model).from_theta(model.theta(), model.hyper)
    assert again.hyper == model.hyper
    for (name, ours), (same, theirs) in zip(model.state_dict().items(), again.state_dict().items(), strict=True):
        assert name == same and ours.equal(theirs)


@pytest.mark.parametrize(
    ("name", "theta"),
    [
        ("DTransformer", DTheta.init(L=2, **SIZES)),
        ("ETransformer", ETheta.init(L=2, d_f=5, **SIZES)),
        ("EDTransformer", EDTheta.init(L_enc=1, L_dec=2, **SIZES)),
        ("Classifier", ECTheta.init(L=2, d_f=5, N_C=3, **SIZES)),
        ("DTransformer", relative(DTheta.init(L=2, **SIZES), d_r=4)),
    ],
    ids=["D", "E", "ED", "EC", "relative"],
)
def test_back_and_there(name: str, theta: Any) -> None:
    theta = fill(theta, 0)
    if isinstance(theta, DTheta) and hasattr(theta.layers[0].W, "W_r"):
        theta = replace(theta, W_p=torch.zeros_like(theta.W_p))
    model = getattr(transalg, name).from_theta(theta)
    assert model.W_e.dtype == torch.float64
    again = model.theta()
    assert type(again) is type(theta) and again.named().keys() == theta.named().keys()
    for part, value in theta.named().items():
        assert again.named()[part].equal(value), part


def test_the_architectures_by_hand() -> None:
    """Without the twin that the bridge chooses: the paper's own functions on the model's θ."""
    x, z = torch.tensor([[11, 3, 5]]), torch.tensor([[2, 8, 1, 4]])
    d, e, ed = (
        fill(kind.init(**more, **SIZES), 1)
        for kind, more in ((DTheta, {"L": 2}), (ETheta, {"L": 2, "d_f": 5}), (EDTheta, {"L_enc": 1, "L_dec": 2}))
    )
    pairs = [
        (transalg.DTransformer.from_theta(d)(x), DTransformer(x[0], d)),
        (transalg.ETransformer.from_theta(e)(x), ETransformer(x[0], e)),
        (transalg.EDTransformer.from_theta(ed)(z, x), EDTransformer(z[0], x[0], ed)),
        (transalg.DTransformer.from_theta(relative(d, 4, torch.Generator().manual_seed(0)), norm="RMSnorm")(x), Gopher(x[0], relative(d, 4, torch.Generator().manual_seed(0)))),
    ]  # fmt: skip
    for logits, P in pairs:
        assert torch.allclose(logits.softmax(-1)[0].T, P, rtol=0, atol=PROMISED)


def test_theta_is_a_copy_in_float64() -> None:
    model = transalg.DTransformer(small(DHyper), dtype=torch.float64)
    theta = model.theta()
    assert theta.W_e.dtype == torch.float64 and model.theta(torch.float32).W_e.dtype == torch.float32
    before = model.W_e.clone()
    theta.W_e.zero_()
    theta.layers[0].W.W_q.zero_()
    assert model.W_e.equal(before) and (model.layers[0].W.W_qkv != 0).all()
    assert transalg.DTransformer.from_theta(model.theta(), dtype=torch.float32).W_e.dtype == torch.float32


def test_what_cannot_be_a_model() -> None:
    theta = DTheta.init(L=2, **SIZES)
    with pytest.raises(ValueError, match=r"theta: expected a ETheta or a BERTTheta, got DTheta"):
        transalg.ETransformer.from_theta(theta)
    with pytest.raises(ValueError, match=r"theta: expected W_u = W_eᵀ, for tied=True, got another W_u"):
        transalg.DTransformer.from_theta(theta, tied=True)
    assert transalg.DTransformer.from_theta(tied(theta), tied=True).hyper.tied
    with pytest.raises(ValueError, match=r"theta: expected the W_p of positions=sinusoids, got another W_p"):
        transalg.DTransformer.from_theta(theta, positions="sinusoids")
    with pytest.raises(ValueError, match=r"normal: expected a field of DHyper, got another"):
        transalg.DTransformer.from_theta(theta, normal="RMSnorm")
    with pytest.raises(ValueError, match=r"theta: expected a PreNormEDTheta with these departures, got EDTheta"):
        transalg.EDTransformer.from_theta(EDTheta.init(L_enc=1, L_dec=1, **SIZES), norm_first=True)
    with pytest.raises(ValueError, match=r"theta: expected d_e = 10, as in hyper, got 6"):
        transalg.DTransformer.from_theta(theta, small(DHyper))
    with pytest.raises(ValueError, match=r"hyper: expected a DHyper, got EHyper"):
        transalg.DTransformer.from_theta(theta, small(EHyper))
    with pytest.raises(ValueError, match=r"theta: expected L = 1, as in hyper, got 2"):
        transalg.DTransformer.from_theta(theta, L=1)
    with pytest.raises(ValueError, match=r"theta: expected positions=relative with W_r, u, w in every layer, got none of them"):
        transalg.DTransformer.from_theta(theta, positions="relative")
    with pytest.raises(
        ValueError, match=r"theta: expected no layers.0.W.W_r, or one that does nothing, with these departures, got one that acts"
    ):
        transalg.DTransformer.from_theta(relative(theta, 4), positions="learned", d_r=None)
    assert transalg.EDTransformer.hyper_kind is EDHyper


def test_special_tokens_go_along() -> None:
    """A checkpoint from elsewhere has its own, which the formal algorithms need too; bos and eos may be one token, as in GPT-2."""
    special = SpecialTokens(mask=None, bos=3, eos=3)
    model = transalg.DTransformer(small(DHyper, special=special), dtype=torch.float64)
    theta = model.theta()
    assert theta.special == (None, 3, 3) and theta.bos_token == theta.eos_token == 3
    assert transalg.DTransformer.from_theta(theta, model.hyper).hyper.special == special
    assert transalg.DTransformer.from_theta(theta).hyper.special == special
    with pytest.raises(ValueError, match="theta: expected the special tokens of hyper"):
        transalg.DTransformer.from_theta(theta, model.hyper.replace(special=None))
    with pytest.raises(ValueError, match="mask_token"):
        _ = theta.mask_token
