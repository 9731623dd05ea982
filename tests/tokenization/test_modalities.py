"""Tokens of every modality: where they stand, what their IDs are, and that the way back leads to the same values."""

import doctest
from math import inf, prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from transalg.formal.bins import Bin, Bin_inverse
from transalg.formal.bins import mu_law as formal_mu_law
from transalg.hyper.modalities import ACT, BINS, IMG, LOCAL, OBS, PATCH, SEP, TEXT
from transalg.tokenization import modalities, spaces, train, values
from transalg.tokenization.modalities import (
    Box,
    Dictionary,
    Discrete,
    Image,
    Spaces,
    Steps,
    Text,
    Vocabulary,
    action_ranges,
    concatenate,
    decode_action,
    decode_observation,
    encode_action,
    encode_observation,
    timestep,
    timesteps,
)
from transalg.tokenization.values import bins, centres, mu_law

TOKENIZER = train("char", ["go to the red ball and pick up a key"])
VOCABULARY = Vocabulary.of(TOKENIZER)
PLAIN = Vocabulary(N_text=1031)


def rng(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


def draw(space: Any, seed: int) -> Any:
    """A value of a space."""
    random = rng(seed)
    match space:
        case Dictionary(parts):
            return {name: draw(inner, seed + i) for i, (name, inner) in enumerate(parts.items())}
        case Text():
            return "".join(random.choice(list("go to the red ball"), random.integers(1, 7)))
        case Image(h, w, c):
            return random.integers(0, 256, (h, w, c), np.uint8)
        case Discrete(n, shape):
            return random.integers(0, n, shape)
        case Box(low, high, shape):
            return random.uniform(max(low, -250), min(high, 250), shape).astype(np.float32)


shapes = st.sampled_from([(), (2,), (3, 5)])
tensors = st.one_of(
    st.builds(Discrete, st.integers(1, BINS), shapes),
    st.builds(lambda bounds, shape: Box(*bounds, shape), st.sampled_from([(-1, 1), (0, 0.5), (-2, 2), (-inf, inf), (-7, 200)]), shapes),
)
images = st.builds(Image, st.sampled_from([16, 32, 48]), st.sampled_from([16, 80]), st.sampled_from([1, 3]))
parts = st.one_of(tensors, images, st.just(Text()))
dictionaries = st.dictionaries(st.text("abc", min_size=1, max_size=2), parts, max_size=5).map(Dictionary)
observations = st.one_of(parts, dictionaries, st.dictionaries(st.sampled_from("xyz"), dictionaries, max_size=2).map(Dictionary))
actions = st.one_of(tensors, st.dictionaries(st.sampled_from("pqr"), tensors, min_size=1).map(Dictionary))


def test_examples_in_docstrings() -> None:
    assert doctest.testmod(modalities).failed == 0 and doctest.testmod(spaces).failed == 0


# Values ----------------------------------------------------------------------------------------------------------------


@given(st.one_of(st.floats(-2, 2), st.floats(-300, 300), st.floats(-1e30, 1e30)), st.booleans())
def test_decoding_errs_by_at_most_half_a_bin(v: float, unit: bool) -> None:
    number = values.bins(np.array(v), unit=unit)
    assert 0 <= number < BINS
    y, back = (np.clip(x if unit else values.mu_law(np.float64(x)), -1, 1) for x in (v, values.centres(number, unit=unit)))
    assert abs(y - back) <= 1 / BINS + 1e-6
    assert values.bins(values.centres(number, unit=unit), unit=unit) == number, "a centre belongs to its bin"


def test_the_ends_stay_in_range() -> None:
    assert values.bins(np.array([-1, 1, -9, 9, -inf, inf]), unit=True).tolist() == [0, 1023, 0, 1023, 0, 1023]
    assert values.bins(np.array([-256, 256, -1e9, 1e9, 0]), unit=False).tolist() == [0, 1023, 0, 1023, 512]
    assert values.bins(np.array([-1, -1 + 1 / 512, 0, 1 - 1e-9]), unit=True).tolist() == [0, 1, 512, 1023]


def test_mu_law() -> None:
    """F(x) = sgn(x) log(100|x| + 1) / log(25601)."""
    assert values.mu_law(np.array([0.0, 256, -256])) == pytest.approx([0, 1, -1])
    assert values.mu_law(np.array([-0.5])) == pytest.approx([-np.log(51) / np.log(25601)])
    x = np.linspace(-256, 256, 101)
    assert values.inverse_mu_law(values.mu_law(x)) == pytest.approx(x)


def test_mu_law_is_for_values_that_are_not_declared_to_be_in_the_unit_interval() -> None:
    for low, high, unit in ((-1, 1, True), (0, 0.5, True), (-1, 1.5, False), (-inf, 1, False)):
        s = encode_observation(Spaces(Box(low, high), Discrete(2)), 0.25, PLAIN)
        assert s.ids[0] == PLAIN.N_text + values.bins(np.array(0.25), unit=unit)
    assert values.bins(np.array(0.25), unit=True) != values.bins(np.array(0.25), unit=False)


# Images ----------------------------------------------------------------------------------------------------------------


def test_patches_are_in_raster_order_with_their_intervals() -> None:
    picture = rng(0).integers(0, 256, (32, 48, 3), np.uint8)
    s = encode_observation(Spaces(Image(32, 48), Discrete(2)), picture, PLAIN)
    assert s.kind.tolist() == [IMG] * 6 + [SEP] and s.index.tolist() == [0, 1, 2, 3, 4, 5, 0] and not s.ids[:6].any()
    assert s.patches.shape == (6, 3, PATCH, PATCH) and s.patches.dtype == np.float32
    expected = picture[16:32, 32:48].transpose(2, 0, 1) / 127.5 - 1
    assert s.patches[5] == pytest.approx(expected, abs=1e-6)
    assert s.patches[1] == pytest.approx(picture[:16, 16:32].transpose(2, 0, 1) / 127.5 - 1, abs=1e-6)
    assert s.intervals[5] == pytest.approx([0.5, 1, 2 / 3, 1]) and s.intervals[1] == pytest.approx([0, 0.5, 1 / 3, 2 / 3])


@pytest.mark.parametrize("c", [1, 3])
@pytest.mark.parametrize("channels", [1, 3])
def test_grey_and_colour_become_the_channels_of_the_model(c: int, channels: int) -> None:
    picture = rng(1).integers(0, 256, (16, 16, c), np.uint8)
    s = encode_observation(Spaces(Image(16, 16, c), Discrete(2)), picture, Vocabulary(1031, channels=channels))
    grey = picture.mean(-1) / 127.5 - 1
    assert s.patches.shape == (1, channels, 16, 16) and s.patches.min() >= -1 and s.patches.max() <= 1
    assert s.patches[0].mean(0) == pytest.approx(grey, abs=1e-6)


def test_floats_are_pixels_from_0_to_1() -> None:
    picture = rng(2).integers(0, 256, (16, 32), np.uint8)
    space = Spaces(Image(16, 32, 1), Discrete(2))
    as_bytes, as_floats = (encode_observation(space, each, PLAIN) for each in (picture, picture / 255))
    assert as_floats.patches == pytest.approx(as_bytes.patches, abs=1e-6)


@pytest.mark.parametrize(("h", "w"), [(16, 17), (15, 16), (210, 160), (0, 16), (7, 7)])
def test_images_that_patches_do_not_fit_are_refused(h: int, w: int) -> None:
    with pytest.raises(ValueError, match=f"image: expected a height and a width that 16 divides, got {h}×{w}; resize or pad it"):
        Image(h, w)


# Timesteps -------------------------------------------------------------------------------------------------------------


def test_text_then_images_then_tensors_by_name() -> None:
    """Whatever the order of the dictionary; then the separator, then the action."""
    observation = Dictionary(
        {
            "b": Box(-1, 1, (2,)),
            "z": Text(),
            "a": Discrete(7),
            "y": Image(16, 32, 1),
            "x": Dictionary({"z": Discrete(3), "a": Image(16, 16)}),
        }
    )
    space = Spaces(observation, Dictionary({"q": Discrete(3), "p": Box(-1, 1, (2,))}))
    value = draw(observation, 3) | {"z": "the", "a": 6, "b": [-1, 1]}
    s = timestep(space, value, {"q": 2, "p": [0, 1]}, VOCABULARY)
    N = VOCABULARY.N_text
    assert s.kind.tolist() == [TEXT] * 3 + [IMG] * 3 + [OBS] * 4 + [SEP] + [ACT] * 3
    assert s.index.tolist() == [*range(10), 0, 0, 0, 0]
    assert s.ids.tolist() == [
        *TOKENIZER.encode("the", ends=False),
        0,
        0,
        0,
        6,
        N,
        N + 1023,
        value["x"]["z"],
        N + 1024,
        N + 512,
        N + 1023,
        2,
    ]
    assert s.loss.tolist() == [1] * 3 + [0] * 8 + [pytest.approx(11 / 3)] * 3, "three elements weigh as much as 11 tokens that are not text"
    assert s.patches[0, 0, 0, 0] == pytest.approx(value["x"]["a"][0, 0, 0] / 127.5 - 1, abs=1e-6), "x/a comes before y"


def test_an_exploratory_action_is_not_learned() -> None:
    space = Spaces(Text(), Discrete(3, (2,)))
    s = timestep(space, "go", [1, 2], VOCABULARY, explored=True)
    assert s.loss.tolist() == [1, 1, 0, 0, 0]


def test_types() -> None:
    space = Spaces(Dictionary({"a": Image(16, 32), "b": Box(shape=(2,)), "c": Text()}), Discrete(3))
    s = timestep(space, draw(space.observation, 7) | {"b": [1e300, -1e300]}, 1, VOCABULARY)
    for each in (s, s.part(2, 3), concatenate([s, s]), modalities.text(np.arange(5))):
        assert (each.kind.dtype, each.ids.dtype, each.index.dtype, each.loss.dtype) == (np.uint8, np.int64, np.int64, np.float32)
        assert each.patches.dtype == each.intervals.dtype == np.float32 and each.patches.shape[1:] == (3, 16, 16)
    assert s.ids[s.kind == OBS].tolist() == [VOCABULARY.N_text + BINS - 1, VOCABULARY.N_text], "however large"


def test_a_text_is_an_answer_without_separator() -> None:
    eos, bos = TOKENIZER.special_tokens.eos, TOKENIZER.special_tokens.bos
    s = timestep(Spaces(Image(16, 32), Text()), draw(Image(16, 32), 5), "ball", VOCABULARY)
    assert s.kind.tolist() == [IMG] * 2 + [TEXT] * 5 and s.index.tolist() == list(range(7)) and s.ids[-1] == eos and s.loss[2:].all()
    s = timestep(Spaces(Dictionary(), Text()), {}, "ball", VOCABULARY)
    assert s.kind.tolist() == [TEXT] * 6 and (s.ids[0], s.ids[-1]) == (bos, eos), "a document"


@given(observations, actions, st.integers(0, 2**16))
def test_many_timesteps_are_their_timesteps(observation: Any, action: Any, seed: int) -> None:
    space = Spaces(observation, action)
    pairs = [(draw(observation, seed + 10 * t), draw(action, seed + 10 * t)) for t in range(3)]
    explored = np.array([False, True, False])
    flat = [
        (spaces.flatten(observation, first, "observation", bounds=False), spaces.flatten(action, second, "action"))
        for first, second in pairs
    ]
    stacked = [
        {
            path: [f[i][path] for f in flat] if isinstance(flat[0][i][path], str) else np.stack([f[i][path] for f in flat])
            for path in flat[0][i]
        }
        for i in (0, 1)
    ]
    s = timesteps(space, Steps(*stacked, explored), VOCABULARY)
    single = [timestep(space, *pair, VOCABULARY, explored=bool(e)) for pair, e in zip(pairs, explored, strict=True)]
    assert s == concatenate(single)
    assert (s.kind == IMG).sum() == len(s.patches) == len(s.intervals)
    assert (s.loss > 0).tolist() == [
        k == TEXT or (k == ACT and not e)
        for one, e in zip(single, explored, strict=True)
        for k in one.kind.tolist()
    ]  # fmt: skip
    for one, e in zip(single, explored, strict=True):
        if (one.kind == ACT).any() and not e:
            assert one.loss.sum() == pytest.approx(len(one), rel=1e-5), "a timestep weighs as much as it has tokens"
    for pair, one in zip(pairs, single, strict=True):
        both = concatenate([encode_observation(space, pair[0], VOCABULARY), encode_action(space, pair[1], VOCABULARY)])
        assert np.array_equal(both.ids, one.ids) and np.array_equal(both.kind, one.kind) and np.array_equal(both.index, one.index)


@given(observations, st.integers(0, 2**16))
def test_observations_come_back(observation: Any, seed: int) -> None:
    """Discrete values, text and images exactly, continuous values within their bin."""
    texts = sum(isinstance(leaf, Text) for leaf in spaces.leaves(observation).values())
    space, value = Spaces(observation, Discrete(2)), draw(observation, seed)
    s = encode_observation(space, value, VOCABULARY).part(0, -1)
    if texts > 1:
        with pytest.raises(ValueError, match="expected at most one text"):
            decode_observation(observation, s, VOCABULARY)
        return
    back = decode_observation(observation, s, VOCABULARY)
    first, second = (spaces.flatten(observation, each, "value", bounds=False) for each in (value, back))
    for path, leaf in spaces.leaves(observation).items():
        if isinstance(leaf, Box):
            assert values.bins(second[path], unit=leaf.unit).tolist() == pytest.approx(values.bins(first[path], unit=leaf.unit), abs=1)
        else:
            assert np.array_equal(first[path], second[path])


def test_a_grey_model_gives_colours_back_as_their_mean() -> None:
    space, grey = Spaces(Image(16, 32, 3), Discrete(2)), Vocabulary.of(TOKENIZER, channels=1)
    picture = draw(space.observation, 7)
    back = decode_observation(space.observation, encode_observation(space, picture, grey).part(0, -1), grey)
    assert back.shape == picture.shape and np.abs(back - picture.mean(-1, keepdims=True)).max() <= 0.51


@given(actions, st.integers(0, 2**16))
def test_actions_come_back_and_stay_in_their_ranges(action: Any, seed: int) -> None:
    space, value = Spaces(Dictionary(), action), draw(action, seed)
    ids = encode_action(space, value, PLAIN).ids
    ranges = action_ranges(action, PLAIN)
    assert len(ranges) == len(ids) == sum(prod(leaf.shape) for leaf in spaces.leaves(action).values())
    assert all(one in allowed for one, allowed in zip(ids.tolist(), ranges, strict=True))
    back = spaces.flatten(action, decode_action(action, ids, PLAIN), "action")
    for path, leaf in spaces.leaves(action).items():
        if isinstance(leaf, Discrete):
            assert np.array_equal(back[path], spaces.flatten(action, value, "action")[path])
    for end in (0, -1):  # every token of a range is an action inside of its space
        spaces.flatten(action, decode_action(action, [allowed[end] for allowed in ranges], PLAIN), "action")


def test_the_ids_follow_each_other() -> None:
    """Text, 1,024 bins, the separator: N_V = N_text + 1024 + 1."""
    vocabulary = Vocabulary(N_text=32000)
    assert (vocabulary.separator, vocabulary.N_V) == (33024, 33025)
    assert action_ranges(Box(-1, 1), vocabulary) == [range(32000, 33024)]
    assert action_ranges(Box(-2, 2), vocabulary)[0].start > 32000 and action_ranges(Discrete(5), vocabulary) == [range(5)]
    assert Vocabulary.of(TOKENIZER).N_text == BINS, "a small vocabulary of text leaves room for the discrete values"


def test_a_part_of_a_sequence_has_its_patches() -> None:
    space = Spaces(Dictionary({"a": Image(16, 32), "b": Discrete(3)}), Discrete(2))
    one, two = (timestep(space, draw(space.observation, seed), 1, PLAIN) for seed in (0, 1))
    s = concatenate([one, two])
    assert s.part(0, len(one)) == one and s.part(len(one)) == two and s.part(-len(two)) == two and s.part(-99) == s
    assert len(s.part(1, 7).patches) == 3 and np.array_equal(s.part(1, 7).patches[0], one.patches[1])
    assert len(s.part(5, 3)) == 0 and s != one and s != "s"


# Bad input -------------------------------------------------------------------------------------------------------------

EVERY = Dictionary({"box": Box(-2, 2, (2,)), "count": Discrete(5), "image": Image(16, 16), "text": Text()})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"box": [0, np.nan]}, "observation/box: expected numbers, got NaN"),
        ({"box": [0, 1, 2]}, r"observation/box: expected the shape \(2,\), got \(3,\)"),
        ({"box": "ab"}, "observation/box: expected numbers, got str"),
        ({"box": None}, "observation/box: expected numbers, got NoneType"),
        ({"box": np.asarray(None)}, "observation/box: expected numbers, got NoneType"),
        ({"box": [[0, 1], [0]]}, r"observation/box: expected the shape \(2,\), got rows of unequal lengths"),
        ({"image": [[0, 1], [0]]}, r"observation/image: expected the shape \(16, 16, 3\), got rows of unequal lengths"),
        ({"count": 5}, "observation/count: expected integers from 0 to 4, got 5"),
        ({"count": -1}, "observation/count: expected integers from 0 to 4, got -1"),
        ({"count": 1.5}, "observation/count: expected integers from 0 to 4, got float64"),
        ({"image": np.zeros((16, 17, 3), np.uint8)}, r"observation/image: expected an image of 16×16×3, got the shape \(16, 17, 3\)"),
        ({"image": np.zeros((16, 16, 3), int)}, r"observation/image: expected pixels as uint8, or floats in \[0, 1\], got int64"),
        ({"image": np.full((16, 16, 3), 1.5)}, r"observation/image: expected pixels in \[0, 1\], got 1.5"),
        ({"image": np.full((16, 16, 3), np.nan)}, r"observation/image: expected pixels in \[0, 1\], got nan"),
        ({"text": 3}, "observation/text: expected a text, got int"),
        ({"text": None, "count": None}, "observation/text: expected a text, got NoneType"),
    ],
)
def test_an_observation_outside_of_its_space(change: dict[str, Any], message: str) -> None:
    value = {"box": [0, 0], "count": 0, "image": np.zeros((16, 16, 3), np.uint8), "text": "go"}
    encode_observation(Spaces(EVERY, Discrete(2)), value, VOCABULARY)
    encode_observation(Spaces(EVERY, Discrete(2)), value | {"box": [0, 3]}, VOCABULARY)  # clipped: environments overstep their bounds
    with pytest.raises(ValueError, match=message):
        encode_observation(Spaces(EVERY, Discrete(2)), value | change, VOCABULARY)


