"""Names and arrangements: what is taken apart for others is put together again, and rotary pairs go where they belong."""

import json

import pytest
import torch

from tests.strategies import rng
from transalg.hyper import DHyper, EDHyper, EHyper, Hyper
from transalg.hyper.shapes import shapes
from transalg.interop import gguf
from transalg.interop.families import FAMILIES, family_of
from transalg.interop.family import Family
from transalg.interop.fitting import LINES, differences
from transalg.interop.huggingface import family_for, their_settings
from transalg.interop.names import halves, joined, neighbours, taken_apart, their_shapes
from transalg.interop.settings import Settings
from transalg.verify.cases import small

GATED = {"positions": "rotary", "norm": "RMSnorm", "activation": "SwiGLU", "bias": "none", "d_attn": 6, "d_mid": 6}
PAIRS = {"positions": "split_sinusoids", "d_attn": None, "d_mid": None}
HYPERS: dict[str, dict[str, object]] = {
    "gpt2": {"d_attn": None, "d_mid": None},
    "bert": {"d_attn": None, "d_mid": None, "d_f": 10, "segments": 2, "embedding_norm": True, "output_bias": True},
    "marian": PAIRS,
    "pegasus": PAIRS | {"norm_first": True, "output_bias": True},
    "blenderbot": PAIRS | {"norm_first": True, "positions": "learned", "output_bias": True},
    "qwen2": GATED | {"bias": "qkv"},
    "qwen3": GATED | {"qk_norm": True},
    "gemma": GATED | {"norm": "RMSnorm_1p", "activation": "tanh_GEGLU", "scaled": True, "tied": True},
    "gpt_neox": {"positions": "rotary", "d_attn": 6, "d_mid": 6, "d_e": 12, "d_rot": 4, "parallel": True},
}


def hyper_of(family: Family) -> Hyper:
    fields = HYPERS.get(family.model_type, GATED)
    if family.architectures[0] == "BertForSequenceClassification":
        from transalg.hyper import ClassifierHyper

        return small(ClassifierHyper, **{**fields, "head": "tanh", "output_bias": False})  # type: ignore[arg-type]
    if family.architectures[0] == "BertModel":
        return small(EHyper, **{**fields, "head": "none", "tied": True, "output_bias": False})  # type: ignore[arg-type]
    kind = EHyper if family.model_type == "bert" else EDHyper if "enc.*.gamma1" in family.sources else DHyper
    return small(kind, **fields)  # type: ignore[type-var, arg-type]


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.architectures[0])
def test_what_is_taken_apart_is_put_together_again(family: Family) -> None:
    hyper = hyper_of(family)
    ours = {name: torch.randn(shape, generator=rng(i)) for i, (name, shape) in enumerate(shapes(hyper).items())}
    theirs = dict(taken_apart(hyper, family.sources, ours))
    assert {name: tuple(part.shape) for name, part in theirs.items()} == their_shapes(hyper, family.sources)
    assert sum(part.numel() for part in theirs.values()) == sum(part.numel() for part in ours.values())
    again = dict(joined(hyper, family.sources, theirs.__getitem__))
    assert list(again) == list(shapes(hyper)) and all(part.equal(ours[name]) for name, part in again.items())


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.architectures[0])
def test_settings_say_what_the_hyperparameters_say(family: Family) -> None:
    hyper = hyper_of(family)
    settings = their_settings(family, hyper)
    json.dumps(settings.values)
    other = family.hyper(settings)
    if isinstance(other, EDHyper):
        other = other.replace(output_bias=hyper.output_bias)  # type: ignore[attr-defined]
    assert differences(hyper, other) == {}
    named = Settings(dict(settings.values) | {"architectures": [family.architectures[0]]})
    assert family_of(named) is family
    assert family_for(hyper).sources.keys() >= family.sources.keys() & family_for(hyper).sources.keys()


def test_rotary_pairs() -> None:
    """Two heads of width 6: neighbours 0 and 1, 2 and 3, 4 and 5 there are 0 and 3, 1 and 4, 2 and 5 here."""
    W = torch.arange(12.0)[:, None]
    assert halves(W, 2).flatten().tolist() == [0, 2, 4, 1, 3, 5, 6, 8, 10, 7, 9, 11]
    assert neighbours(halves(W, 2), 2).equal(W) and halves(neighbours(W, 2), 2).equal(W)


def test_q_k_and_v_of_one_head_above_those_of_the_next() -> None:
    hyper, family = small(DHyper, **HYPERS["gpt_neox"]), FAMILIES[-1]  # type: ignore[arg-type]
    assert family.model_type == "gpt_neox"
    d, H = 6, hyper.H
    theirs = {name: torch.zeros(shape) for name, shape in their_shapes(hyper, family.sources).items()}
    name = "gpt_neox.layers.0.attention.query_key_value.bias"
    theirs[name] = torch.arange(3.0 * d * H)
    ours = dict(joined(hyper, family.sources, theirs.__getitem__))["layers.0.W.b_qkv"]
    q, k, v = ours.view(3, H, d)
    assert q[1].tolist() == list(range(3 * d, 4 * d)) and k[0].tolist() == list(range(d, 2 * d)) and v[1, 0] == 5 * d


def test_every_departure_that_acts_has_its_line() -> None:
    from transalg.verify.cases import DEPARTURES

    for kind, variants in DEPARTURES.items():
        fields = {name.partition("=")[0] for name in variants} - {"as in the paper"}
        assert fields <= set(LINES[kind.algorithm]), fields - set(LINES[kind.algorithm])


@pytest.mark.parametrize("name", gguf.ARCHITECTURES)
def test_gguf_names(name: str) -> None:
    family = gguf.ARCHITECTURES[name]
    fields = {"llama": GATED, "gpt2": {"d_attn": None, "d_mid": None}, "gptneox": HYPERS["gpt_neox"]}[name]
    hyper = small(DHyper, **fields)  # type: ignore[arg-type]
    ours = {one: torch.randn(shape, generator=rng(i)) for i, (one, shape) in enumerate(shapes(hyper).items())}
    theirs = dict(taken_apart(hyper, family.sources, ours))
    assert all(part.equal(ours[one]) for one, part in joined(hyper, family.sources, theirs.__getitem__))
