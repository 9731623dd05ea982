"""Episode files: what is written is what is read, lazily; what is broken is said; rows follow from their number."""

import json
import os
import re
import resource
from collections import Counter
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from transalg.data import recorder as recording
from transalg.data.episode_batches import token_count
from transalg.data.episode_rows import EpisodeRows, last_timesteps, timesteps_from, token_counts
from transalg.data.episodes import Episodes
from transalg.data.recorder import Recorder
from transalg.hyper.modalities import ACT, LOCAL, OBS, SEP, TEXT
from transalg.tokenization import train
from transalg.tokenization.modalities import Box, Dictionary, Discrete, Image, Spaces, Text, Vocabulary, concatenate, timestep

TOKENIZER = train("char", ["go to the red ball", "abcdefghijklmnopqrstuvwxyz"])
VOCABULARY = Vocabulary.of(TOKENIZER)
SPACES = Spaces(
    Dictionary({"mission": Text(), "camera": Image(16, 32, 1), "body": Dictionary({"speed": Box(-2, 2, (3,))})}),
    Dictionary({"gear": Discrete(5), "steer": Box(-1, 1, (2,))}),
)
LENGTHS = (7, 1, 5)


def values(episode: int, t: int) -> tuple[Any, Any]:
    rng = np.random.default_rng([episode, t])
    camera = rng.integers(0, 256, (16, 32, 1), np.uint8)
    speed = rng.uniform(-2, 2, 3).astype(np.float32)
    observation = {"mission": "go" if t < 3 else "the red ball", "camera": camera, "body": {"speed": speed}}
    return observation, {"gear": (episode + t) % 5, "steer": rng.uniform(-1, 1, 2).astype(np.float32)}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with Recorder(tmp_path / "a", name="car", observation=SPACES.observation, action=SPACES.action, expert=11.0, random=-3.0) as recorder:
        for episode, length in enumerate(LENGTHS):
            for t in range(length):
                recorder.add(*values(episode, t), reward=0.5, explored=t % 3 == 1)
            recorder.end(split="valid" if episode == 1 else "train")
    return tmp_path / "a"


def whole(episode: int, first: int = 0, last: int | None = None) -> Any:
    steps = range(*slice(first, last).indices(LENGTHS[episode]))
    return concatenate(timestep(SPACES, *values(episode, t), VOCABULARY, explored=t % 3 == 1) for t in steps)


# Writing and reading ---------------------------------------------------------------------------------------------------


def test_the_tokens_of_a_folder(folder: Path) -> None:
    """A mission counts in every timestep that shows it."""
    episodes = Episodes(folder)
    assert token_count(episodes, VOCABULARY) == len(whole(0)) + len(whole(2)) and token_count(episodes, VOCABULARY, "valid") == len(
        whole(1)
    )


def test_what_is_written_is_read(folder: Path) -> None:
    from transalg.tokenization.modalities import timesteps

    episodes = Episodes(folder)
    assert (episodes.name, episodes.spaces, episodes.expert, episodes.random) == ("car", SPACES, 11.0, -3.0)
    assert [episode.steps for episode in episodes.episodes] == list(LENGTHS)
    assert [episode.score for episode in episodes.episodes] == [3.5, 0.5, 2.5]
    assert episodes.splits == ("train", "valid") and episodes.members("train").tolist() == [0, 2]
    for episode in range(3):
        assert timesteps(SPACES, episodes.steps(episode), VOCABULARY) == whole(episode)
    assert timesteps(SPACES, episodes.steps(0, 2, 5), VOCABULARY) == whole(0, 2, 5), "across the change of the mission"
    assert episodes.texts(0) == ["go", "the red ball"]
    with pytest.raises(ValueError, match="expected episodes of the split test, got train, valid"):
        episodes.members("test")


