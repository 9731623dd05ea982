"""Environments of gymnasium as worlds: their spaces become ours, their values come and go, and what is not supported is said."""

import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from transalg.data.episodes import Episodes
from transalg.tokenization.spaces import Box, Dictionary, Discrete, Image, Text, flatten
from transalg.worlds import make as making
from transalg.worlds.make import make
from transalg.worlds.pong import BALL_X, BALL_Y, PADDLE_Y, PongExpert, bounced
from transalg.worlds.record import record_world
from transalg.worlds.rollout import expert, rollout
from transalg.worlds.world import ExpertLostError

gymnasium = pytest.importorskip("gymnasium", reason="gymnasium is not installed; pip install transalg[gato]")

from gymnasium import spaces as theirs  # noqa: E402

from transalg.worlds.adapter import GymnasiumWorld, LastFrames  # noqa: E402
from transalg.worlds.babyai import Bot, mistaken  # noqa: E402
from transalg.worlds.conversion import Pixels, convert  # noqa: E402

PLAIN = Pixels()


class Env(gymnasium.Env):
    """An environment with any spaces; its observations are drawn, and its actions remembered."""

    def __init__(self, observation: Any = None, action: Any = None, observed: Any = None) -> None:
        self.observation_space = observation or theirs.Discrete(3)
        self.action_space = action or theirs.Discrete(2)
        self.observed, self.actions = observed, []

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        self.observation_space.seed(seed)
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.actions.append(action)
        return self.observation_space.sample() if self.observed is None else self.observed, 1.0, len(self.actions) >= 7, False, {}


@pytest.mark.parametrize(
    ("space", "expected"),
    [
        (theirs.Discrete(5), Discrete(5)),
        (theirs.Discrete(5, start=-2), Discrete(5)),
        (theirs.Box(-2, 3, (2, 3)), Box(-2, 3, (2, 3))),
        (theirs.Box(np.array([-1, -np.inf], np.float32), np.array([1, 7], np.float32)), Box(-np.inf, 7, (2,))),
        (theirs.Box(0, 9, (2,), np.int64), Box(0, 9, (2,))),
        (theirs.Box(0, 255, (32, 48, 3), np.uint8), Image(32, 48, 3)),
        (theirs.Box(0, 255, (32, 48), np.uint8), Image(32, 48, 1)),
        (theirs.Box(0, 255, (128,), np.uint8), Box(0, 255, (128,))),
        (theirs.Text(7), Text()),
        (theirs.MultiBinary((2, 3)), Discrete(2, (2, 3))),
        (theirs.MultiDiscrete([5, 5, 5]), Discrete(5, (3,))),
        (theirs.MultiDiscrete([[5, 2]]), Dictionary({"0": Discrete(5), "1": Discrete(2)})),
        (theirs.Tuple([theirs.Discrete(5), theirs.Text(3)]), Dictionary({"0": Discrete(5), "1": Text()})),
        (
            theirs.Dict(b=theirs.Discrete(5), a=theirs.Dict(c=theirs.Box(-1, 1))),
            Dictionary({"a": Dictionary({"c": Box(-1, 1, (1,))}), "b": Discrete(5)}),
        ),
        (
            theirs.Tuple([theirs.Discrete(n) for n in range(2, 13)]),
            Dictionary({f"{n - 2:02}": Discrete(n) for n in range(2, 13)}),
        ),
    ],
)
def test_spaces_and_values_there_and_back(space: Any, expected: Any) -> None:
    conversion = convert(space, PLAIN, "x")
    assert conversion.space == expected
    space.seed(3)
    for _ in range(5):
        value = space.sample()
        parts = flatten(expected, conversion.ours(value), "x")
        back = conversion.theirs(conversion.ours(value))
        if isinstance(expected, Image):
            back = back.reshape(space.shape)
        assert space.contains(back)
        assert all(np.array_equal(part, parts[path]) for path, part in flatten(expected, conversion.ours(back), "x").items())


