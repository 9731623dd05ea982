"""Tokens of every modality (Gato): text, images, discrete and continuous values ↔ sequences of tokens and image patches.

>>> spaces = Spaces(observation=Box(-1, 1, (3,)), action=Discrete(5))
>>> vocabulary = Vocabulary(N_text=2000)
>>> s = timestep(spaces, [-1.0, 0.0, 1.0], 4, vocabulary)
>>> s.ids.tolist(), s.kind.tolist(), s.index.tolist(), s.loss.tolist()
([2000, 2512, 3023, 3024, 4], [1, 1, 1, 3, 4], [0, 1, 2, 0, 0], [0.0, 0.0, 0.0, 0.0, 5.0])
>>> int(decode_action(spaces.action, s.ids[-1:], vocabulary))
4
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from transalg.checks import integer
from transalg.hyper.modalities import ACT, BINS, IMG, LOCAL, OBS, PATCH, SEP, TEXT
from transalg.tokenization.sequence import Floats, Ints, Sequence, concatenate, no_patches, text
from transalg.tokenization.spaces import Array, Box, Dictionary, Discrete, Image, Leaf, Space, Spaces, Text, flatten, leaves, unflatten
from transalg.tokenization.tokenizer import Tokenizer
from transalg.tokenization.values import bins, centres, image, intervals, patches

__all__ = [
    "Box",
    "Dictionary",
    "Discrete",
    "Image",
    "Sequence",
    "Spaces",
    "Steps",
    "Text",
    "Vocabulary",
    "action_ranges",
    "concatenate",
    "decode_action",
    "decode_observation",
    "encode_action",
    "encode_observation",
    "fixed_count",
    "text",
    "timestep",
    "timesteps",
]


@dataclass(frozen=True)
class Vocabulary:
    """Which IDs tokens have: text 0 … N_text − 1, then the bins, then the separator. Discrete values have the first IDs of text."""

    N_text: int
    tokenizer: Tokenizer | None = None
    channels: int = 3  # C of a patch

    def __post_init__(self) -> None:
        integer("N_text", self.N_text, BINS)
        if self.channels not in (1, 3):
            raise ValueError(f"channels: expected 1 (grey) or 3 (RGB), got {self.channels}")

    @classmethod
    def of(cls, tokenizer: Tokenizer, channels: int = 3) -> "Vocabulary":
        """With the tokens of a tokenizer; N_text is at least the number of discrete values."""
        return cls(max(tokenizer.N_V, BINS), tokenizer, channels)

    @property
    def separator(self) -> int:
        return self.N_text + BINS

    @property
    def N_V(self) -> int:
        return self.N_text + BINS + 1

    def text(self) -> Tokenizer:
        if self.tokenizer is None:
            raise ValueError("text: expected a vocabulary with a tokenizer, got one without")
        return self.tokenizer

    def encode(self, text: str, *, bos: bool = False, eos: bool = False) -> Ints:
        """The token IDs of a text."""
        return _encoded(self.text(), text, bos, eos)


@lru_cache(maxsize=4096)  # a mission is the same in every timestep, a document is read in many parts
def _encoded(tokenizer: Tokenizer, text: str, bos: bool, eos: bool) -> Ints:
    ids = np.array(tokenizer.with_ends(tokenizer.encode(text, ends=False), bos=bos, eos=eos), np.int64)
    ids.flags.writeable = False
    return ids


# To tokens -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Steps:
    """T consecutive timesteps: of every part of the spaces, by its path, an array with a row for each timestep, or a list of T texts."""

    observation: Mapping[str, Array | list[str]]
    action: Mapping[str, Array | list[str]]
    explored: NDArray[np.bool_]  # T: actions that are not the expert's, and are not learned

    def __len__(self) -> int:
        return len(self.explored)


def fixed_count(spaces: Spaces) -> int:
    """How many tokens a timestep has without its texts."""
    parts = (*leaves(spaces.observation).values(), *leaves(spaces.action).values())
    return sum(map(_size, parts)) + (not spaces.answers)


def require_room(spaces: Spaces, name: str) -> None:
    """A ValueError for observations that have more tokens than there are indices, whatever their texts are."""
    count = sum(map(_size, leaves(spaces.observation).values()))
    if count > LOCAL:
        raise ValueError(f"{name}: expected at most {LOCAL} tokens in a timestep, got {count}; leave parts out, or make images smaller")


def _size(leaf: Leaf) -> int:
    """How many tokens a part has; 0 for text, which says so itself."""
    if isinstance(leaf, Image):
        return leaf.h * leaf.w // PATCH**2
    return 0 if isinstance(leaf, Text) else prod(leaf.shape)


@dataclass(frozen=True)
class _Column:
    """The tokens of one part in all timesteps, one timestep after the other."""

    kind: int
    ids: Ints
    counts: Ints  # of tokens in each timestep
    patches: Floats | None = None
    intervals: Floats | None = None


def timesteps(spaces: Spaces, steps: Steps, vocabulary: Vocabulary) -> Sequence:
    """Of each timestep the observation, the separator and the action. A text is an action without separator, and eos ends it.

    An action weighs in the loss as much as all tokens of its timestep that are not text: those are read for its sake. Else a world that shows
    images, with one action for twenty tokens, would hardly be learned beside prose.
    """
    return _weave(
        _observed(spaces.observation, steps.observation, len(steps), vocabulary),
        _done(spaces, steps.action, len(steps), vocabulary),
        np.asarray(steps.explored, bool),
        vocabulary,
    )


def timestep(spaces: Spaces, observation: Any, action: Any, vocabulary: Vocabulary, *, explored: bool = False) -> Sequence:
    """One timestep; values are checked."""
    observed = flatten(spaces.observation, observation, "observation", bounds=False)
    done = flatten(spaces.action, action, "action")
    return timesteps(spaces, Steps(_one(observed), _one(done), np.array([explored])), vocabulary)


def encode_observation(spaces: Spaces, observation: Any, vocabulary: Vocabulary) -> Sequence:
    """What comes before an action: the observation and the separator. There is none before a text."""
    parts = _one(flatten(spaces.observation, observation, "observation", bounds=False))
    separator = [] if spaces.answers else [_separator(1, vocabulary)]
    return _weave(_observed(spaces.observation, parts, 1, vocabulary), separator, np.zeros(1, bool), vocabulary)


def encode_action(spaces: Spaces, action: Any, vocabulary: Vocabulary, *, explored: bool = False) -> Sequence:
    """The tokens of an action alone."""
    parts = _one(flatten(spaces.action, action, "action"))
    columns = _done(spaces, parts, 1, vocabulary)
    return _weave([], columns if spaces.answers else columns[1:], np.array([explored]), vocabulary)


def _one(parts: Mapping[str, Array | str]) -> dict[str, Array | list[str]]:
    return {path: [part] if isinstance(part, str) else part[None] for path, part in parts.items()}


def _observed(space: Space, parts: Mapping[str, Array | list[str]], T: int, vocabulary: Vocabulary) -> list[_Column]:
    columns = []
    for path, leaf in leaves(space).items():
        if isinstance(leaf, Text):
            columns.append(_texts([vocabulary.encode(each) for each in parts[path]]))
        elif isinstance(leaf, Image):
            cells = patches(np.asarray(parts[path]), vocabulary.channels)
            ids, counts = np.zeros(len(cells), np.int64), np.full(T, _size(leaf))
            columns.append(_Column(IMG, ids, counts, cells, np.tile(intervals(leaf.h, leaf.w), (T, 1))))
        else:
            columns.append(_values(OBS, leaf, np.asarray(parts[path]), T, vocabulary))
    return columns


def _done(spaces: Spaces, parts: Mapping[str, Array | list[str]], T: int, vocabulary: Vocabulary) -> list[_Column]:
    if spaces.answers:
        return [_texts([vocabulary.encode(each, bos=spaces.document, eos=True) for each in parts[""]])]
    values = [(leaf, path) for path, leaf in leaves(spaces.action).items() if isinstance(leaf, Box | Discrete)]
    return [_separator(T, vocabulary), *(_values(ACT, leaf, np.asarray(parts[path]), T, vocabulary) for leaf, path in values)]


def _texts(ids: list[Ints]) -> _Column:
    return _Column(TEXT, np.concatenate([np.zeros(0, np.int64), *ids]), np.array([len(each) for each in ids], np.int64))


def _values(kind: int, leaf: Box | Discrete, values: Array, T: int, vocabulary: Vocabulary) -> _Column:
    ids = (
        values.reshape(-1).astype(np.int64) if isinstance(leaf, Discrete) else vocabulary.N_text + bins(values, unit=leaf.unit).reshape(-1)
    )
    return _Column(kind, ids, np.full(T, _size(leaf)))


def _separator(T: int, vocabulary: Vocabulary) -> _Column:
    return _Column(SEP, np.full(T, vocabulary.separator), np.ones(T, np.int64))


def _weave(observed: list[_Column], done: list[_Column], explored: NDArray[np.bool_], vocabulary: Vocabulary) -> Sequence:
    """Columns, each of all timesteps, as timesteps, each of all columns."""
    columns = [*observed, *done]
    if not columns or not len(explored):
        return text(np.zeros(0, np.int64), vocabulary.channels)
    counts = np.stack([column.counts for column in columns], axis=1)
    starts = np.concatenate([[0], counts.ravel().cumsum()])
    firsts = starts[:-1].reshape(counts.shape)
    ell = int(starts[-1])
    kind, ids, index, loss = np.zeros(ell, np.uint8), np.zeros(ell, np.int64), np.zeros(ell, np.int64), np.zeros(ell, np.float32)
    read, acted = (sum((each.counts for each in columns if test(each.kind)), np.zeros(len(explored))) for test in (TEXT.__ne__, ACT.__eq__))
    of_action = np.where(explored, 0, read / np.maximum(acted, 1))  # the weight of each of its elements
    places = list[Ints]()  # of the patches
    for k, column in enumerate(columns):
        before = column.counts.cumsum() - column.counts
        at = np.repeat(firsts[:, k] - before, column.counts) + np.arange(len(column.ids))
        kind[at], ids[at] = column.kind, column.ids
        if column.kind in (TEXT, OBS, IMG):
            index[at] = at - np.repeat(firsts[:, 0], column.counts)
        if column.kind in (TEXT, ACT):
            loss[at] = np.repeat(of_action, column.counts) if column.kind == ACT else 1
        if column.kind == IMG:
            places.append(at)
    if ell and index.max() >= LOCAL:
        raise ValueError(f"observation: expected at most {LOCAL} tokens in a timestep, got {index.max() + 1}")
    if not places:
        return Sequence(kind, ids, index, no_patches(vocabulary.channels), np.zeros((0, 4), np.float32), loss)
    order = np.concatenate(places).argsort()
    images = [column for column in columns if column.kind == IMG]
    cells, sides = (np.concatenate([getattr(column, name) for column in images])[order] for name in ("patches", "intervals"))
    return Sequence(kind, ids, index, cells, sides, loss)


# Back ------------------------------------------------------------------------------------------------------------------


def decode_action(space: Space, ids: Any, vocabulary: Vocabulary) -> Any:
    """The action that these token IDs stand for: a discrete value exactly, a continuous one as the centre of its bin, within its range."""
    ids = np.asarray(ids, np.int64)
    if isinstance(space, Text):
        return vocabulary.text().decode(ids.tolist())
    ranges = action_ranges(space, vocabulary)
    if len(ids) != len(ranges):
        raise ValueError(f"action: expected {len(ranges)} tokens, got {len(ids)}")
    for i, (one, allowed) in enumerate(zip(ids.tolist(), ranges, strict=True)):
        if one not in allowed:
            raise ValueError(f"action: expected a token from {allowed.start} to {allowed.stop - 1} at {i}, got {one}")
    return unflatten(space, _decoded(leaves(space), ids, vocabulary))


def decode_observation(space: Space, s: Sequence, vocabulary: Vocabulary) -> Any:
    """The observation that these tokens of one timestep, without separator, stand for."""
    parts = leaves(space)
    texts = [path for path, leaf in parts.items() if isinstance(leaf, Text)]
    if len(texts) > 1:
        raise ValueError(f"observation: expected at most one text, whose end is known, got {', '.join(texts)}")
    result: dict[str, Any] = {path: vocabulary.text().decode(s.ids[s.kind == TEXT].tolist()) for path in texts}
    used = 0
    for path, leaf in parts.items():
        if isinstance(leaf, Image):
            count = _size(leaf)
            picture = image(s.patches[used : used + count], leaf.h, leaf.w)
            result[path] = np.repeat(picture, leaf.c, axis=-1) if picture.shape[-1] < leaf.c else picture[..., : leaf.c]
            used += count
    return unflatten(space, result | _decoded(parts, s.ids[s.kind == OBS], vocabulary))


def _decoded(parts: Mapping[str, Leaf], ids: Ints, vocabulary: Vocabulary) -> dict[str, Array]:
    result, start = dict[str, Array](), 0
    for path, leaf in parts.items():
        if isinstance(leaf, Box | Discrete):
            each = ids[start : start + _size(leaf)]
            start += len(each)
            if isinstance(leaf, Box):
                values = centres(each - vocabulary.N_text, unit=leaf.unit)
                each = np.clip(values, np.float32(leaf.low), np.float32(leaf.high))
            result[path] = each.reshape(leaf.shape)
    return result


def action_ranges(space: Space, vocabulary: Vocabulary) -> list[range]:
    """𝒜_i: the token IDs that the i-th token of an action may have."""
    ranges = list[range]()
    for leaf in leaves(space).values():
        if isinstance(leaf, Discrete):
            ranges += [range(leaf.n)] * _size(leaf)
        elif isinstance(leaf, Box):
            low, high = bins(np.array([leaf.low, leaf.high]), unit=leaf.unit) + vocabulary.N_text
            ranges += [range(low, high + 1)] * _size(leaf)
    return ranges
