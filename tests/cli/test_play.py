"""transalg train, evaluate, play, caption and generate with a model of all modalities."""

import json
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import tomli_w
import torch
from PIL import Image
from torch.testing import assert_close

from tests.tasks.episodes import DOCUMENTS, options, write
from tests.tolerance import PROMISED
from transalg.cli import play as cli_play
from transalg.cli.caption import read_image
from transalg.cli.play import spread
from transalg.cli.trace import TOKENS
from transalg.cli.train import episodes_example
from transalg.evaluation import tasks as evaluation
from transalg.evaluation.tasks import _share, find_task, first_row, gato_of, learned_tasks
from transalg.inference.run import Run
from transalg.model import MixedBatch
from transalg.tokenization.spaces import Image as Space
from transalg.training.watch import shown_losses


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from transalg.runs.config import Config
    from transalg.training.start import train

    folder = tmp_path_factory.mktemp("gato")
    folders = write(folder)
    del folders["car"]  # no world of this name is known here
    chosen = options(folders, steps=2)
    (folder / "options.toml").write_text(tomli_w.dumps(chosen))
    train(Config.from_dict(chosen), folder / "run")
    return folder / "run"


@pytest.fixture(autouse=True)
def short_rides(monkeypatch: pytest.MonkeyPatch) -> None:
    from transalg.worlds.taxi import Taxi

    monkeypatch.setattr(Taxi, "limit", 11)


def test_train_says_what_to_type_next(transalg: Any, trained: Path, tmp_path: Path) -> None:
    status, out, err = transalg("train", "--config", str(trained.parent / "options.toml"), "--out", str(tmp_path / "r"))
    assert (status, err) == (0, "")
    words = " ".join(out.split())
    assert f"Next: transalg play {tmp_path / 'r'} --env taxi --out play.gif" in words
    assert "taxi 33%, colours 33%, prose 33%" in words and re.search(r"taxi \d\.\d{4}  ?colours", words) and "tokenizer char" in words


def test_evaluate(transalg: Any, trained: Path, tmp_path: Path) -> None:
    status, out, _ = transalg("evaluate", str(trained), "--episodes", "2", "--no-prompt", "--predictions", str(tmp_path / "p"))
    assert status == 0 and "% of the expert" in out and "exactly right" in out and "restricted to their range" in " ".join(out.split())
    lines = [json.loads(line) for line in (tmp_path / "p").read_text().splitlines()]
    assert [line["split"] for line in lines] == ["valid", *["face"] * 3] and lines[0]["target"] == "bright"
    status, out, _ = transalg("evaluate", str(trained), "--episodes", "2", "--no-images", "--json")
    assert status == 0 and set(json.loads(out)) == {"taxi", "colours", "prose"}


def test_pictures(transalg: Any, trained: Path, tmp_path: Path) -> None:
    status, out, _ = transalg("play", str(trained), "--env", "taxi", "--out", str(tmp_path / "a.gif"), "--frames", "5", "--tau", "inf")
    assert status == 0 and "Taxi: return -" in out and "% of the expert" in out
    with Image.open(tmp_path / "a.gif") as moving:
        assert moving.n_frames == 5 and moving.size == (160 + 110, 160)
    status, out, _ = transalg("play", str(trained), "--env", "Taxi", "--out", str(tmp_path / "a.png"), "--json")
    assert status == 0 and json.loads(out)["timesteps"] > 0
    with Image.open(tmp_path / "a.png") as still:
        assert still.size == (4 * 270, 2 * 160)
    assert (spread(11, 4), spread(3, 8), spread(5, 1)) == ([0, 3, 6, 10], [0, 1, 2], [0]), "from the first to the last, none twice"


def test_shares_have_wilsons_interval() -> None:
    """Of 8 of 10 right: 0.490 to 0.943, as textbooks have it; of all or none the interval is not a point."""
    figures = _share("x", [True] * 8 + [False] * 2)
    assert figures == {"x": 0.8, "x, from": pytest.approx(0.4902, abs=1e-4), "x, to": pytest.approx(0.9433, abs=1e-4)}
    assert _share("x", [True] * 50)["x, from"] == pytest.approx(0.9286, abs=1e-3) and _share("x", [False] * 9)["x, from"] == 0


