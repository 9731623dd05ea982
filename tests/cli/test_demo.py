"""The demos, with less data and fewer steps."""

from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import Any

import pytest

from transalg.cli import demo
from transalg.data import builtin

pytestmark = pytest.mark.slow


def test_the_demo_trains_uses_and_verifies_three_models(transalg: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, many in (("pydocs", 3), ("dates", 120), ("stdlib", 120)):
        made = builtin.NAMES[name]
        monkeypatch.setitem(builtin.NAMES, name, replace(made, make=lambda made=made, many=many: islice(made.make(), many)))
        sizes = {"H": 2, "d_e": 10} | ({"ell_max": 24} if name == "pydocs" else {})
        short = {"vocab_size": 300} if name == "pydocs" else {}
        monkeypatch.setitem(
            demo.RUNS, name, demo.RUNS[name] | short | {"model": sizes, "train": {"steps": 4, "batch_size": 8, "threads": 1}}
        )
    status, out, err = transalg("demo", "--out", str(tmp_path / "demo"))
    assert (status, err) == (0, "")
    flat = " ".join(out.split())
    for said in (
        "It continues a prompt",
        "› JULY 4TH, 1976 →",
        "are exactly right",
        "by naive Bayes",
        "by always predicting",
        "Now yours:",
    ):
        assert said in flat, said
    assert flat.count("equal") == 3 and "NOT equal" not in flat
    assert (tmp_path / "demo" / "curves.png").read_bytes().startswith(b"\x89PNG")
    assert all((tmp_path / "demo" / name / "best.safetensors").exists() for name in demo.RUNS)


def test_the_demo_of_gato_trains_plays_captions_and_writes(transalg: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And what it proposes at its end is there to be done; another run is not overwritten."""
    from transalg.cli import demo_gato
    from transalg.worlds import builtin as tasks
    from transalg.worlds import glyphs, record
    from transalg.worlds.make import WORLDS
    from transalg.worlds.world import World

    monkeypatch.setattr(glyphs, "FACES", ("Sans", glyphs.HELD_OUT))
    monkeypatch.setattr(glyphs, "VARIANTS", glyphs.VARIANTS[:1])
    some = {split: list(islice((one for one in glyphs.glyphs() if one.split == split), 24)) for split in ("train", "face", "pair")}
    monkeypatch.setattr(glyphs, "glyphs", lambda: chain.from_iterable(some.values()))
    monkeypatch.setattr(record, "pydocs", lambda: islice(builtin.pydocs(), 30))
    monkeypatch.setattr(World, "scored", 3)
    for world in WORLDS.values():
        monkeypatch.setattr(world, "limit", 41)
    monkeypatch.setattr(demo_gato, "EPISODES", 2)
    for name, task in tasks.BUILTIN.items():
        monkeypatch.setitem(tasks.BUILTIN, name, replace(task, episodes=3 if task.world else 0, noise=0.0))
    small = {"model": {"L": 1, "H": 2, "d_e": 16}, "train": {"steps": 3, "batch_tokens": 256, "threads": 1}}
    monkeypatch.setattr(demo_gato, "OPTIONS", demo_gato.OPTIONS | small)
    out = tmp_path / "demo"
    status, printed, err = transalg("demo", "gato", "--out", str(out))
    assert (status, err) == (0, ""), err
    flat = " ".join(printed.split())
    for said in ("It plays 2 episodes", "It reads letters", "It writes", "Now yours:"):
        assert said in flat, said
    pictures = [f"{name}.{kind}" for name in demo_gato.TASKS[:3] for kind in ("gif", "png")]
    for name in (*pictures, "glyphs.png", "gato-curve.png", "letter.png"):
        assert (out / name).stat().st_size > 50, name
    for command in demo_gato.NEXT:
        verb, *words = command.format(run=out / "gato", out=out).removeprefix("transalg ").split()
        if "--out" in words:
            words[-1] = str(tmp_path / Path(words[-1]).name)
        short = {"evaluate": ["--episodes", "2"], "gato": ["--episodes", "2"]}.get(verb, [])
        status, _, err = transalg(verb, *words, *short)
        assert status == 0, (command, err)
    config = out / "gato" / "config.toml"
    config.write_text(config.read_text().replace('"taxi"', '"mine"'))
    status, _, err = transalg("demo", "gato", "--out", str(out))
    assert status == 2 and "holds another run" in err
