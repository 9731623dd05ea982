"""Episodes to rows of tokens: a part of an episode, at times after another episode of the same task. Any row can be made by its number alone."""

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from transalg.checks import integer, real
from transalg.data.episodes import ACTION, Episodes
from transalg.hyper.modalities import LOCAL
from transalg.tokenization.modalities import Sequence, Vocabulary, action_ranges, concatenate, fixed_count, text, timesteps
from transalg.tokenization.sequence import Ints

ROW, TASKS = 11, 12  # what a random number is drawn for
GOLDEN = (5**0.5 - 1) / 2
MASK = 0xFFFFFFFFFFFFFFFF


@lru_cache(maxsize=16)
def _offset(seed: int) -> float:
    return float(np.random.default_rng([seed, TASKS]).random())


@dataclass(frozen=True)
class Row:
    task: int  # the number of its folder
    sequence: Sequence


@dataclass(frozen=True)
class EpisodeRows:
    """Rows of at most ℓ_max tokens from several folders, each in proportion to its weight.

    Row n is a function of the seed and n: training continues from any step with the same rows. The share of each folder in any run of rows
    is its weight, up to one or two rows. A row has a random timestep, each as likely as the others, at a random place of the row: a short
    episode is mostly read from its beginning. With probability `prompts`, timesteps of another episode go first, at most half of the row:
    in one half of these its last ones, in the other from a random one on.
    """

    tasks: tuple[Episodes, ...]
    vocabulary: Vocabulary
    ell_max: int
    weights: tuple[float, ...] = ()  # by default equal
    prompts: float = 0.25
    split: str = "train"

    def __post_init__(self) -> None:
        integer("ell_max", self.ell_max, 2)
        real("prompts", self.prompts, "[0, 1]")
        if not self.tasks:
            raise ValueError("data: expected at least one folder of episodes, got none")
        if self.weights and len(self.weights) != len(self.tasks):
            raise ValueError(f"weights: expected one for each of {len(self.tasks)} folders, got {len(self.weights)}")
        for weight in self.weights:
            real("weights", weight, "(0, ∞)")
        for task in self.tasks:
            if fixed_count(task.spaces) > self.ell_max:
                raise ValueError(f"ell_max: expected at least {fixed_count(task.spaces)}, a timestep of {task.name}, got {self.ell_max}")
            if not task.spaces.document:  # of which a row has a part
                self._require_room(task)
        _ = self._draws  # every folder has episodes of the split

    def _require_room(self, task: Episodes) -> None:
        """A ValueError if the texts of a timestep leave it no room. Timesteps are looked at one by one only where it may be so."""
        numbers, texts = task.members(self.split), dict[str, set[str]]()
        for number in numbers:
            for part, runs in task.episodes[number].texts.items():
                texts.setdefault(part, set()).update(text for _, text in runs)
        most = sum(max(len(self.vocabulary.encode(text, eos=part == ACTION)) for text in each) for part, each in texts.items())
        if fixed_count(task.spaces) + most <= min(self.ell_max, LOCAL):
            return
        after = 0 if task.spaces.answers else 1 + len(action_ranges(task.spaces.action, self.vocabulary))  # tokens without an index
        for number in numbers:
            for start in sorted({start for runs in task.episodes[number].texts.values() for start, _ in runs}):
                count = int(token_counts(task, int(number), self.vocabulary, start, start + 1)[0])
                if count > self.ell_max:
                    raise ValueError(
                        f"{task.folder}: episode {number + 1}: expected timesteps of at most ell_max = {self.ell_max} tokens, got {count} "
                        f"at timestep {start + 1}; --model.ell-max {count} has room"
                    )
                if count - after > LOCAL:
                    raise ValueError(
                        f"{task.folder}: episode {number + 1}: expected at most {LOCAL} tokens of texts, images and values in a timestep, "
                        f"got {count - after} at timestep {start + 1}; its texts are too long"
                    )

    def batch(self, seed: int, step: int, size: int) -> list[Row]:
        """The rows of a step of training."""
        return [self.row(seed, n) for n in range(step * size, (step + 1) * size)]

    def row(self, seed: int, n: int) -> Row:
        task = self.task(seed, n)
        rng = np.random.default_rng([seed & MASK, ROW, n])
        return Row(task, self._draws[task].sequence(self.tasks[task], self, rng))

    def task(self, seed: int, n: int) -> int:
        """Which folder row n is of. Multiples of the golden ratio, modulo 1, fill [0, 1) evenly."""
        place = (_offset(seed & MASK) + n * GOLDEN) % 1
        return int(np.searchsorted(self._bounds, place, side="right"))

    @cached_property
    def _bounds(self) -> NDArray[np.float64]:
        weights = np.array(self.weights or [1.0] * len(self.tasks))
        return np.asarray(weights.cumsum() / weights.sum())[:-1]

    @cached_property
    def _draws(self) -> tuple["_Draw", ...]:
        return tuple(_Draw.of(task, self.split) for task in self.tasks)