def test_many_files(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "FULL", 1)
    with Recorder(tmp_path / "b", name="b", observation=Discrete(3), action=Discrete(2)) as recorder:
        for episode in range(3):
            for t in range(episode + 1):
                recorder.add(t, 1)
            recorder.end()
    assert sorted(path.name for path in (tmp_path / "b").glob("*.safetensors")) == [f"0000{i}.safetensors" for i in range(3)]
    episodes = Episodes(tmp_path / "b")
    assert [episodes.steps(i).observation[""].tolist() for i in range(3)] == [[0], [0, 1], [0, 1, 2]]
    assert oct((tmp_path / "b/00000.safetensors").stat().st_mode)[-3:] == oct((tmp_path / "b/meta.json").stat().st_mode)[-3:]


def test_an_episode_that_is_not_ended_ends_with_the_block(tmp_path: Path) -> None:
    with Recorder(tmp_path / "b", name="b", observation=Discrete(3), action=Discrete(2)) as recorder:
        for t in range(3):
            recorder.add(t, t % 2)
    assert len(Episodes(tmp_path / "b")) == 1


def test_nothing_is_left_of_what_fails(tmp_path: Path) -> None:
    def record(*steps: Any, keep: bool = True) -> None:
        with Recorder(tmp_path / "b", name="b", observation=Box(-1, 1, (2,)), action=Discrete(2)) as recorder:
            for observation, action, *reward in steps:
                recorder.add(observation, action, reward=(*reward, 0.0)[0])
            recorder.end(keep=keep)

    for steps, keep, message in (
        ([([0, 0], 0), ([0, np.nan], 1)], True, "observation: expected numbers, got NaN"),
        ([([0, 0], 2)], True, "action: expected integers from 0 to 1, got 2"),
        ([([0, 0], 0, np.nan)], True, "reward: expected a number, got nan"),
        ([], True, "episode: expected at least one timestep, got none"),
        ([([0, 0], 1)], False, "b: expected at least one episode, got none; nothing is written"),
    ):
        with pytest.raises(ValueError, match=message):
            record(*steps, keep=keep)
        assert not list(tmp_path.iterdir())
    record(([0, 0], 1))
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(ValueError, match="b: expected a new or an empty folder, got one with files; choose another"):
        record(([0, 0], 0))
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


# Bad files -------------------------------------------------------------------------------------------------------------


def edit(folder: Path, name: str, /, **changes: Any) -> None:
    """Change keys of meta.json, or of the first line of episodes.jsonl; None removes one."""
    first, *more = (folder / name).read_text().split("\n") if name.endswith("l") else [(folder / name).read_text()]
    value = {key: each for key, each in (json.loads(first) | changes).items() if each is not None}
    (folder / name).write_text("\n".join([json.dumps(value), *more]))


def tensors(folder: Path, **changes: Any) -> None:
    path = folder / "00000.safetensors"
    found = load_file(path) | {key.replace("__", "/"): each for key, each in changes.items()}
    save_file({key: each for key, each in found.items() if each is not None}, path)