def test_actions_stay_within_the_bounds_of_each_number() -> None:
    """Our box has one low and one high for all of them."""
    space = theirs.Box(np.array([-1, -5], np.float32), np.array([1, 5], np.float32))
    env = Env(action=space)
    world = GymnasiumWorld(env)
    world.reset(0)
    world.step(np.array([4.0, 4.0], np.float32))
    assert env.actions[0].tolist() == [1, 4] and env.actions[0].dtype == np.float32
    whole = convert(theirs.Box(0, 9, (2,), np.int64), PLAIN, "x").theirs(np.array([2.4, 8.7]))
    assert whole.tolist() == [2, 9] and whole.dtype == np.int64


@pytest.mark.parametrize(
    ("env", "message"),
    [
        (Env(theirs.Graph(theirs.Box(-1, 1), None)), "Env: observation: expected box, .* or image, got Graph, which is not supported"),
        (Env(theirs.Dict(a=theirs.Sequence(theirs.Discrete(2)))), "Env: observation/a: expected box, .*, got Sequence"),
        (Env(action=theirs.OneOf([theirs.Discrete(2)])), "Env: action: expected box, .*, got OneOf"),
        (Env(theirs.Discrete(5000)), "Env: observation: discrete: expected a whole number from 1 to 1,024, got 5000"),
        (
            Env(theirs.Box(0, 255, (84, 84, 3), np.uint8)),
            "Env: observation: image: expected a height and a width that 16 divides, got 84×84; resize or pad it, with @80x80 after the name say",
        ),
        (Env(action=theirs.Box(0, 255, (16, 16, 3), np.uint8)), "Env: action: expected discrete or continuous values, or one text"),
        (
            Env(theirs.Box(0, 255, (3, 32, 32), np.uint8)),
            r"Env: observation: expected an image of height × width × 1 or 3 channels, got .*\(3, 32",
        ),
        (Env(theirs.Dict(a=theirs.Box(-1, 1, (0,)))), r"Env: observation/a: expected at least one number, got the shape \(0,\)"),
    ],
)
def test_unsupported_spaces(env: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message) as refusal:
        GymnasiumWorld(env)
    assert "\n" not in str(refusal.value)


def test_bad_observations_and_actions() -> None:
    world = GymnasiumWorld(Env(theirs.Box(-1, 1, (2,)), observed=np.array([0, np.nan])))
    world.reset(0)
    with pytest.raises(ValueError, match="Env: observation: expected numbers, got NaN"):
        world.step(1)
    world = GymnasiumWorld(Env())
    world.reset(0)
    with pytest.raises(ValueError, match="Env: action: expected integers from 0 to 1, got 2"):
        world.step(2)
    with pytest.raises(ValueError, match="Env: expected discrete or continuous actions, got a text"):
        GymnasiumWorld(Env(action=theirs.Text(5))).random(np.random.default_rng(0))
    with pytest.raises(ValueError, match="Env: expected a world with an expert, got one without"):
        world.expert()


def test_an_expert_of_ones_own(tmp_path: Path) -> None:
    """It is told what was done last, be that a random action."""
    told = []

    class Rewarded(Env):
        def step(self, action: Any) -> Any:
            observation, _, ended, *rest = super().step(action)
            return observation, float(action), ended, *rest

        def reset(self, **options: Any) -> Any:
            self.actions = []
            return super().reset(**options)

    def always(env: Any) -> Any:
        def choose(last: Any) -> int:
            told.append((last, env.actions[-1] if env.actions else None))
            return 1

        return choose

    world = GymnasiumWorld(Rewarded(), expert=always)
    record_world(world, tmp_path / "a", episodes=5, noise=0.2, scored=11)
    assert len(Episodes(tmp_path / "a")) == 5 and all(one == two for one, two in told) and (0, 0) in told
    world.reset(0)
    world.step(0)
    with pytest.raises(ValueError, match="Rewarded: expected an expert from the beginning of an episode on, got one later"):
        world.expert()