def test_prose_in_bits_of_its_bytes(transalg: Any, trained: Path) -> None:
    _, out, _ = transalg("evaluate", str(trained), "--task", "prose", "--json")
    figures, (document,) = json.loads(out)["prose"], [DOCUMENTS[3]]
    nats = math.log(figures["perplexity"]) * figures["predicted tokens"]
    assert figures["bits per byte"] == pytest.approx(nats / math.log(2) / len(document.encode()))


def test_losses_of_tasks_stand_in_lines() -> None:
    figures = {"val_loss": 1.0, "val_loss_a": 0.5, "val_loss_bb": 2.0, "val_loss_c": 1 / 3}
    assert shown_losses(figures, 19) == ["a 0.5000  bb 2.0000", "c 0.3333"] and shown_losses({"val_loss": 1.0}, 19) == []


def test_what_to_type_next(trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first task that acts; without one, captions; else prose."""
    tasks, config = learned_tasks(Run.load(trained), data=False), Run.load(trained).config
    for kept, said in ((("colours", "taxi"), "--env taxi --out play.gif"), (("prose", "colours"), "caption"), (("prose",), "generate")):
        monkeypatch.setattr(
            evaluation, "learned_tasks", lambda *_, kept=kept, **__: [one for name in kept for one in tasks if one.name == name]
        )
        assert said in episodes_example(config, trained)


def test_evaluate_one_task(transalg: Any, trained: Path) -> None:
    status, out, err = transalg("evaluate", str(trained), "--task", "colours", "--json")
    assert (status, err) == (0, "") and list(json.loads(out)) == ["colours"]


def test_invert_makes_black_white(tmp_path: Path) -> None:
    """And what is transparent is black."""
    Image.new("L", (16, 16), 30).save(tmp_path / "a.png")
    Image.new("RGBA", (16, 16), (200, 200, 200, 0)).save(tmp_path / "b.png")
    space = Space(16, 16, 1)
    assert (read_image(tmp_path / "a.png", space) == 30).all() and (read_image(tmp_path / "a.png", space, invert=True) == 225).all()
    assert (read_image(tmp_path / "b.png", space) == 0).all() and (read_image(tmp_path / "b.png", space, invert=True) == 0).all()


def test_a_run_without_its_episodes_acts_and_says_so(transalg: Any, trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where they could be recorded, but not written; and those that are not needed are not looked for."""

    def refused(*_: Any) -> Any:
        raise PermissionError(13, "Permission denied", "/somewhere")

    monkeypatch.setattr(evaluation, "folders", refused)
    status, out, err = transalg("play", str(trained), "--env", "taxi")
    assert status == 0 and "return" in out and "taxi: without its episodes there are no demonstrations" in " ".join(err.split())
    assert transalg("play", str(trained), "--env", "taxi", "--no-prompt")[::2] == (0, "")


def test_an_ensemble_is_no_agent(transalg: Any, trained: Path) -> None:
    for task in ("taxi", "colours", "prose"):
        status, _, err = transalg("evaluate", str(trained), str(trained), "--task", task, "--episodes", "2")
        assert status == 2 and err == "transalg: runs: expected one model of gato, got an ensemble\n"
    with pytest.raises(ValueError, match="expected one model of gato, got an ensemble"):
        Run.load(trained, trained).caption([])


def test_long_answers_are_read_to_their_end(trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, asked = Run.load(trained), list[int]()

    def spy(model: Any, vocabulary: Any, prompts: Any, *, ell_gen: int = 64) -> list[str]:
        asked.append(ell_gen)
        return [""] * len(prompts)

    monkeypatch.setattr(evaluation, "answers", spy)
    evaluation.evaluate_tasks(run, task="colours")
    assert asked and set(asked) == {run.ell_max}


def test_a_long_episode_keeps_few_frames(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from transalg.cli import frames
    from transalg.worlds.taxi import Taxi

    monkeypatch.setattr(Taxi, "limit", 47)
    monkeypatch.setattr(cli_play, "SPARE", 4)
    kept, shown = list[int](), list[Any]()
    monkeypatch.setattr(frames, "frame", lambda decision, t: kept.append(t) or t)
    monkeypatch.setattr(frames, "strip", lambda pictures, out: shown.extend(pictures))
    run = Run.load(trained)
    _, steps = cli_play.play(run, find_task(run, "taxi"), tmp_path / "a.png", frames=3)
    assert 12 <= len(kept) < steps and len(shown) == 3 and shown[0] == 1 and steps - shown[-1] < 8 and sorted(shown) == shown


def test_caption_and_generate(transalg: Any, trained: Path, tmp_path: Path) -> None:
    Image.new("RGB", (20, 9), "white").save(tmp_path / "white.png")
    status, out, err = transalg("caption", str(trained), "--image", str(tmp_path / "white.png"), "--json")
    assert (status, err) == (0, "") and set(json.loads(out)) == {"image", "text"}
    status, out, _ = transalg("generate", str(trained), "--prompt", "the sea", "--ell-gen", "5", "--seed", "1")
    assert status == 0 and out.startswith("the sea")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["play", "RUN", "--env", "pong"], "--env: expected one of the tasks of"),
        (["play", "RUN", "--env", "prose"], "--env: expected a task with actions, got prose, which is text"),
        (["play", "RUN", "--env", "taxi", "--out", "a.mp4"], "a.mp4: expected a name that ends in .gif or .png"),
        (["play", "RUN", "--env", "taxi", "--frames", "0"], "--frames: expected a whole number from 1 to 1,000,000, got 0"),
        (["caption", "RUN", "--image", "none.png"], "none.png: cannot be read: No such file or directory"),
        (["caption", "RUN", "--image", "text.png"], "text.png: cannot be read: it is no image that Pillow knows"),
        (
            ["caption", "RUN", "--image", "text.png", "--task", "taxi"],
            "--task: expected a task whose images have captions, colours; got taxi",
        ),
        (["evaluate", "RUN", "--task", "chess"], "--task: expected one of the tasks of"),
        (["evaluate", "RUN", "--data", "x"], "--data: expected none for gato, which is evaluated on its own tasks"),
        (["evaluate", "RUN", "--references", "separate"], "--references: for pairs of texts; gato has none"),
        (["evaluate", "RUN", "--episodes", "1"], "--episodes: expected a whole number from 2 to 1,000,000, got 1"),
        (["classify", "RUN", "--text", "a"], "a model for gato cannot classify; it can play, caption, generate"),
    ],
)
def test_errors(transalg: Any, trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str) -> None:
    monkeypatch.chdir(tmp_path)
    Path("text.png").write_text("no picture")
    status, out, err = transalg(*(str(trained) if each == "RUN" else each for each in arguments))
    assert (status, out) == (2, "") and message in err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["text.png"]