def cut(folder: Path) -> None:
    path = folder / "00000.safetensors"
    path.write_bytes(path.read_bytes()[:-100])


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (cut, "00000.safetensors: not a complete safetensors file: .*; record it again"),
        (lambda f: (f / "00000.safetensors").unlink(), "00000.safetensors: expected a file in .*, got none; record it again"),
        (lambda f: (f / "meta.json").unlink(), "a: expected a folder of episodes, with meta.json, got one without"),
        (lambda f: (f / "meta.json").write_text("{"), "meta.json: not JSON"),
        (lambda f: (f / "meta.json").write_bytes(b"\xff"), "meta.json: expected UTF-8, got the byte 0xff"),
        (lambda f: (f / "episodes.jsonl").unlink(), "episodes.jsonl: cannot be read: No such file"),
        (lambda f: (f / "episodes.jsonl").write_text(""), "episodes.jsonl: expected at least one episode, got none"),
        (lambda f: (f / "episodes.jsonl").write_text("3\n"), "episodes.jsonl:1: expected a JSON object, got 3"),
        (lambda f: edit(f, "meta.json", format=7), "meta.json: expected format 1, got 7"),
        (lambda f: edit(f, "meta.json", name=3), "meta.json: expected a text as name, got 3"),
        (lambda f: edit(f, "meta.json", expert="good"), "meta.json: expected a number or null as expert, got 'good'"),
        (lambda f: edit(f, "meta.json", random=float("nan")), "meta.json: expected a number or null as random, got nan"),
        (lambda f: edit(f, "meta.json", expert=-3.0), "meta.json: expected an expert that is better than random actions, got -3 and -3"),
        (lambda f: (f / "episodes.jsonl").unlink() or os.mkfifo(f / "episodes.jsonl"), "episodes.jsonl: expected a file, got none"),
        (lambda f: edit(f, "meta.json", action=None), "meta.json: action: expected a kind, one of box"),
        (lambda f: edit(f, "meta.json", observation={"kind": "image", "h": 7, "w": 16}), "meta.json: image: expected a height"),
        (lambda f: edit(f, "episodes.jsonl", steps=None), "episodes.jsonl:1: expected a whole number as steps, got None"),
        (lambda f: edit(f, "episodes.jsonl", file=3), "episodes.jsonl:1: expected a text as file, got 3"),
        (lambda f: edit(f, "episodes.jsonl", file="../x"), r"x: expected a file in .*, got none"),
        (lambda f: edit(f, "episodes.jsonl", steps=99), "episodes.jsonl:1: expected rows of 00000.safetensors, which has 13, got 0 to 99"),
        (lambda f: edit(f, "episodes.jsonl", **{"return": "x"}), "episodes.jsonl:1: expected a number or null as return"),
        (lambda f: edit(f, "episodes.jsonl", split=5), "episodes.jsonl:1: expected a text as split"),
        (lambda f: edit(f, "episodes.jsonl", texts=None), "episodes.jsonl:1: expected texts of observation/mission, .*, got None"),
        (
            lambda f: edit(f, "episodes.jsonl", texts={"observation/mission": [[0, "a"], [0, "b"]]}),
            r"episodes.jsonl:1: expected texts of observation/mission in the order of timesteps, got \[0, 0\]",
        ),
        (
            lambda f: tensors(f, explored=np.array(True)),
            r"00000.safetensors: explored: expected a value for each timestep, got the shape \(\); record it again",
        ),
        (lambda f: tensors(f, explored=None), "00000.safetensors: expected the tensor explored, got action/gear, "),
        (lambda f: tensors(f, action__gear=None), "00000.safetensors: expected the tensor action/gear, got none"),
        (
            lambda f: tensors(f, action__gear=np.zeros((13, 2), np.uint8)),
            r"00000.safetensors: action/gear: expected the shape \(13,\), got \(13, 2\); record it again",
        ),
        (
            lambda f: tensors(f, observation__camera=np.zeros((13, 16, 32, 1), np.float32)),
            "00000.safetensors: observation/camera: expected U8, got F32",
        ),
    ],
)
def test_a_broken_folder_is_refused_when_it_is_opened(folder: Path, damage: Any, message: str) -> None:
    damage(folder)
    with pytest.raises(ValueError, match=message) as refusal:
        Episodes(folder)
    assert "\n" not in str(refusal.value)


def test_broken_values_are_refused_when_a_folder_is_opened(folder: Path) -> None:
    tensors(folder, action__gear=np.full(13, 5, np.int32))
    with pytest.raises(ValueError, match="action/gear of episode 1: expected integers from 0 to 4, got 5 to 5; record it again"):
        Episodes(folder)
    tensors(folder, action__gear=np.zeros(13, np.int64), observation__body__speed=np.full((13, 3), np.nan, np.float16))
    with pytest.raises(ValueError, match="observation/body/speed of episode 1: expected numbers, got NaN; record it again"):
        Episodes(folder)
    tensors(folder, observation__body__speed=np.full((13, 3), 9, np.float32), action__steer=np.full((13, 2), 1.5, np.float32))
    with pytest.raises(ValueError, match=r"action/steer of episode 1: expected actions from -1 to 1, got 1.5 to 1.5; record it again"):
        Episodes(folder)
    tensors(folder, action__steer=np.ones((13, 2), np.float32))
    assert (Episodes(folder).steps(2).observation["body/speed"] == 9).all(), "what is seen may be anything"


