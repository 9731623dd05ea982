"""Our worlds move as gymnasium's do, step by step, and their experts are experts."""

import itertools
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from transalg.tokenization.modalities import Vocabulary, decode_action, decode_observation, encode_action, encode_observation
from transalg.worlds import rollout, taxi
from transalg.worlds.cartpole import CartPole
from transalg.worlds.pendulum import Pendulum
from transalg.worlds.taxi import Taxi
from transalg.worlds.world import World

gymnasium = pytest.importorskip("gymnasium", reason="gymnasium is not installed; pip install transalg[gato]")
WORLDS = {"CartPole-v1": CartPole, "Pendulum-v1": Pendulum, "Taxi-v4": Taxi}


@pytest.fixture(params=WORLDS)
def both(request: pytest.FixtureRequest) -> tuple[World, Any]:
    return WORLDS[request.param](), gymnasium.make(request.param)


def set_state(world: World, theirs: Any) -> None:
    inner = theirs.unwrapped
    world.state = int(inner.s) if isinstance(world, Taxi) else np.array(inner.state)


@pytest.mark.parametrize("good", [0.0, 0.7, 1.0])
def test_same_state_and_action_same_observation_and_reward(both: tuple[World, Any], good: float) -> None:
    """From random actions to the expert's, until the episode ends for both."""
    world, theirs = both
    for seed in (0, 1):
        observation, rng, done, steps = world.reset(seed), np.random.default_rng(seed), False, 0
        first, _ = theirs.reset(seed=seed)
        assert observation == pytest.approx(first, abs=1e-6), "the same seed begins in the same state"
        while not done:
            set_state(world, theirs)
            action = world.expert() if rng.random() < good else world.random(rng)
            outcome = world.step(action)
            expected, reward, terminated, truncated, _ = theirs.step(action if np.ndim(action) else int(action))
            assert outcome.observation == pytest.approx(expected, rel=1e-5, abs=1e-5)
            assert outcome.reward == pytest.approx(reward, rel=1e-5, abs=1e-5)
            assert outcome.done == (terminated or truncated)
            done, steps = outcome.done, steps + 1
        assert steps <= world.limit == theirs.spec.max_episode_steps


def test_every_transition_of_taxi() -> None:
    table = gymnasium.make("Taxi-v4").unwrapped.P
    for state in range(taxi.STATES):
        for action in range(taxi.ACTIONS):
            ((_, following, reward, ended),) = table[state][action]
            assert taxi.transition(state, action) == (following, reward, ended)


def test_the_spaces_are_theirs(both: tuple[World, Any]) -> None:
    world, theirs = both
    observation, action = world.spaces.observation, world.spaces.action
    assert getattr(observation, "shape", ()) == theirs.observation_space.shape and action.shape == theirs.action_space.shape
    for ours, space in ((observation, theirs.observation_space), (action, theirs.action_space)):
        if hasattr(ours, "n"):
            assert ours.n == space.n
        else:
            assert (ours.low, ours.high) == (space.low.min(), space.high.max())


# Experts ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("world", "expert", "random"),
    [(CartPole(), (500, 500), (15, 30)), (Pendulum(), (-175, -120), (-1500, -1000)), (Taxi(), (7, 9), (-850, -700))],
)
def test_experts_are_experts_and_random_actions_are_not(world: World, expert: tuple[int, int], random: tuple[int, int]) -> None:
    for policy, (low, high), count in ((rollout.expert, expert, 25), (rollout.random, random, 25)):
        scores = rollout.returns(world, policy, count, 3, 5)
        assert low <= np.mean(scores) <= high, policy


def test_value_iteration_is_optimal() -> None:
    """The mean return over all starts is the known one."""
    scores = []
    for state in range(taxi.STATES):
        if taxi.decode(state)[2] in (taxi.ABOARD, taxi.decode(state)[3]):
            continue
        total, done = 0, False
        while not done:
            state, reward, done = taxi.transition(state, int(taxi.policy()[state]))
            total += reward
        scores.append(total)
    assert len(scores) == 300 and np.mean(scores) == pytest.approx(7.93, abs=0.01)


def test_a_rollout_is_repeatable_and_marks_random_actions() -> None:
    world = Pendulum()
    one, two, other = (list(rollout.rollout(world, rollout.expert, seed, 0.3)) for seed in (5, 5, 6))
    assert len(one) == 200 and all(np.array_equal(a.action, b.action) and a.explored == b.explored for a, b in zip(one, two, strict=True))
    assert [s.reward for s in one] != [s.reward for s in other]
    assert 30 <= sum(step.explored for step in one) <= 90
    assert not any(step.explored for step in rollout.rollout(world, rollout.expert, 5))


