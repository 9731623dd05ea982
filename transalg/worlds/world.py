"""A world: an environment that is reset by a seed, takes actions and gives rewards, and may have an expert."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from transalg.tokenization.spaces import Array, Box, Discrete, Spaces, flatten, leaves, unflatten

RGB = NDArray[np.uint8]  # h × w × 3


@dataclass(frozen=True)
class Outcome:
    """What an action leads to."""

    observation: Any
    reward: float
    done: bool  # the episode is over, or has reached its limit


class ExpertLostError(ValueError):
    """An expert has no answer to a state that it would not have come to itself. Recording drops the episode."""


class World(ABC):
    """Subclasses say `name`, `spaces`, `limit` (timesteps of an episode) and how the state changes."""

    name: str
    spaces: Spaces
    limit: int
    scored: int = 100  # episodes of the expert, and of random actions, that say what 100 % and 0 % are
    goal: bool = False  # whether a return above 0 says that an episode succeeded
    tau: float = 0.0  # the temperature of a model's actions, unless another is chosen
    time: int | None = None  # timesteps done; None before the first reset and after the end

    def reset(self, seed: int) -> Any:
        """The first observation of an episode, which follows from the seed."""
        self.time = 0
        return self._start(seed)

    def step(self, action: Any) -> Outcome:
        """Do an action of the action space."""
        checked = unflatten(self.spaces.action, flatten(self.spaces.action, action, f"{self.name}: action"))
        if self.time is None:
            raise ValueError(f"{self.name}: expected reset before an action, got an action")
        observation, reward, done = self._advance(checked)
        self.time += 1
        done = bool(done or self.time >= self.limit)
        if done:
            self.time = None
        return Outcome(observation, float(reward), done)

    @abstractmethod
    def _start(self, seed: int) -> Any: ...

    @abstractmethod
    def _advance(self, action: Any) -> tuple[Any, float, bool]: ...

    @abstractmethod
    def render(self) -> RGB:
        """A picture of the state."""

    def expert(self) -> Any:
        """What an expert does in this state."""
        raise ValueError(f"{self.name}: expected a world with an expert, got one without; Python can give one, see docs/gato.md, Recording")

    def random(self, rng: np.random.Generator) -> Any:
        """An action drawn uniformly; where a box has no end, from a normal distribution."""
        parts = dict[str, Array]()
        for path, leaf in leaves(self.spaces.action).items():
            if isinstance(leaf, Discrete):
                parts[path] = rng.integers(0, leaf.n, leaf.shape)
            elif isinstance(leaf, Box) and np.isfinite(leaf.high - leaf.low):
                parts[path] = rng.uniform(leaf.low, leaf.high, leaf.shape).astype(np.float32)
            elif isinstance(leaf, Box):
                parts[path] = np.clip(rng.standard_normal(leaf.shape), leaf.low, leaf.high).astype(np.float32)
            else:
                raise ValueError(f"{self.name}: expected discrete or continuous actions, got a text")
        return unflatten(self.spaces.action, parts)

    def explore(self, rng: np.random.Generator) -> Iterator[Any]:
        """What a stretch of exploration does, timestep by timestep: one random action again and again."""
        return repeat(self.random(rng))