def test_bytes_and_fractions_are_the_same_picture(tmp_path: Path) -> None:
    """Frames of both sorts in one file: each as it is."""
    frame = np.random.default_rng(3).integers(0, 256, (16, 16, 3)).astype(np.uint8)
    with Recorder(tmp_path / "b", name="b", observation=Image(16, 16), action=Discrete(2)) as recorder:
        recorder.add(frame, 0)
        recorder.add(frame / 255, 1)
    images = Episodes(tmp_path / "b").steps(0).observation[""]
    assert (images[0] == frame).all() and (images[1] == frame).all()


def test_a_recorder_keeps_what_it_was_given(tmp_path: Path) -> None:
    """Though the caller draws its next frame into the same array."""
    frame, speed = np.zeros((16, 16, 1), np.uint8), np.zeros(3, np.float32)
    space = Dictionary({"camera": Image(16, 16, 1), "speed": Box(-9, 9, (3,))})
    with Recorder(tmp_path / "b", name="b", observation=space, action=Discrete(2)) as recorder:
        for t in range(5):
            frame[...], speed[...] = 40 * t, t
            recorder.add({"camera": frame, "speed": speed}, 0)
    steps = Episodes(tmp_path / "b").steps(0)
    assert steps.observation["camera"][:, 0, 0, 0].tolist() == [0, 40, 80, 120, 160]
    assert steps.observation["speed"][:, 1].tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize(("low", "high"), [(-0.7, 0.7), (0.1, 0.3), (None, None)])
def test_actions_may_stand_at_their_bounds_in_any_floats(tmp_path: Path, kind: Any, low: float | None, high: float | None) -> None:
    """And never beyond ±256, which no bin reaches, whatever their space says."""
    bounds = (-inf, inf) if low is None else (low, high)
    with Recorder(tmp_path / "b", name="b", observation=Discrete(2), action=Box(*bounds, (2,))) as recorder:
        for _ in range(3):
            recorder.add(0, [0.2, 0.2])
    ends = (-256, 256) if low is None else (low, high)
    tensors(tmp_path / "b", action=np.array([ends] * 3, kind))
    assert Episodes(tmp_path / "b").steps(0).action[""].dtype == kind
    for beyond in (2 * max(ends), inf):
        tensors(tmp_path / "b", action=np.full((3, 2), beyond, kind))
        with pytest.raises(
            ValueError, match=rf"action of episode 1: expected actions from {ends[0]:g} to {ends[1]:g}, got .*; record it again"
        ):
            Episodes(tmp_path / "b")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": 5}, "meta: expected a text as name, got 5"),
        ({"expert": "x"}, "meta: expected a number or null as expert, got 'x'"),
        ({"expert": float("nan")}, "meta: expected a number or null as expert, got nan"),
        ({"expert": 0.0, "random": 1.0}, "meta: expected an expert that is better than random actions, got 0 and 1"),
        ({"observation": Image(16 * 27, 16 * 19)}, "observation: expected at most 512 tokens in a timestep, got 513; leave parts out"),
        (
            {"action": Box(-1000, 1000)},
            "action: expected numbers from -256 to 256, as far as the bins reach, got -1000 to 1000; scale them",
        ),
    ],
)
def test_a_recorder_refuses_what_could_not_be_opened(tmp_path: Path, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        Recorder(tmp_path / "b", **{"name": "b", "observation": Discrete(3), "action": Discrete(2), **arguments})


def test_a_recorder_on_a_full_disk_leaves_nothing(tmp_path: Path) -> None:
    def record() -> None:
        with Recorder(tmp_path / "b", name="b", observation=Box(-1, 1, (500,)), action=Discrete(2)) as recorder:
            for _ in range(20):
                recorder.add(np.zeros(500), 0)

    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, limit[1]))
    try:
        with pytest.raises(ValueError, match="b: cannot be written: "):
            record()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert not list(tmp_path.iterdir())


def test_a_recorder_refuses_a_timestep(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "b", name="b", observation=Discrete(3), action=Box())
    for reward in (None, "x", inf):
        with pytest.raises(ValueError, match="reward: expected a number"):
            recorder.add(0, 0.5, reward=reward)
    for action in (300.0, -inf):
        with pytest.raises(ValueError, match="action: expected numbers from -256 to 256"):
            recorder.add(0, action)