def test_random_actions_last_a_stretch() -> None:
    """The share of random actions is that asked for, whatever the length of their stretches; within one the action stays."""
    world = Pendulum()
    for stretch in (1, 7):
        episodes = [list(rollout.rollout(world, rollout.expert, seed, 0.3, stretch)) for seed in range(30)]
        steps = [step for episode in episodes for step in episode]
        changes = sum(
            after.explored and not (before.explored and np.array_equal(before.action, after.action))
            for episode in episodes
            for before, after in itertools.pairwise(episode)
        )
        explored = sum(step.explored for step in steps)
        assert explored / len(steps) == pytest.approx(0.3, abs=0.05)
        assert explored / changes == pytest.approx(stretch, rel=0.15)


def test_a_stretch_may_end_early() -> None:
    """Where exploring has reached what it was for, the policy acts, and its action is not marked."""

    class Short(Pendulum):
        def explore(self, rng: np.random.Generator) -> Iterator[Any]:
            return iter([np.array([-2.0]), np.array([-1.5])])

    episodes = [list(rollout.rollout(Short(), rollout.expert, seed, 0.4, 20.0)) for seed in range(10)]
    runs = [len(list(run)) for steps in episodes for marked, run in itertools.groupby(step.explored for step in steps) if marked]
    assert Counter(runs).most_common(1)[0][0] == 2 and max(runs) <= 6, "one stretch may follow another at once"
    assert len(runs) > 50, "another begins as often as if the stretch had lasted its time"
    assert {float(step.action[0]) for steps in episodes for step in steps if step.explored} == {-2.0, -1.5}


def test_scores_are_a_share_of_the_way_to_the_expert() -> None:
    assert rollout.normalised(-160, -160, -1275) == 1 and rollout.normalised(-1275, -160, -1275) == 0
    assert rollout.normalised(50, 100, 0) == 0.5
    with pytest.raises(ValueError, match="scores: expected an expert that is better than random actions, got 1 for both"):
        rollout.normalised(1, 1, 1)


@pytest.mark.parametrize("world", [CartPole(), Pendulum(), Taxi()])
def test_pictures(world: World) -> None:
    world.reset(0)
    before = world.render()
    world.step(world.expert())
    for _ in range(5):
        world.step(world.expert())
    after = world.render()
    assert before.dtype == np.uint8 and before.shape == after.shape and before.shape[2] == 3 and (before != after).any()


def test_bad_actions() -> None:
    world = Pendulum()
    with pytest.raises(ValueError, match="Pendulum: expected reset before an action"):
        world.step([0.0])
    world.reset(0)
    for action, message in (
        ([2.5], r"Pendulum: action: expected numbers from -2 to 2, got 2\.5"),
        ([np.nan], "Pendulum: action: expected numbers, got NaN"),
        (0.0, r"Pendulum: action: expected the shape \(1,\), got \(\)"),
    ):
        with pytest.raises(ValueError, match=message):
            world.step(action)
    world = CartPole()
    world.reset(0)
    with pytest.raises(ValueError, match="CartPole: action: expected integers from 0 to 1, got 2"):
        world.step(2)
    while not world.step(0).done:
        pass
    with pytest.raises(ValueError, match="CartPole: expected reset before an action"):
        world.step(0)


def test_tokens_are_fine_enough_to_act_by() -> None:
    """An expert that sees decoded tokens, and whose actions become tokens, is still one."""
    vocabulary = Vocabulary(N_text=1031)

    def through_tokens(world: World, observation: Any, rng: np.random.Generator) -> Any:
        seen = decode_observation(
            world.spaces.observation, encode_observation(world.spaces, observation, vocabulary).part(0, -1), vocabulary
        )
        state = world.state
        world.state = seen.astype(float) if isinstance(world, CartPole) else np.array([np.arctan2(seen[1], seen[0]), seen[2]])
        action = world.expert()
        world.state = state
        return decode_action(world.spaces.action, encode_action(world.spaces, action, vocabulary).ids, vocabulary)

    for world in (CartPole(), Pendulum()):
        plain, tokens = (rollout.returns(world, policy, 1, 3, 5) for policy in (rollout.expert, through_tokens))
        assert tokens == pytest.approx(plain, abs=15), world.name