@pytest.mark.parametrize(("expert", "got"), [(5, "5"), (lambda env: 1, "1"), (lambda env: None, "None")])
def test_an_expert_that_is_no_function(expert: Any, got: str) -> None:
    def acts() -> None:
        world = GymnasiumWorld(Env(), expert=expert)
        world.reset(0)
        world.expert()

    with pytest.raises(ValueError, match=f"Env: expert: expected a function from the environment to a function .*, got {got}$"):
        acts()


@pytest.mark.parametrize("function", ["reset", "step", "render"])
def test_what_an_environment_raises_is_one_line(function: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Any, *words: Any, **options: Any) -> Any:
        raise RuntimeError("no power\nat all")

    monkeypatch.setattr(Env, function, fail)

    def acts() -> None:
        world = GymnasiumWorld(Env())
        world.reset(0)
        world.step(1)
        world.render()

    with pytest.raises(ValueError, match=f"^Env: its {function} failed: no power$"):
        acts()


def test_images_are_cropped_resized_and_padded() -> None:
    picture = np.random.default_rng(0).integers(0, 256, (20, 24, 3), np.uint8)
    assert np.array_equal(Pixels(crop=(2, 18))(picture), picture[2:18])
    padded = Pixels(pad=True)(picture)
    assert padded.shape == (32, 32, 3) and np.array_equal(padded[:20, :24], picture) and not padded[20:].any() and not padded[:, 24:].any()
    half = Pixels(size=(10, 12))(picture)
    assert np.abs(half - picture.reshape(10, 2, 12, 2, 3).mean((1, 3))).max() <= 1


# By name ---------------------------------------------------------------------------------------------------------------


def test_the_last_frames_are_channels_newest_first() -> None:
    """And none of them is of an episode before."""
    env = LastFrames(Env(theirs.Box(0, 255, (5, 7, 3), np.uint8)))
    seen = []
    grey = LastFrames._grey

    def spy(picture: Any) -> Any:
        seen.append(grey(picture))
        return seen[-1]

    env._grey = spy
    for _ in range(2):
        seen.clear()
        first, _ = env.reset(seed=3)
        assert first.shape == (5, 7, 3) == env.observation_space.shape and all(np.array_equal(first[..., i], seen[0]) for i in range(3))
        second, third, fourth = (env.step(0)[0] for _ in range(3))
        assert [np.array_equal(second[..., i], seen[j]) for i, j in enumerate((1, 0, 0))] == [True] * 3
        assert [np.array_equal(third[..., i], seen[j]) for i, j in enumerate((2, 1, 0))] == [True] * 3
        assert [np.array_equal(fourth[..., i], seen[j]) for i, j in enumerate((3, 2, 1))] == [True] * 3
    sums = np.array([[0, 0, 0], [0, 0, 1], [0, 0, 2], [0, 3, 8], [255, 255, 253], [255, 255, 254], [255, 255, 255]], np.uint8)
    assert np.array_equal(grey(sums), np.rint(sums.mean(-1)))


def test_a_background_becomes_0_of_the_pixels_that_a_model_sees() -> None:
    """Nothing overflows: black and white stay apart from it, each by half."""
    picture = np.array([0, 78, 79, 255], np.uint8).reshape(2, 2, 1)
    assert Pixels(background=78)(picture).ravel().tolist() == [89, 128, 128, 216]
    assert Pixels(background=0)(picture).ravel().tolist() == [128, 167, 167, 255]
    assert Pixels(background=255)(picture).ravel().tolist() == [0, 39, 40, 128]
    padded = Pixels(pad=True, background=0)(np.full((3, 3, 1), 9, np.uint8))
    assert padded.shape == (16, 16, 1) and (padded[3:] == 128).all(), "what is padded is background"