def test_no_folder(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="none: expected a folder of episodes, got none"):
        Episodes(tmp_path / "none")
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match="file: expected a folder of episodes, got a file"):
        Episodes(tmp_path / "file")


def test_other_line_ends_inside_of_a_text(tmp_path: Path) -> None:
    text = "one\u2028two\nthree\x85"
    with Recorder(tmp_path / "b", name="b", observation=Dictionary(), action=Text()) as recorder:
        recorder.add({}, text)
    assert Episodes(tmp_path / "b").texts(0) == [text]


# Rows ------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def counting(tmp_path: Path) -> Path:
    """Five episodes whose observation and action say the episode and the timestep: three tokens each."""
    with Recorder(tmp_path / "c", name="c", observation=Discrete(100), action=Discrete(100)) as recorder:
        for episode, length in enumerate((31, 7, 13, 1, 19)):
            for t in range(length):
                recorder.add(episode, t)
            recorder.end(split="valid" if episode == 4 else "train")
    return tmp_path / "c"


def read(s: Any) -> list[tuple[int, int]]:
    """(episode, timestep) of every timestep."""
    assert s.kind.reshape(-1, 3)[:, 1].tolist() == [SEP] * (len(s) // 3)
    return [(one, t) for one, _, t in s.ids.reshape(-1, 3).tolist()]


def test_rows_are_parts_of_episodes_from_every_timestep(counting: Path) -> None:
    rows = EpisodeRows((Episodes(counting),), VOCABULARY, 17, prompts=0.0)
    starts = Counter()
    for n in range(2000):
        steps = read(rows.row(0, n).sequence)
        (episode, first), *_ = steps
        end = {0: 31, 1: 7, 2: 13, 3: 1}[episode]
        assert steps == [(episode, t) for t in range(first, min(first + 5, end))], "as many timesteps as fit, in order"
        starts[episode, first] += 1
    (*first, fourth) = starts.most_common(4)
    assert len(starts) == 52 and all(start == 0 for (_, start), _ in first), (
        "every timestep begins a row, the first of an episode most often"
    )
    assert fourth[1] < 3 * 2000 / 52 < 2 * min(count for _, count in first)


def test_every_timestep_is_read_whatever_its_texts(tmp_path: Path) -> None:
    """Though texts take more room than the rest: one in the middle at most three times as often as the last, which no later one has in its row."""
    with Recorder(tmp_path / "d", name="d", observation=Dictionary({"t": Discrete(31), "text": Text()}), action=Discrete(2)) as recorder:
        for episode in range(3):
            for t in range(23):
                recorder.add({"t": t, "text": "go to the red ball" if episode else "go"}, 1)
            recorder.end()
    rows = EpisodeRows((Episodes(tmp_path / "d"),), VOCABULARY, 101, prompts=0.25)
    seen = Counter[int]()
    for n in range(1500):
        s = rows.row(0, n).sequence
        seen.update(s.ids[s.kind == OBS].tolist())
    assert set(seen) == set(range(23)) and min(seen.values()) > max(seen.values()) / 3


def test_a_timestep_that_has_no_room_after_a_prompt_is_read_without_one(tmp_path: Path) -> None:
    """The timestep that is drawn is always in its row, wherever in it."""
    with Recorder(tmp_path / "d", name="d", observation=Dictionary({"t": Discrete(31), "text": Text()}), action=Discrete(2)) as recorder:
        for episode in range(2):
            for t in range(11):
                recorder.add({"t": 11 * episode + t, "text": "a" * 19 if t == 4 else "a"}, 1)
            recorder.end()
    rows, seen, places = EpisodeRows((Episodes(tmp_path / "d"),), VOCABULARY, 29, prompts=1.0), Counter[int](), Counter[int]()
    for n in range(1100):
        s = rows.row(0, n).sequence
        times = s.ids[s.kind == OBS].tolist()
        seen.update(times)
        if len(times) > 1 and 7 in times:
            places[times.index(7)] += 1
    assert min(seen[4], seen[15]) > 1100 / 22 / 2, "about as often as it is drawn"
    assert len(places) >= 3


def test_a_quarter_of_the_rows_has_a_prompt_of_another_episode(counting: Path) -> None:
    rows = EpisodeRows((Episodes(counting),), VOCABULARY, 29)
    lengths, kinds = {0: 31, 1: 7, 2: 13, 3: 1}, Counter()
    for n in range(2000):
        steps = read(rows.row(1, n).sequence)
        assert 3 * len(steps) <= 29
        border = next((i for i in range(1, len(steps)) if steps[i][0] != steps[0][0]), None)
        if border is None:
            kinds["none"] += 1
            continue
        prompt, segment = steps[:border], steps[border:]
        assert len({one for one, _ in segment}) == 1 and len(prompt) <= 4, "at most half of the row"
        if lengths[prompt[0][0]] == 1:
            kinds["all"] += 1
        else:
            kinds["end" if prompt[-1][1] == lengths[prompt[0][0]] - 1 and len(prompt) == 4 else "anywhere"] += 1
    assert 0.2 < 1 - kinds["none"] / 2000 < 0.3
    assert 0.45 < kinds["end"] / (kinds["end"] + kinds["anywhere"]) < 0.65  # what begins anywhere may also be the end


def test_rows_follow_from_seed_and_number(counting: Path, folder: Path) -> None:
    def made(seed: int, numbers: Any) -> list[Any]:
        rows = EpisodeRows((Episodes(counting), Episodes(folder)), VOCABULARY, 64, (2.0, 1.0))
        return [rows.row(seed, n) for n in numbers]

    first = made(3, range(40))
    assert all(one.task == two.task and one.sequence == two.sequence for one, two in zip(first[17:], made(3, range(17, 40)), strict=True))
    assert any(one.sequence != two.sequence for one, two in zip(first, made(4, range(40)), strict=True))
    single = EpisodeRows((Episodes(counting),), VOCABULARY, 64)
    assert any(single.row(3, n).sequence != single.row(4, n).sequence for n in range(5)), "also of one folder"
    rows = EpisodeRows((Episodes(counting), Episodes(folder)), VOCABULARY, 64, (2.0, 1.0))
    assert all(one.sequence == two.sequence for one, two in zip(rows.batch(3, 2, 5), first[10:15], strict=True))


@pytest.mark.parametrize("weights", [(), (1.0, 1.0), (2.0, 1.0), (9.0, 1.0)])
def test_every_run_of_rows_has_its_share_of_each_folder(counting: Path, weights: tuple[float, ...]) -> None:
    task = Episodes(counting)
    rows = EpisodeRows((task, task), VOCABULARY, 64, weights)
    share = weights[0] / sum(weights) if weights else 0.5
    for start in (0, 17, 100_003):
        count = sum(rows.task(5, n) == 0 for n in range(start, start + 100))
        assert abs(count - 100 * share) <= 2


def test_timesteps_that_fit(folder: Path) -> None:
    """From one on, and the last ones, whatever the length of their texts."""
    task = Episodes(folder)
    starts, ends = (
        [[], *(whole(0, 1, stop).ids.tolist() for stop in range(2, 8))],
        [[], *(whole(0, t).ids.tolist() for t in range(6, -1, -1))],
    )
    for room in range(0, 100, 3):
        assert timesteps_from(task, 0, 1, room, VOCABULARY).ids.tolist() == [each for each in starts if len(each) <= room][-1]
        assert last_timesteps(task, 0, room, VOCABULARY).ids.tolist() == [each for each in ends if len(each) <= room][-1]


def test_rows_with_texts_have_whole_timesteps(folder: Path) -> None:
    rows = EpisodeRows((Episodes(folder),), VOCABULARY, 60)
    for n in range(50):
        s = rows.row(0, n).sequence
        assert 0 < len(s) <= 60 and s.kind[-1] == ACT and len(s.patches) == 2 * (s.kind == SEP).sum()
        assert (s.kind == ACT).sum() == 3 * (s.kind == SEP).sum()


def test_an_episode_of_documents_is_one_document(tmp_path: Path) -> None:
    with Recorder(tmp_path / "d", name="d", observation=Dictionary(), action=Text()) as recorder:
        recorder.add({}, "go")
        recorder.add({}, "the")
        recorder.end()
    with pytest.raises(ValueError, match=r"episodes.jsonl:1: expected one document, an episode of 1 timestep, got 2 timesteps"):
        Episodes(tmp_path / "d")


def test_documents(tmp_path: Path) -> None:
    texts = ["abcdefghijklmnopqrstuvwxyz" * 30, "go to the red ball"]
    with Recorder(tmp_path / "d", name="d", observation=Dictionary(), action=Text()) as recorder:
        for text in texts:
            recorder.add({}, text)
            recorder.end()
    seen = Counter()
    rows = EpisodeRows((Episodes(tmp_path / "d"),), VOCABULARY, 1000)
    ids = [TOKENIZER.encode(text) for text in texts]
    for n in range(100):
        s = rows.row(0, n).sequence
        assert (s.kind == TEXT).all() and s.loss.all() and s.index.tolist() == list(range(len(s))) and len(s) <= LOCAL
        places = [(d, i) for d, each in enumerate(ids) for i in range(len(each)) if each[i : i + len(s)] == s.ids.tolist()]
        assert places
        seen[places[0][0]] += 1
    assert seen[0] > 80 and seen[1], "as likely as long"


def action_of(space: Any) -> Any:
    return 1 if isinstance(space, Discrete) else [0.5, -0.5]


def test_rows_that_cannot_be(counting: Path, folder: Path, tmp_path: Path) -> None:
    task, car = Episodes(counting), Episodes(folder)
    for arguments, message in (
        (((), VOCABULARY, 64), "data: expected at least one folder of episodes, got none"),
        (((task,), VOCABULARY, 2), "ell_max: expected at least 3, a timestep of c, got 2"),
        (((task,), VOCABULARY, 64, (1.0, 2.0)), "weights: expected one for each of 1 folders, got 2"),
        (((task,), VOCABULARY, 64, (0.0,)), r"weights: expected a number in \(0, ∞\), got 0.0"),
        (((task,), VOCABULARY, 64, (), 1.5), r"prompts: expected a number in \[0, 1\], got 1.5"),
        (((car,), VOCABULARY, 8), "ell_max: expected at least 9, a timestep of car, got 8"),
    ):
        with pytest.raises(ValueError, match=message):
            EpisodeRows(*arguments)
    most = max(int(token_counts(car, int(i), VOCABULARY).max()) for i in car.members("train"))
    with pytest.raises(
        ValueError, match=rf"a: episode \d+: expected timesteps of at most ell_max = {most - 1} tokens, got {most} at timestep"
    ):
        EpisodeRows((car,), VOCABULARY, most - 1)
    EpisodeRows((car,), VOCABULARY, most)
    for words, action in (("a" * 513, Discrete(3)), ("a" * 513, Box(-1, 1, (2,)))):
        target = tmp_path / type(action).__name__
        for count in (512, 513):
            with Recorder(target / str(count), name="b", observation=Text(), action=action) as recorder:
                recorder.add("a", action_of(action))
                recorder.add(words[:count], action_of(action))
        EpisodeRows((Episodes(target / "512"),), VOCABULARY, 1000)
        said = "513: episode 1: expected at most 512 tokens of texts, images and values in a timestep, got 513 at timestep 2"
        with pytest.raises(ValueError, match=said):
            EpisodeRows((Episodes(target / "513"),), VOCABULARY, 1000)
    with Recorder(tmp_path / "answers", name="b", observation=Discrete(2), action=Text()) as recorder:
        recorder.add(1, "a" * 510)  # with the observation and eos 512
        recorder.end()
        recorder.add(1, "a" * 511)
    with pytest.raises(ValueError, match=r"answers: episode 2: expected at most 512 tokens .*, got 513 at timestep 1"):
        EpisodeRows((Episodes(tmp_path / "answers"),), VOCABULARY, 1000)
    with pytest.raises(ValueError, match="expected episodes of the split test, got train, valid"):
        EpisodeRows((task,), VOCABULARY, 64, split="test")
