"""transalg gato: episodes from the command line."""

import json
from pathlib import Path
from typing import Any

import pytest

from transalg.data.episodes import Episodes


def test_record_and_show(transalg: Any, tmp_path: Path) -> None:
    folder = tmp_path / "episodes" / "taxi"
    arguments = ("--episodes", "20", "--noise", "0.1", "--seed", "3", "--scored", "11", "--valid", "0.1")
    status, out, err = transalg("gato", "record", "Taxi", "--out", str(folder), *arguments)
    assert status == 0 and err == "" and f"Wrote {folder}: 20 episodes of Taxi" in out.replace("\n", "") and "of random actions -7" in out
    episodes = Episodes(folder)
    assert len(episodes) == 20 and len(episodes.members("valid")) == 2
    status, out, _ = transalg("gato", "show", str(folder))
    assert status == 0 and "20 episodes of Taxi" in out and "valid: 2 episodes" in out and "observation: Discrete(n=500" in out
    assert f"expert {episodes.expert:.4g}, random actions -7" in out


def test_json(transalg: Any, tmp_path: Path) -> None:
    status, out, _ = transalg("gato", "record", "pydocs", "--out", str(tmp_path / "p"), "--json")
    recorded = json.loads(out)
    assert (
        status == 0 and recorded["name"] == "pydocs" and recorded["episodes"] == len(Episodes(tmp_path / "p")) and recorded["mean"] is None
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["record", "CartPole", "--out", "full"], "full: expected a new or an empty folder, got one with files; choose another"),
        (["record", "CartPole", "--out", "full/file"], "file: expected a new or an empty folder, got a file; choose another"),
        (["record", "CartPole", "--out", "full/file/x", "--scored", "1"], "full/file/x: cannot be written: "),
        (["record", "Nothing-v0", "--out", "a"], "Nothing-v0: expected "),
        (["record", "CartPole", "--out", "a", "--noise", "2"], "noise: expected a number in [0, 1), got 2.0"),
        (["record", "CartPole", "--out", "a", "--episodes", "0"], "--episodes: expected a whole number from 1 to 1,000,000, got 0"),
        (["record", "glyphs", "--out", "a", "--noise", "0.1"], "--noise: expected a world with actions, got glyphs"),
        (["record", "pydocs", "--out", "a", "--episodes", "3"], "--episodes: expected a world with actions, got pydocs"),
        (["record", "Taxi-v4@80", "--out", "a"], "Taxi-v4@80: expected "),
        (["show", "none"], "none: expected a folder of episodes, got none"),
        (["show", "full"], "full: expected a folder of episodes, with meta.json, got one without"),
    ],
)
def test_errors(transalg: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str) -> None:
    monkeypatch.chdir(tmp_path)
    Path("full").mkdir()
    Path("full/file").touch()
    status, out, err = transalg("gato", *arguments)
    assert (status, out) == (2, "") and message in err and err.count("\n") == 1
    assert sorted(tmp_path.rglob("*")) == [tmp_path / "full", tmp_path / "full/file"]