def test_environments_by_name() -> None:
    world = make("FrozenLake-v1")
    assert world.spaces.observation == Discrete(16) and world.limit == 100
    world.reset(0)
    assert not world.step(0).done
    assert make("Taxi").name == "Taxi" and make("Taxi-v4").name == "Taxi-v4"
    with pytest.raises(ValueError, match="Nothing-v0: expected an environment of gymnasium, got none: Environment `Nothing` doesn't exist"):
        make("Nothing-v0")
    with pytest.raises(ValueError, match=r"ALE/Nothing-v5: expected (an environment|the package ale_py)"):
        make("ALE/Nothing-v5")


def test_images_are_resized_by_name() -> None:
    pytest.importorskip("minigrid", reason="minigrid is not installed; pip install transalg[gato]")
    world = make("MiniGrid-Empty-5x5-v0@32x48")
    assert world.name == "MiniGrid-Empty-5x5-v0@32x48" and world.reset(0)["image"].shape == (32, 48, 3)
    for size in ("80", "0x16", "axb", ""):
        with pytest.raises(
            ValueError, match=f"MiniGrid-Empty-5x5-v0@{size}: expected a height and a width after @, 80x80 say, got '{size}'"
        ):
            make(f"MiniGrid-Empty-5x5-v0@{size}")
    with pytest.raises(ValueError, match="observation/image: image: expected a height and a width that 16 divides, got 30×48"):
        make("MiniGrid-Empty-5x5-v0@30x48")
    with pytest.raises(ValueError, match="CartPole-v1@32x48: expected an observation with an image, which 32x48 resizes; got none"):
        make("CartPole-v1@32x48")


def test_an_environment_that_is_made_already_is_not_changed() -> None:
    """The picture of a view is for environments by name; else a model would be shown what it has not learned."""
    pytest.importorskip("minigrid", reason="minigrid is not installed; pip install transalg[gato]")
    from transalg.worlds.minigrid_view import View

    env = gymnasium.make("MiniGrid-Empty-5x5-v0")
    with pytest.raises(ValueError, match="observation/image: image: expected a height and a width that 16 divides, got 7×7"):
        GymnasiumWorld(env)
    ours, named = GymnasiumWorld(View(env, 16)), make("MiniGrid-Empty-5x5-v0")
    assert np.array_equal(ours.reset(3)["image"], View(env, 16).reset(seed=3)[0]["image"]), "the pixels as they are"
    assert named.spaces.observation.spaces["image"] == Image(32, 32, 3)
    with pytest.raises(ValueError, match="CartPole-v1: expected minigrid's own observations, with an image of cells, got Box"):
        View(gymnasium.make("CartPole-v1"), 4)


def test_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ale_py", None)
    with pytest.raises(ValueError, match=r"ALE/Pong-v5: expected the package ale_py, got none; pip install 'transalg\[atari\]'"):
        make("ALE/Pong-v5")
    monkeypatch.setitem(sys.modules, "minigrid", None)
    with pytest.raises(ValueError, match=r"BabyAI-GoToLocal-v0: expected the package minigrid, got none; pip install 'transalg\[gato\]'"):
        make("BabyAI-GoToLocal-v0")
    monkeypatch.setitem(sys.modules, "transalg.worlds.adapter", None)
    with pytest.raises(ValueError, match=r"Taxi-v4: expected one of CartPole, Pendulum, Taxi, or .* pip install 'transalg\[gato\]'"):
        make("Taxi-v4")
    assert set(making.WORLDS) == {"CartPole", "Pendulum", "Taxi"}


