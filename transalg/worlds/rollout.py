"""Episodes of a world by a policy, and scores: 0 % is what random actions reach, 100 % what the expert reaches."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from transalg.data.files import Progress, no_progress
from transalg.data.shuffle import derive_seed
from transalg.worlds.world import ExpertLostError, World

EPISODE, NOISE, EXPERT, RANDOM = 21, 22, 23, 24  # what a seed is derived for
Policy = Callable[[World, Any, np.random.Generator], Any]  # an action for the state that a world is in, and what is observed of it


def expert(world: World, observation: Any, rng: np.random.Generator) -> Any:
    return world.expert()


def random(world: World, observation: Any, rng: np.random.Generator) -> Any:
    return world.random(rng)


@dataclass(frozen=True)
class Timestep:
    observation: Any
    action: Any
    reward: float
    explored: bool  # the action was not the policy's


def rollout(world: World, policy: Policy, seed: int, noise: float = 0.0, stretch: float = 1.0) -> Iterator[Timestep]:
    """An episode. In stretches of `stretch` actions in the mean it explores: a longer one leads farther away.

    In long episodes a share `noise` of all actions explores; in short ones less, for they begin with the policy.
    """
    rng = np.random.default_rng([seed, NOISE])
    begins = noise / (noise + stretch * (1 - noise))  # so often a stretch begins where none is
    observation, done, left = world.reset(seed), False, 0
    while not done:
        action, explored = policy(world, observation, rng), None
        if not left and rng.random() < begins:
            left, explore = int(rng.geometric(1 / stretch)), world.explore(rng)
        if left:
            explored = next(explore, None)  # it may end before the stretch does
            left = 0 if explored is None else left - 1
        outcome = world.step(action if explored is None else explored)
        yield Timestep(observation, action if explored is None else explored, outcome.reward, explored is not None)
        observation, done = outcome.observation, outcome.done


def episode_seed(seed: int, purpose: int, number: int) -> int:
    """The seed of an episode: another for every purpose and number."""
    return derive_seed(2**31, seed, purpose, number)


def returns(world: World, policy: Policy, episodes: int, seed: int, purpose: int, progress: Progress = no_progress) -> list[float]:
    """The return of every episode; where the expert is lost, what it had reached."""
    scores = list[float]()
    for number in range(episodes):
        scores.append(0.0)
        with suppress(ExpertLostError):
            for step in rollout(world, policy, episode_seed(seed, purpose, number)):
                scores[-1] += step.reward
        progress(1)
    return scores


def normalised(score: float, expert: float, random: float) -> float:
    """0 for random actions, 1 for the expert."""
    if expert == random:
        raise ValueError(f"scores: expected an expert that is better than random actions, got {expert:g} for both")
    return (score - random) / (expert - random)
