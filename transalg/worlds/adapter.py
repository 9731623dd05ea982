"""Any environment of gymnasium as a world, with an expert for BabyAI and for Pong. Needs the extra `gato`, Atari the extra `atari`."""

import io
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field, replace
from typing import Any

import gymnasium
import numpy as np

from transalg.tokenization.modalities import require_room
from transalg.tokenization.spaces import Image, Spaces, flatten, leaves
from transalg.worlds.babyai import Bot, mistaken
from transalg.worlds.conversion import Pixels, convert
from transalg.worlds.pong import PongExpert
from transalg.worlds.world import RGB, World

LONGEST = 100_000  # timesteps of an environment that has no limit itself
TILE = 4  # pixels of a cell of MiniGrid: four by four cells are a patch
PARTIAL = 0.75  # τ where only a part of the world is seen: the most probable action alone turns left and right for ever

Expert = Callable[[Any], Any]  # an action for the state that the environment is in; the argument is what was done last, at first None


@dataclass(frozen=True)
class Setup:
    """What an environment needs beside its name."""

    package: str = "gymnasium"  # that registers it
    extra: str = "gato"
    pixels: Pixels = field(default_factory=Pixels)
    wrap: Callable[[Any], Any] = lambda env: env
    expert: Callable[[Any], Expert] | None = None  # made anew for every episode
    mistaken: Callable[[Any, np.random.Generator], Iterator[Any] | None] | None = None  # what an expert with another goal does from here on
    scored: int = 100
    goal: bool = False
    tau: float = 0.0