@dataclass(frozen=True)
class _Draw:
    """The episodes of a split of one folder, as likely as they are long: in timesteps, documents in characters."""

    members: Ints
    ends: Ints

    @classmethod
    def of(cls, task: Episodes, split: str) -> "_Draw":
        members = task.members(split)
        episodes = [task.episodes[i] for i in members]
        sizes = [len(each.texts[ACTION][0][1]) + 1 if task.spaces.document else each.steps for each in episodes]
        return cls(members, np.cumsum(sizes))

    def sequence(self, task: Episodes, rows: EpisodeRows, rng: np.random.Generator) -> Sequence:
        number, place = self._place(rng)
        if task.spaces.document:
            return _document(task, number, place, rows)
        if rng.random() < rows.prompts and (prompt := self._prompt(task, number, rows, rng)):
            segment = _around(task, number, place, rows.ell_max - len(prompt), rows.vocabulary, rng)
            if len(segment):
                return concatenate([prompt, segment])
        return _around(task, number, place, rows.ell_max, rows.vocabulary, rng)

    def _place(self, rng: np.random.Generator) -> tuple[int, int]:
        """An episode and a timestep of it, or a character of a document; all are equally likely."""
        place = int(rng.integers(self.ends[-1]))
        i = int(np.searchsorted(self.ends, place, side="right"))
        return int(self.members[i]), place - (int(self.ends[i - 1]) if i else 0)

    def _prompt(self, task: Episodes, number: int, rows: EpisodeRows, rng: np.random.Generator) -> Sequence | None:
        others = self.members[self.members != number]
        if not len(others):
            return None
        other, room = int(rng.choice(others)), rows.ell_max // 2
        if rng.random() < 0.5:
            return last_timesteps(task, other, room, rows.vocabulary)
        return timesteps_from(task, other, int(rng.integers(task.episodes[other].steps)), room, rows.vocabulary)


def _document(task: Episodes, number: int, character: int, rows: EpisodeRows) -> Sequence:
    """The tokens of a document from about a character on."""
    document = task.episodes[number].texts[ACTION][0][1]
    ids = rows.vocabulary.encode(document, bos=True, eos=True)
    start = character * len(ids) // (len(document) + 1)
    return text(ids[start : start + min(rows.ell_max, LOCAL)], rows.vocabulary.channels)


def _around(task: Episodes, number: int, place: int, room: int, vocabulary: Vocabulary, rng: np.random.Generator) -> Sequence:
    """At most `room` tokens of an episode, with this timestep among them: at a random place, or none if it does not fit."""
    counts = token_counts(task, number, vocabulary, max(0, place + 1 - _most(task, room)), place + 1)
    before = int((counts[::-1].cumsum() <= room).sum()) - 1  # so many timesteps fit before it
    if before < 0:
        return timesteps_from(task, number, place, 0, vocabulary)
    fit = max(1, int(room / counts.mean()))
    return timesteps_from(task, number, max(0, place - min(before, int(rng.integers(fit)))), room, vocabulary)


def timesteps_from(task: Episodes, number: int, start: int, room: int, vocabulary: Vocabulary) -> Sequence:
    """As many timesteps of an episode, from `start` on, as have at most `room` tokens."""
    counts = token_counts(task, number, vocabulary, start, start + _most(task, room))
    return timesteps(task.spaces, task.steps(number, start, start + int((counts.cumsum() <= room).sum())), vocabulary)


def last_timesteps(task: Episodes, number: int, room: int, vocabulary: Vocabulary) -> Sequence:
    """As many of the last timesteps of an episode as have at most `room` tokens."""
    end = task.episodes[number].steps
    counts = token_counts(task, number, vocabulary, max(0, end - _most(task, room)), end)
    return timesteps(task.spaces, task.steps(number, end - int((counts[::-1].cumsum() <= room).sum()), end), vocabulary)


def token_counts(task: Episodes, number: int, vocabulary: Vocabulary, start: int = 0, stop: int | None = None) -> Ints:
    """How many tokens each timestep of an episode has, from `start` up to `stop`: a text counts in every timestep that shows it."""
    episode = task.episodes[number]
    start, stop, _ = slice(start, stop).indices(episode.steps)
    counts = np.full(max(0, stop - start), fixed_count(task.spaces))
    for part, runs in episode.texts.items():
        ends = [first for first, _ in runs[1:]] + [episode.steps]
        for (first, shown), end in zip(runs, ends, strict=True):
            if first < stop and end > start:
                size = len(vocabulary.encode(shown, bos=task.spaces.document, eos=part == ACTION))
                counts[max(0, first - start) : max(0, end - start)] += size
    return counts


def _most(task: Episodes, room: int) -> int:
    """So many timesteps may fit, were it not for texts."""
    return max(1, room // max(1, fixed_count(task.spaces)))