@pytest.mark.parametrize("name", ["BabyAI-PickupLoc-v0", "BabyAI-UnlockLocal-v0", "MiniGrid-LavaCrossingS9N1-v0"])
@pytest.mark.parametrize("tile", [4, 7])
def test_a_view_is_the_picture_that_minigrid_draws(name: str, tile: int) -> None:
    """Objects of all kinds, what is carried, doors, and cells that are not seen."""
    pytest.importorskip("minigrid", reason="minigrid is not installed; pip install transalg[gato]")
    from minigrid.wrappers import RGBImgPartialObsWrapper

    from transalg.worlds.minigrid_view import View

    theirs, ours = RGBImgPartialObsWrapper(gymnasium.make(name), tile), View(gymnasium.make(name), tile)
    assert ours.observation_space == theirs.observation_space
    rng = np.random.default_rng(2)
    for seed in range(3):
        expected, observation, done = theirs.reset(seed=seed)[0], ours.reset(seed=seed)[0], False
        for _ in range(40):
            assert np.array_equal(observation["image"], expected["image"]) and observation["image"].dtype == np.uint8
            assert observation["mission"] == expected["mission"] and observation["direction"] == expected["direction"]
            if done:
                break
            action = int(rng.choice(7, p=[0.15, 0.1, 0.3, 0.25, 0.05, 0.15, 0]))
            expected = theirs.step(action)[0]
            observation, _, terminated, truncated, _ = ours.step(action)
            done = terminated or truncated