class LastFrames(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Grey pictures of this moment and the two before it, as three channels: a patch then shows how its ball moves. At first all are alike."""

    def __init__(self, env: "gymnasium.Env[Any, Any]") -> None:
        super().__init__(env)
        assert env.observation_space.shape is not None
        self.observation_space = gymnasium.spaces.Box(0, 255, (*env.observation_space.shape[:2], 3), np.uint8)
        self.frames: list[Any] = []

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        observation, info = super().reset(**options)
        self.frames = [self._grey(observation)] * 3
        return np.stack(self.frames, axis=-1), info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = super().step(action)
        self.frames = [self._grey(observation), *self.frames[:2]]
        return np.stack(self.frames, axis=-1), reward, terminated, truncated, info

    @staticmethod
    def _grey(picture: Any) -> Any:
        """The mean of the channels, rounded, in whole numbers: a sum of three is never half-way between two multiples of 3."""
        red, green, blue = (picture[..., i].astype(np.uint16) for i in range(3))
        return ((red + green + blue + 1) // 3).astype(np.uint8)


def _view(env: Any) -> Any:
    from transalg.worlds.minigrid_view import View

    return View(env, TILE)


SETUPS = {  # by the beginning of the name; the longest that fits
    "": Setup(),
    "MiniGrid-": Setup("minigrid", pixels=Pixels(pad=True, background=0), wrap=_view, goal=True, tau=PARTIAL),
    "BabyAI-": Setup("minigrid", pixels=Pixels(pad=True, background=0), wrap=_view, expert=Bot, mistaken=mistaken, goal=True, tau=PARTIAL),
    "ALE/": Setup("ale_py", "atari"),
    "ALE/Pong-v5": Setup(
        "ale_py", "atari", Pixels(crop=(34, 194), size=(48, 48), background=78), LastFrames, expert=PongExpert, scored=5, goal=True
    ),
}


def setup(name: str) -> Setup:
    return SETUPS[max((start for start in SETUPS if name.startswith(start)), key=len)]


class GymnasiumWorld(World):
    """An environment by its name, or one that is made already, whose observations stay as they are. Images are resized to `size`, if given.

    `expert(env)` is called at the beginning of every episode. It makes a function of the last action, which returns the next one; it is called
    in every timestep, also where another action is done than its own.
    """

    def __init__(
        self, env: "str | gymnasium.Env[Any, Any]", *, size: tuple[int, int] | None = None, expert: Callable[[Any], Expert] | None = None
    ) -> None:
        self.name = env if isinstance(env, str) else env.spec.id if env.spec else type(env.unwrapped).__name__
        chosen = setup(self.name)
        self.env: Any = chosen.wrap(_make(env, chosen)) if isinstance(env, str) else env
        pixels = chosen.pixels if isinstance(env, str) else Pixels()
        if size is not None:
            self.name, pixels = f"{self.name}@{size[0]}x{size[1]}", replace(pixels, size=size, pad=False)
        self._observations = convert(self.env.observation_space, pixels, f"{self.name}: observation")
        self._actions = convert(self.env.action_space, pixels, f"{self.name}: action")
        try:
            self.spaces = Spaces(self._observations.space, self._actions.space)
        except ValueError as error:
            raise ValueError(f"{self.name}: {error}") from error
        if size is not None and not any(isinstance(part, Image) for part in leaves(self.spaces.observation).values()):
            raise ValueError(f"{self.name}: expected an observation with an image, which {size[0]}x{size[1]} resizes; got none")
        require_room(self.spaces, f"{self.name}: observation")
        self.limit = (self.env.spec and self.env.spec.max_episode_steps) or LONGEST
        self.scored, self.goal, self.tau = chosen.scored, chosen.goal, chosen.tau
        self._make_expert, self._mistaken = chosen.expert if expert is None else expert, chosen.mistaken
        if self._make_expert is not None:
            self._require_function(self._make_expert)
        self._expert: Expert | None = None
        self._last: Any = None

    def _require_function(self, value: Any) -> None:
        if not callable(value):
            raise ValueError(
                f"{self.name}: expert: expected a function from the environment to a function from the last action to the next one, got {value!r}"
            )

    def _start(self, seed: int) -> Any:
        with self._named("reset"):
            observation, _ = self.env.reset(seed=seed)
        self._expert, self._last = None, None
        return self._checked(observation)

    def _advance(self, action: Any) -> tuple[Any, float, bool]:
        given = self._actions.theirs(action)
        with self._named("step"):
            observation, reward, terminated, truncated, _ = self.env.step(given)
        self._last = given
        return self._checked(observation), float(reward), bool(terminated or truncated)

    @contextmanager
    def _named(self, function: str) -> Iterator[None]:
        """In one line, what an environment raises, which may be anything; and without what it prints, as minigrid does."""
        try:
            with redirect_stdout(io.StringIO()):
                yield
        except Exception as error:
            reason = (str(error).splitlines() or [""])[0]
            raise ValueError(f"{self.name}: its {function} failed: {reason or type(error).__name__}") from error

    def _checked(self, observation: Any) -> Any:
        ours = self._observations.ours(observation)
        flatten(self.spaces.observation, ours, f"{self.name}: observation", bounds=False)
        return ours

    def expert(self) -> Any:
        if self._make_expert is None:
            return super().expert()
        if self._expert is None:
            if self.time != 0:
                raise ValueError(f"{self.name}: expected an expert from the beginning of an episode on, got one later")
            self._expert = self._make_expert(self.env)
            self._require_function(self._expert)
        action = self._expert(self._last)
        try:
            ours = self._actions.ours(action)
            flatten(self.spaces.action, ours, f"{self.name}: the expert's action")
        except TypeError as error:
            raise ValueError(f"{self.name}: the expert's action: expected one of {self.env.action_space}, got {action!r}") from error
        return ours

    def explore(self, rng: np.random.Generator) -> Iterator[Any]:
        """Half of the time an expert with another goal, where there is one, until it has reached that."""
        actions = self._mistaken(self.env, rng) if self._mistaken is not None and rng.random() < 0.5 else None
        return super().explore(rng) if actions is None else map(self._actions.ours, actions)

    def render(self) -> RGB:
        with self._named("render"):
            picture = self.env.render()
        if not isinstance(picture, np.ndarray):
            raise ValueError(f"{self.name}: expected a picture, got {type(picture).__name__}")
        return picture


def _make(name: str, chosen: Setup) -> Any:
    try:
        if chosen.package == "ale_py":
            import ale_py

            ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
            gymnasium.register_envs(ale_py)
        elif chosen.package == "minigrid":
            import minigrid

            gymnasium.register_envs(minigrid)
    except ImportError as error:
        raise ValueError(f"{name}: expected the package {chosen.package}, got none; pip install 'transalg[{chosen.extra}]'") from error
    try:
        with warnings.catch_warnings(), redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            try:
                return gymnasium.make(name, render_mode="rgb_array", disable_env_checker=True)
            except TypeError:  # an environment without pictures
                return gymnasium.make(name, disable_env_checker=True)
    except Exception as error:  # an environment may raise anything
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise ValueError(f"{name}: expected an environment of gymnasium, got none: {reason}") from error
