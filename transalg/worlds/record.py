"""Recording: what an expert does in a world, captions of glyphs, and prose, as episode files."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from transalg.atomic import StrPath
from transalg.checks import integer, real
from transalg.data.builtin import pydocs
from transalg.data.files import Progress, no_progress
from transalg.data.recorder import Recorder, check_new
from transalg.tokenization.spaces import Dictionary, Spaces, Text
from transalg.worlds import glyphs, rollout
from transalg.worlds.world import ExpertLostError, World

SEED = 0  # of the scores, so that they do not depend on the recorded episodes
GOOD = 0.8  # of the way from random actions to the expert: episodes below it are left out, unless another share is given
TRIES = 10  # episodes that are tried for each that is wanted
FIRST = 30  # episodes that are tried until the first that is good


@dataclass(frozen=True)
class Recorded:
    """What was recorded."""

    name: str
    episodes: int
    timesteps: int
    dropped: int  # episodes that were not good enough
    mean: float | None  # return of the episodes
    expert: float | None
    random: float | None


def is_held_out(number: int, share: float) -> bool:
    """Whether an episode validates: evenly spaced ones, this share of all.

    >>> [number for number in range(10) if is_held_out(number, 0.3)]
    [3, 6, 9]
    """
    return int((number + 1) * share + 1e-9) > int(number * share + 1e-9)


def record_world(
    world: World,
    folder: StrPath,
    *,
    episodes: int,
    seed: int = 0,
    noise: float = 0.0,
    stretch: float = 1.0,
    scored: int | None = None,
    keep: float = GOOD,
    valid: float = 0.05,
    progress: Progress = no_progress,
) -> Recorded:
    """Write episodes of the expert, with a share of exploring actions that are not learned, in stretches of `stretch` in the mean.

    First `scored` episodes of the expert, and as many of random actions, say what 100 % and 0 % are. Episodes below `keep` are dropped, and others
    tried in their place.
    """
    integer("episodes", episodes, 1)
    scored = integer("scored", world.scored if scored is None else scored, 1)
    real("noise", noise, "[0, 1)")
    real("stretch", stretch, "[1, ∞)")
    real("keep", keep, "[0, 1]")
    real("valid", valid, "[0, 1)")
    check_new(folder)
    expert, random = scores(world, scored, progress)
    limit = random + keep * (expert - random)
    total, steps, tried = 0.0, 0, 0
    spaces = world.spaces
    with Recorder(folder, name=world.name, observation=spaces.observation, action=spaces.action, expert=expert, random=random) as recorder:
        while recorder.count < episodes:
            if tried == (TRIES * episodes if recorder.count else min(FIRST, TRIES * episodes)):
                reached = f"{recorder.count} of {tried} episodes reached {100 * keep:.4g} % of the expert, {limit:.4g}"
                raise ValueError(f"{world.name}: {reached}; expected {episodes}, try less --noise or --least")
            score, length, lost = 0.0, 0, False
            try:
                for step in rollout.rollout(world, rollout.expert, rollout.episode_seed(seed, rollout.EPISODE, tried), noise, stretch):
                    recorder.add(step.observation, step.action, reward=step.reward, explored=step.explored)
                    score, length = score + step.reward, length + 1
            except ExpertLostError:
                lost = True
            tried += 1
            good = score >= limit and not lost
            if not length:  # lost at its first timestep
                continue
            recorder.end(keep=good, split="valid" if is_held_out(recorder.count, valid) else "train")
            if good:
                total, steps = total + score, steps + length
                progress(1)
    return Recorded(world.name, episodes, steps, tried - episodes, total / episodes, expert, random)


def scores(world: World, episodes: int, progress: Progress = no_progress) -> tuple[float, float]:
    """The mean return of the expert and of random actions."""
    expert, random = (
        sum(rollout.returns(world, policy, episodes, SEED, purpose, progress)) / episodes
        for policy, purpose in ((rollout.expert, rollout.EXPERT), (rollout.random, rollout.RANDOM))
    )
    if not expert > random:
        raise ValueError(f"{world.name}: expected an expert that is better than random actions, got {expert:.4g} and {random:.4g}")
    return expert, random


Answer = tuple[Any, str, str]  # an observation, a text, its split


@dataclass(frozen=True)
class Answers:
    """Built-in data whose action is a text."""

    name: str
    doc: str
    spaces: Spaces
    make: Callable[[float], Iterator[Answer]]  # from the share that is held out


def captions(valid: float) -> Iterator[Answer]:
    """Glyphs with their names. A face and some pairs are held out apart; of the rest a share validates, whose variants are then not learned."""
    number, validating = 0, set[tuple[str, str]]()
    for glyph in glyphs.glyphs():
        if glyph.split == "train" and not glyph.variant:
            if is_held_out(number, valid):
                validating.add((glyph.name, glyph.face))
            number += 1
        validates = (glyph.name, glyph.face) in validating
        if not (validates and glyph.variant):
            yield glyph.image, glyph.name, "valid" if validates else glyph.split


def prose(valid: float) -> Iterator[Answer]:
    for number, document in enumerate(pydocs()):
        yield {}, document, "valid" if is_held_out(number, valid) else "train"


ANSWERS = {
    one.name: one
    for one in (
        Answers("glyphs", "pictures of letters, and their names", glyphs.SPACES, captions),
        Answers("pydocs", "Python's own reference: prose", Spaces(Dictionary(), Text()), prose),
    )
}


def record_answers(answers: Answers, folder: StrPath, *, valid: float = 0.05, progress: Progress = no_progress) -> Recorded:
    """Write built-in captions or prose, an episode of one timestep for each."""
    real("valid", valid, "[0, 1)")
    with Recorder(folder, name=answers.name, observation=answers.spaces.observation, action=answers.spaces.action) as recorder:
        for observation, text, split in answers.make(valid):
            recorder.add(observation, text)
            recorder.end(split=split)
            progress(1)
    return Recorded(answers.name, recorder.count, recorder.count, 0, None, None, None)