@pytest.mark.parametrize("name", ["BabyAI-GoToLocal-v0", "BabyAI-PickupLoc-v0"])
def test_the_bot_of_babyai_succeeds(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("minigrid", reason="minigrid is not installed; pip install transalg[gato]")
    world = make(name)
    parts = {"direction": Discrete(4), "image": Image(32, 32, 3), "mission": Text()}
    assert world.spaces.observation == Dictionary(parts) and world.spaces.action == Discrete(7)
    for seed in range(5):
        steps = list(rollout(world, expert, seed))
        assert sum(step.reward for step in steps) > 0.7 and " " in steps[0].observation["mission"]
    assert capsys.readouterr().out == "", "minigrid prints; we do not"


def test_the_bot_recovers_from_random_actions_or_its_episode_is_dropped(tmp_path: Path) -> None:
    pytest.importorskip("minigrid", reason="minigrid is not installed; pip install transalg[gato]")
    recorded = record_world(make("BabyAI-GoToLocal-v0"), tmp_path / "a", episodes=10, noise=0.3, scored=5)
    assert recorded.mean > 0.7


def test_exploring_picks_up_an_object_that_is_not_meant() -> None:
    """And the bot, which knows what is meant, drops it again."""
    pytest.importorskip("minigrid", reason="minigrid is not installed; pip install transalg[gato]")
    world = make("BabyAI-PickupLoc-v0")
    carried = 0
    for seed in range(8):
        world.reset(seed)
        inside, rng = world.env.unwrapped, np.random.default_rng(seed)
        mission, things = inside.instrs, {id(thing) for thing in inside.instrs.desc.obj_set}
        stray = mistaken(world.env, rng)
        assert stray is not None and inside.instrs is mission, "the mission is what it was"
        for action in stray:
            if world.step(action).done:
                break
        if inside.carrying is not None:
            carried += 1
            assert id(inside.carrying) not in things and next(stray, None) is None, "that is the end of it"
            assert mistaken(world.env, rng) is None, "who carries an object cannot pick up another"
    assert carried >= 6
    dropped, DROP = 0, 4
    for seed in range(40):
        with suppress(ExpertLostError):
            steps = list(rollout(world, expert, seed, 0.3, 6.0))
            dropped += any(step.action == DROP and not step.explored for step in steps) and sum(step.reward for step in steps) > 0
    assert dropped, "of 40 episodes, some show how to recover"


def test_there_may_be_no_other_object() -> None:
    pytest.importorskip("minigrid", reason="minigrid is not installed; pip install transalg[gato]")
    world = make("BabyAI-GoToObj-v0")
    world.reset(0)
    assert mistaken(world.env, np.random.default_rng(0)) is None
    for seed in range(4):
        assert next(world.explore(np.random.default_rng(seed))) in range(7)


def test_a_bot_that_searches_for_ever_is_lost() -> None:
    pytest.importorskip("minigrid", reason="minigrid is not installed; pip install transalg[gato]")
    world = make("BabyAI-PickupLoc-v0")
    world.reset(0)
    bot = Bot(world.env)

    def replan(last: Any) -> None:
        while True:
            bot.bot._shortest_path(lambda place, cell: False)

    bot.bot.replan = replan
    with pytest.raises(ExpertLostError, match="BabyAIBot: expected a plan, got RuntimeError"):
        bot(None)


class Console:
    """An emulator that has nothing but its memory: a ball, and a paddle that goes on moving after a push."""

    def __init__(self, x: float, y: float, dx: float, dy: float, paddle: float) -> None:
        self.x, self.y, self.dx, self.dy, self.paddle = x, y, dx, dy, paddle
        self.move, self.pushed = 0.0, 0
        self.unwrapped = self.ale = self

    def getRAM(self) -> Any:
        memory = np.zeros(128, np.uint8)
        memory[[BALL_X, BALL_Y, PADDLE_Y]] = round(self.x), round(self.y), round(self.paddle)
        return memory

    def step(self, action: int) -> None:
        push = {0: 0, 2: -1, 3: 1}[action]
        self.move, self.pushed = 0.26 * self.move + 8.8 * push + 8.2 * self.pushed, push
        self.paddle = min(203.0, max(38.0, self.paddle + self.move))
        self.x, self.y = self.x + self.dx, self.y + self.dy
        if not 44 <= self.y <= 207:
            self.y, self.dy = bounced(self.y), -self.dy


def played(console: Console, timesteps: int) -> Console:
    expert, action = PongExpert(console), None
    for _ in range(timesteps):
        action = expert(action)
        console.step(action)
    return console


@pytest.mark.parametrize("paddle", [40, 90, 140, 200])
@pytest.mark.parametrize(("y", "dy"), [(60, 4), (190, -8), (120, 8), (180, 8), (100, 0)])
def test_the_expert_of_pong_is_where_the_ball_arrives(y: float, dy: float, paddle: float) -> None:
    """A tap of the stick moves the paddle by 23 rows, so half of that is as near as it comes; a paddle has 16."""
    end = played(Console(88, y, 4, dy, paddle), 25)
    assert end.x == 188 and abs(end.paddle - (end.y - 3)) <= 12
    waits = played(Console(188, y, -4, dy, paddle), 25)
    assert abs(waits.paddle - 120) <= 12, "in the middle, while the ball goes away"


def test_the_expert_of_pong_moves_along_with_the_ball() -> None:
    """Not to where it will arrive at once: that follows from all of its way, bounces too, which is harder to learn."""
    halfway = played(Console(68, 60, 4, 4, 60), 12)
    assert halfway.y == 108 and abs(halfway.paddle - (108 + 4 * 4 - 4)) <= 16 and halfway.y + (188 - halfway.x) == 180


def test_the_expert_of_pong_rests_where_it_is_right() -> None:
    """Nearer to three rows above the ball than it would be after a tap. And the button does not matter: 4 and 5 push as 2 and 3 do."""
    assert played(Console(88, 100, 4, 0, 87), 15).paddle == pytest.approx(87, abs=1), "and not at 110"
    for paddle, last, expected in ((140, (0, 1), 2), (140, (2, 4), 0), (100, (0, 1), 3), (100, (3, 5), 0)):
        for action in last:  # a push goes on for a while, and is not repeated
            assert PongExpert(Console(188, 100, -4, 0, paddle))(action) == expected


@pytest.fixture
def pong() -> Any:
    pytest.importorskip("ale_py", reason="ale-py is not installed; pip install transalg[atari]")
    return make("ALE/Pong-v5")


@pytest.mark.slow
def test_the_expert_of_pong_wins_points(pong: Any) -> None:
    assert pong.spaces.observation == Image(48, 48, 3) and pong.spaces.action == Discrete(6)
    observation, rewards = pong.reset(0), []
    assert observation.shape == (48, 48, 3) and len(np.unique(observation)) > 2
    while rewards.count(1.0) + rewards.count(-1.0) < 5:
        rewards.append(pong.step(pong.expert()).reward)
    assert sum(rewards) >= 3