@pytest.mark.parametrize("task", ["taxi", "colours", "prose"])
def test_trace_shows_what_the_model_computes(transalg: Any, trained: Path, task: str) -> None:
    """P of the last line is the engine's, on a row of the task; and the parts of line 2 run by themselves."""
    run = Run.load(trained)
    model, vocabulary = gato_of(run)
    s = first_row(find_task(run, task), vocabulary, model.hyper.ell_max).part(0, TOKENS)
    with torch.inference_mode():
        mixed = MixedBatch.of([s])
        P = model.double()(replace(mixed, patches=mixed.patches.double(), intervals=mixed.intervals.double()))[0].softmax(dim=1).T
    status, out, err = transalg("trace", "Gato", "--run", str(trained), "--task", task, "--json")
    assert (status, err) == (0, "")
    traced = torch.tensor(json.loads(out)["steps"][-1]["value"], dtype=torch.float64)
    assert_close(traced, P, rtol=0, atol=PROMISED)
    names = ["gato_embed", "GatoEmbedding", *(["ResNet"] if task == "colours" else [])]
    for name in names:
        status, out, err = transalg("trace", name, "--run", str(trained), "--task", task, "--brief")
        assert (status, err) == (0, "") and f"← {name}(" in out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["Gato"], "--task: expected one of taxi, colours, prose, or --text, and not both"),
        (["Gato", "--task", "chess"], "--task: expected one of the tasks of"),
        (["Bin", "--task", "taxi"], "--run: Bin is shown on an example alone"),
        (["ResNet", "--task", "taxi"], "--task: expected a task with images"),
        (["Gato", "--text", "a" * 99], "--text: expected at most ell_max ="),
        (["Gato", "--text", "a", "--tokens", "1 2"], "--tokens: x as token IDs instead of a text"),
        (["10", "--text", "a", "--task", "taxi"], "--task: expected an algorithm of Gato and --run with it"),
    ],
)
def test_trace_refuses(transalg: Any, trained: Path, arguments: list[str], said: str) -> None:
    status, out, err = transalg("trace", *arguments, "--run", str(trained))
    assert (status, out) == (2, "") and said in " ".join(err.split())