def test_other_errors() -> None:
    space = Spaces(EVERY, Box(-2, 2, (1,)))
    with pytest.raises(ValueError, match="observation: expected text, got none"):
        encode_observation(space, {"box": [0, 0]}, VOCABULARY)
    with pytest.raises(ValueError, match=r"action: expected numbers from -2 to 2, got 2\.5"):
        encode_action(space, [2.5], VOCABULARY)
    with pytest.raises(ValueError, match="text: expected a vocabulary with a tokenizer, got one without"):
        encode_observation(Spaces(Text(), Discrete(2)), "go", PLAIN)
    with pytest.raises(ValueError, match="action: expected 1 tokens, got 2"):
        decode_action(Discrete(3), [1, 2], PLAIN)
    with pytest.raises(ValueError, match="action: expected a token from 0 to 2 at 0, got 3"):
        decode_action(Discrete(3), [3], PLAIN)
    with pytest.raises(ValueError, match=f"observation: expected at most {LOCAL} tokens in a timestep, got 513"):
        encode_observation(Spaces(Discrete(2, (513,)), Discrete(2)), np.zeros(513, int), PLAIN)
    with pytest.raises(ValueError, match="text: expected at most 512 tokens at a time, got 513"):
        modalities.text(np.zeros(513, np.int64))
    for wrong in (Image(16, 16), Dictionary(), Dictionary({"a": Text()})):
        with pytest.raises(ValueError, match="action: expected discrete or continuous values, or one text"):
            Spaces(Discrete(2), wrong)
    with pytest.raises(ValueError, match="N_text: expected 1024 or more, got 1000"):
        Vocabulary(1000)
    with pytest.raises(ValueError, match=r"channels: expected 1 \(grey\) or 3 \(RGB\), got 4"):
        Vocabulary(2000, channels=4)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Box(1, 1), "box: expected low < high, got 1 and 1"),
        (lambda: Box(-1, 1, (0,)), r"box: expected a shape, a tuple of positive integers, got \(0,\)"),
        (lambda: Discrete(1025), "discrete: expected a whole number from 1 to 1,024, got 1025"),
        (lambda: Image(16, 16, 4), r"image: expected 1 channel \(grey\) or 3 \(RGB\), got 4"),
        (lambda: Spaces(3, Discrete(2)), "observation: expected a Box, Discrete, Image, Text or Dictionary of .*, got builtins.int"),
        (lambda: Spaces(Discrete(2), {"a": Text()}), "action: expected a Box, .*, got builtins.dict"),
        (lambda: Dictionary({"a": None}), "dictionary/a: expected a Box, .*, got builtins.NoneType"),
        (lambda: Dictionary({"a/b": Text()}), "dictionary: expected names without a slash, got 'a/b'"),
        (lambda: spaces.from_json({"kind": "sound"}), "space: expected a kind, one of box, discrete, image, text, dictionary"),
        (lambda: spaces.from_json({"kind": "box", "low": 0}), "space: expected high of a box, got none"),
        (lambda: spaces.from_json({"kind": "discrete", "n": 3, "shape": 5}), "space: expected a discrete, got"),
        (lambda: spaces.from_json({"kind": "dictionary", "spaces": {"a": 3}}), "space/a: expected a kind"),
    ],
)
def test_spaces_that_are_none(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


@given(observations)
def test_spaces_are_json(space: Any) -> None:
    import json

    assert spaces.from_json(json.loads(json.dumps(spaces.to_json(space), allow_nan=False))) == space


@given(v=st.floats(-1e4, 1e4, width=32))
def test_the_bins_are_those_of_the_formal_algorithms(v: float) -> None:
    """By NumPy and by formal/bins.py; a value at the edge of a bin may be rounded to either side."""
    N_text, place = VOCABULARY.N_text, BINS / 2 * (min(1.0, max(-1.0, formal_mu_law(v))) + 1)
    (number,) = bins(np.array([v]), unit=False)
    assert N_text + number == Bin(v, N_text, BINS) or abs(place - round(place)) < 1e-9
    assert float(mu_law(np.array(v))) == pytest.approx(formal_mu_law(v), abs=1e-12)
    (centre,) = centres(np.array([number]), unit=False)
    assert float(centre) == pytest.approx(Bin_inverse(N_text + int(number), N_text, BINS), rel=1e-6, abs=1e-9)
