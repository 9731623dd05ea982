"""Recording: the expert's episodes, some random actions that are not learned, and what is too bad left out."""

import doctest
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from transalg.data.episodes import Episodes
from transalg.tokenization.spaces import Discrete, Spaces
from transalg.worlds import record
from transalg.worlds.record import ANSWERS, record_answers, record_world
from transalg.worlds.taxi import Taxi, policy
from transalg.worlds.world import RGB, ExpertLostError, World


class Doors(World):
    """Door 1 of 7 gives 1; eleven times."""

    name = "Doors"
    spaces = Spaces(Discrete(2), Discrete(7))
    limit = 11

    def _start(self, seed: int) -> int:
        return 0

    def _advance(self, action: Any) -> tuple[int, float, bool]:
        return 1, float(action == 1), False

    def render(self) -> RGB:
        return np.zeros((8, 8, 3), np.uint8)

    def expert(self) -> int:
        return 1


class NoExpert(Doors):
    def expert(self) -> int:
        return World.expert(self)


class Useless(Doors):
    def expert(self) -> int:
        return 2


class Forgetful(Doors):
    """In three of seven episodes its expert is lost at once, in another later."""

    def _start(self, seed: int) -> int:
        self.luck = seed % 7
        return 0

    def expert(self) -> int:
        if self.luck < 3 or (self.luck == 3 and self.time == 5):
            raise ExpertLostError("lost")
        return 1


def test_an_expert_that_is_lost_costs_its_episode_alone(tmp_path: Path) -> None:
    recorded = record_world(Forgetful(), tmp_path / "a", episodes=13, scored=100)
    assert recorded.episodes == 13 and recorded.dropped > 0 and recorded.timesteps == 13 * 11
    assert 4 < recorded.expert < 7, "as often as it is lost it scores less"


def test_examples_in_docstrings() -> None:
    assert doctest.testmod(record) == (0, 1)


def test_only_good_episodes_are_kept(tmp_path: Path) -> None:
    recorded = record_world(Doors(), tmp_path / "a", episodes=31, noise=0.2, scored=50, seed=3)
    episodes = Episodes(tmp_path / "a")
    assert recorded.episodes == len(episodes) == 31 and recorded.dropped > 10 and recorded.timesteps == 31 * 11
    assert episodes.expert == 11 and 1 < episodes.random < 2.5
    limit = episodes.random + 0.8 * (11 - episodes.random)
    assert all(episode.score >= limit for episode in episodes.episodes) and recorded.mean == np.mean([e.score for e in episodes.episodes])
    assert {10.0, 11.0} == {episode.score for episode in episodes.episodes}
    lower = record_world(Doors(), tmp_path / "b", episodes=31, noise=0.2, scored=50, seed=3, keep=0.5)
    scores = {episode.score for episode in Episodes(tmp_path / "b").episodes}
    assert lower.dropped < recorded.dropped and 1 + 0.5 * 9 <= min(scores) < 9, "another share"


def test_random_actions_are_marked(tmp_path: Path) -> None:
    record_world(Taxi(), tmp_path / "a", episodes=20, noise=0.2, scored=5)
    episodes, marked = Episodes(tmp_path / "a"), 0
    for i in range(20):
        steps = episodes.steps(i)
        wrong = steps.action[""] != policy()[steps.observation[""]]
        assert not (wrong & ~steps.explored).any(), "what is not marked is the expert's"
        marked += int(steps.explored.sum())
    assert marked > 20


def test_the_same_seed_writes_the_same_files(tmp_path: Path) -> None:
    for name, seed in (("a", 5), ("b", 5), ("c", 6)):
        record_world(Taxi(), tmp_path / name, episodes=3, noise=0.1, scored=3, seed=seed)
    files = [{path.name: path.read_bytes() for path in (tmp_path / name).iterdir()} for name in "abc"]
    assert files[0] == files[1] != files[2]


def test_some_episodes_validate(tmp_path: Path) -> None:
    record_world(Doors(), tmp_path / "a", episodes=20, scored=2, valid=0.2)
    assert Episodes(tmp_path / "a").members("valid").tolist() == [4, 9, 14, 19]


def test_prose_and_captions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record.glyphs, "FACES", ("Sans", "Serif-Bold"))
    for name, answers in ANSWERS.items():
        assert record_answers(answers, tmp_path / name, valid=0.1).episodes == len(Episodes(tmp_path / name))
    prose, captions = (Episodes(tmp_path / name) for name in ("pydocs", "glyphs"))
    assert prose.spaces.document and 5 <= len(prose.members("valid")) <= 9 and captions.splits == ("train", "valid", "pair", "face")
    steps = captions.steps(0)
    assert steps.action[""] == ["LATIN CAPITAL LETTER A"] and steps.observation[""].shape == (1, 32, 32, 1)


def test_what_cannot_be_recorded(tmp_path: Path) -> None:
    for world, options, message in (
        (NoExpert(), {}, "Doors: expected a world with an expert, got one without"),
        (Useless(), {}, "Doors: expected an expert that is better than random actions, got 0 and 1"),
        (Doors(), {"noise": 0.4}, "Doors: [1-6] of 70 episodes reached 80 % of the expert, .*; expected 7, try less --noise or --least"),
        (Doors(), {"noise": 0.97}, "Doors: 0 of 30 episodes reached 80 % of the expert, .*; expected 7, try less --noise or --least"),
        (Doors(), {"noise": 1.0}, r"noise: expected a number in \[0, 1\), got 1.0"),
        (Doors(), {"episodes": 0}, "episodes: expected 1 or more, got 0"),
        (Doors(), {"valid": -1.0}, r"valid: expected a number in \[0, 1\), got -1.0"),
    ):
        with pytest.raises(ValueError, match=message):
            record_world(world, tmp_path / "a", **({"episodes": 7, "scored": 20} | options))
        assert not list(tmp_path.iterdir())
