"""Hyperparameters: the defaults are the paper, presets are its departures, and what cannot be is refused."""

import doctest
import re
from dataclasses import FrozenInstanceError, fields
from math import inf, nan

import pytest

import transalg
from transalg import hyper
from transalg.hyper import PRESETS, ClassifierHyper, DHyper, EDHyper, EHyper, cost, preset
from transalg.hyper.mask import Band, Causal

SIZES = {"N_V": 23, "ell_max": 19, "H": 3, "d_e": 6, "d_mlp": 13}
KINDS = {DHyper: {"L": 2}, EHyper: {"L": 2}, ClassifierHyper: {"L": 2, "N_C": 5}, EDHyper: {"L_enc": 2, "L_dec": 1}}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_the_defaults_are_the_paper(kind: type) -> None:
    plain = kind(**SIZES, **KINDS[kind])
    assert plain.departures() == {}
    assert (plain.d_attn, plain.d_mid) == (2, 2)
    assert (plain.mask_token, plain.bos_token, plain.eos_token) == (20, 21, 22)
    with pytest.raises(FrozenInstanceError):
        plain.L = 3


def test_the_paper_s_choices() -> None:
    """Algorithm 10 normalises first, 8 and 9 afterwards; 8 has ReLU, 9 and 10 GELU."""
    assert [(kind.paper("norm_first"), kind.paper("activation")) for kind in (EDHyper, EHyper, DHyper)] == [
        (False, "ReLU"),
        (False, "GELU"),
        (True, "GELU"),
    ]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_field_says_what_it_means(kind: type) -> None:
    assert all(len(each.metadata["doc"]) > 4 for each in fields(kind))


@pytest.mark.parametrize(
    ("kind", "changes", "message"),
    [
        (DHyper, {"H": 4}, r"H: expected a divisor of d_e = 6, .*got 4"),
        (DHyper, {"L": 0}, r"L: expected a whole number from 1 to 1,000, got 0"),
        (DHyper, {"d_e": 6.0}, r"d_e: expected a whole number from 1 to 1,000,000, got 6.0"),
        (DHyper, {"N_V": True}, r"N_V: expected a whole number from 1 to 100,000,000, got True"),
        (DHyper, {"N_V": 3}, r"N_V: expected at least 4, .*got 3"),
        (DHyper, {"band": True}, r"band: expected a whole number from 1 to 100,000,000, got True"),
        (EHyper, {"segments": True}, r"segments: expected a whole number from 0 to 1,000,000, got True"),
        (DHyper, {"norm": "power_norm"}, r"norm: expected layer_norm or RMSnorm or RMSnorm_1p or batch_norm, got 'power_norm'"),
        (DHyper, {"activation": "gelu"}, r"activation: expected ReLU or GELU or tanh_GELU or .* or tanh_GEGLU, got 'gelu'"),
        (DHyper, {"positions": "rotatory"}, r"positions: expected learned or .* or rotary, got 'rotatory'"),
        (EHyper, {"positions": "relative"}, r"positions: expected learned or .*sinusoids.*, got 'relative'"),
        (DHyper, {"positions": "sinusoids", "d_e": 9}, r"d_e: expected an even number, .*got 9"),
        (DHyper, {"positions": "relative", "d_r": 5}, r"d_r: expected an even number, .*got 5"),
        (DHyper, {"positions": "relative", "band": 3}, r"band: expected None with positions=relative, .*got 3"),
        (DHyper, {"d_r": 4}, r"d_r: expected None with positions=learned; .*got 4"),
        (DHyper, {"band": 0}, r"band: expected a whole number from 1 to 100,000,000, got 0"),
        (DHyper, {"dropout": 1.0}, r"dropout: expected a number in \[0, 1\), got 1.0"),
        (DHyper, {"attention_dropout": -0.1}, r"attention_dropout: expected a number in \[0, 1\), got -0.1"),
        (DHyper, {"label_smoothing": "much"}, r"label_smoothing: expected a number in \[0, 1\), got 'much'"),
        (DHyper, {"eps": -1e-5}, r"eps: expected a number in \[0, 1000\]"),
        (DHyper, {"init_std": 0.0}, r"init_std: expected a number in \(0, 1000\], got 0.0"),
        (DHyper, {"tied": "yes"}, r"tied: expected True or False, got 'yes'"),
        (EHyper, {"tied": True, "d_f": 7}, r"d_f: expected d_e = 6, for tied=True"),
        (EHyper, {"mask_split": (0.8, 0.1, 0.2)}, r"mask_split: expected three shares that add up to 1"),
        (EHyper, {"p_mask": 0.0}, r"p_mask: expected a number in \(0, 1\), got 0.0"),
        (EHyper, {"segments": -1}, r"segments: expected a whole number from 0 to 1,000,000, got -1"),
        (ClassifierHyper, {"tied": True}, r"tied: expected False, for a classifier has no W_u"),
        (ClassifierHyper, {"output_bias": True}, r"output_bias: expected False, for a classifier has no W_u"),
    ],
)
def test_what_cannot_be_is_refused(kind: type, changes: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        kind(**SIZES | KINDS[kind] | changes)


ROTARY = {"positions": "rotary"}
GROUPS = {"H": 6, "d_e": 24}  # heads of 4
FOUR = "one number in .*, a factor, or four, .*, or None"


@pytest.mark.parametrize(
    ("kind", "changes", "message"),
    [
        *(
            (DHyper, {"H_kv": H_kv}, rf"H_kv: expected a divisor of H = 6, or None, got {H_kv!r}")
            for H_kv in (4, 0, -2, 12, True, 2.0, "2")
        ),
        (DHyper, ROTARY | {"d_rot": 3}, r"d_rot: expected an even number of at most d_attn = 4, .*got 3"),
        (DHyper, ROTARY | {"d_rot": 6}, r"d_rot: expected an even number of at most d_attn = 4, .*got 6"),
        (DHyper, ROTARY | {"d_rot": 0}, r"d_rot: expected a whole number from 1 to 1,000,000, got 0"),
        (DHyper, ROTARY | {"d_attn": 1}, r"d_rot: expected an even number of at most d_attn = 1, .*got 0"),
        (EHyper, ROTARY | {"d_rot": 5}, r"d_rot: expected an even number of at most d_attn = 4, .*got 5"),
        (DHyper, {"band": 0}, r"band: expected a whole number from 1 to 100,000,000, got 0"),
        (DHyper, {"band": 3, "band_pattern": ""}, r"band_pattern: expected a string of 0 and 1, such as 01, got ''"),
        (DHyper, {"band": 3, "band_pattern": "0 1"}, r"band_pattern: expected a string of 0 and 1, such as 01, got '0 1'"),
        (DHyper, {"band": 3, "band_pattern": 1}, r"band_pattern: expected a string of 0 and 1, such as 01, got 1"),
        (DHyper, {"band": 3, "shared": 2}, r"shared: expected 1 with a band that is not in every layer, got 2"),
        *(
            (DHyper, ROTARY | {"rotary_scaling": wrong}, rf"rotary_scaling: expected {FOUR}, got {re.escape(repr(wrong))}")
            for wrong in ((2.0, 3.0), (), (2.0, 1.0, 4.0), (inf,), (nan,), (0.0,), (8.0, 1.0, 4.0, inf), 3.0, [3.0], ("3",), (True,))
        ),
        (DHyper, ROTARY | {"rotary_scaling": (8.0, 4.0, 1.0, 99.0)}, r"rotary_scaling: expected low < high, .*got \(8.0, 4.0, 1.0, 99.0\)"),
        (DHyper, ROTARY | {"rotary_scaling": (8.0, 4.0, 4.0, 99.0)}, r"rotary_scaling: expected low < high, .*got \(8.0, 4.0, 4.0, 99.0\)"),
        *(
            (DHyper, ROTARY | {"rotary_base": wrong}, rf"rotary_base: expected a number in \(0, ∞\), got {wrong!r}")
            for wrong in (0.0, -1.0, inf, nan, "10000", True)
        ),
        (DHyper, {"qk_norm": True, "norm": "batch_norm"}, r"qk_norm: expected False with norm=batch_norm, got True"),
        (DHyper, {"qk_norm": 1}, r"qk_norm: expected True or False, got 1"),
        (DHyper, {"parallel": True, "norm_first": False}, r"parallel: expected False with norm_first=False, got True"),
        (DHyper, {"parallel": "yes"}, r"parallel: expected True or False, got 'yes'"),
        (EDHyper, {"rotary_base": 5.0}, r"rotary_base: expected None with positions=learned; it belongs to positions=rotary, got 5.0"),
        (DHyper, {"d_rot": 4}, r"d_rot: expected None with positions=learned; it belongs to positions=rotary, got 4"),
        (DHyper, {"rotary_base": 5.0}, r"rotary_base: expected None with positions=learned; .*got 5.0"),
        (DHyper, {"rotary_scaling": (2.0,)}, r"rotary_scaling: expected None with positions=learned; .*got \(2.0,\)"),
        (DHyper, {"positions": "relative", "d_rot": 4}, r"d_rot: expected None with positions=relative; .*got 4"),
        (DHyper, ROTARY | {"d_r": 4}, r"d_r: expected None with positions=rotary; it belongs to positions=relative, got 4"),
        (DHyper, {"positions": "relative", "H_kv": 2}, r"H_kv: expected None with positions=relative, .*got 2"),
        (DHyper, {"positions": "relative", "qk_norm": True}, r"qk_norm: expected False with positions=relative, .*got True"),
        *((kind, {"bias": "q"}, r"bias: expected all or qkv or none, got 'q'") for kind in KINDS),
        (DHyper, {"bias": None}, r"bias: expected all or qkv or none, got None"),
        (DHyper, {"activation": "swiglu"}, r"activation: expected .* or SwiGLU or GEGLU or tanh_GEGLU, got 'swiglu'"),
        (DHyper, {"norm": "RMSnorm1p"}, r"norm: expected .* or RMSnorm_1p or .*, got 'RMSnorm1p'"),
    ],
)
def test_what_today_s_decoders_cannot_be_is_refused(kind: type, changes: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        kind(**SIZES | GROUPS | KINDS[kind] | changes)


def test_a_key_for_every_head_is_the_paper() -> None:
    """H_kv = H, d_rot = d_attn and the base of RoFormer are what they are unless given."""
    sizes = SIZES | GROUPS | {"L": 2}
    assert DHyper(**sizes, H_kv=6) == DHyper(**sizes)
    assert DHyper(**sizes, **ROTARY) == DHyper(**sizes, **ROTARY, d_rot=4, rotary_base=10000.0)
    assert DHyper(**sizes, H_kv=2).heads.H_kv == 2 and DHyper(**sizes).heads.H_kv == 6
    changed = DHyper(**sizes, **ROTARY).replace(d_e=48)
    assert (changed.d_attn, changed.d_rot) == (8, 8)
    assert DHyper(**sizes, **ROTARY).replace(positions="learned") == DHyper(**sizes)


def test_the_pattern_names_the_layers_with_a_band() -> None:
    for pattern, layers in (("01", "01010"), ("1", "11111"), ("110", "11011"), ("0", "00000")):
        hyper = DHyper(**SIZES, L=5, band=3, band_pattern=pattern)
        assert [hyper.mask("layers", l) for l in range(5)] == [Band(3) if layer == "1" else Causal() for layer in layers]


def test_a_preset_may_be_changed() -> None:
    small = preset("gpt2", d_e=96, H=4, ell_max=31)
    assert (small.d_e, small.d_attn, small.d_mid, small.ell_max) == (96, 24, 24, 31)
    assert small.departures().keys() == preset("gpt2").departures().keys()
    assert transalg.preset is preset
    with pytest.raises(ValueError, match=r"droput: Algorithm 10 has no such hyperparameter; did you mean dropout\?"):
        preset("gpt2", droput=0.1)
    with pytest.raises(ValueError, match=r"there is no preset 'gpt5': did you mean gpt2"):
        preset("gpt5")
    with pytest.raises(ValueError, match=r"there is no preset 'gpt3': did you mean gpt3-small, gpt3-medium"):
        preset("gpt3")


def test_what_was_derived_is_derived_again() -> None:
    assert preset("bert-base", d_e=64, H=4).d_f == 64
    assert preset("gopher-44m", d_e=64, H=4).d_r == 64
    assert preset("gopher-44m", positions="learned").d_r is None


def test_d_attn_stays_where_it_was_given() -> None:
    assert preset("gpt3-13b", d_e=5120).d_attn == 128


# What the authors publish ----------------------------------------------------------------------------------------------


def digits(published: str) -> tuple[float, float]:
    """The number a published count says, and half a unit of its last digit: 1.3B is 1.3e9 ± 0.05e9, 340M is 340e6 ± 5e6."""
    number, scale = published[:-1], {"M": 1e6, "B": 1e9}[published[-1]]
    unit = 0.1 if "." in number else 10.0 if number in ("110", "340", "350", "760", "280") else 1.0
    return float(number) * scale, unit * scale / 2


# Where the published count rests on something else, what that is, as hyperparameters that give it.
CONVENTIONS = {
    "transformer-base": ("a vocabulary of 40.8 thousand, where the text says about 37000", {"N_V": 40_800}, 0),
    "transformer-big": ("a vocabulary of 35.8 thousand, where the text says about 37000", {"N_V": 35_800}, 0),
    "gpt3-medium": ("without the 2048 positions", {}, 2048 * 1024),
}


@pytest.mark.parametrize("name", PRESETS)
def test_parameters_are_as_published(name: str) -> None:
    published, half = digits(PRESETS[name].published)
    convention, changes, left_out = CONVENTIONS.get(name, ("", {}, 0))
    assert abs(cost.parameters(preset(name, **changes)) - left_out - published) <= half
    if convention:  # a convention is claimed only where the plain count is off
        assert abs(cost.parameters(preset(name)) - published) > half
        assert PRESETS[name].count
    elif name != "gpt3-xl":
        assert not PRESETS[name].count


def test_gpt3_xl_has_16_heads() -> None:
    """The article's table has 24 heads of 128 at a width of 2048: 1.5 B, not 1.3 B."""
    assert round(cost.parameters(preset("gpt3-xl", H=24, d_attn=128, d_mid=128)) / 1e9, 1) == 1.5


def test_all_systems_of_the_paper_are_there() -> None:
    families = {"transformer": 2, "bert": 2, "gpt2": 4, "gpt3": 8, "gopher": 6, "gato": 3}
    today = {"llama": 3, "tinyllama": 1, "smollm2": 2, "mistral": 1, "qwen": 2, "gemma": 1, "pythia": 2}
    assert {family: sum(name.startswith(family) for name in PRESETS) for family in families | today} == families | today
    assert sum((families | today).values()) == len(PRESETS)


def test_the_examples_in_the_docstring_are_true() -> None:
    assert doctest.testmod(hyper).failed == 0
