"""One model for all modalities: what it is trained on, that a run resumes, and that using it is what the formal algorithms say."""

import json
from collections import Counter
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from tests.tasks.episodes import COLOURS, DOCUMENTS, SPACES, Car, config, options, write
from transalg.data.batches import DataPosition
from transalg.data.episode_batches import EpisodePlan, NumberedRows, digest, numbered_rows
from transalg.data.episodes import Episodes
from transalg.data.recorder import Recorder
from transalg.evaluation import tasks as evaluation
from transalg.formal.agent import GatoControl, GatoInference
from transalg.formal.modality import Token
from transalg.inference.agent import Decision, Memory, answers, control
from transalg.inference.run import Run
from transalg.model import Gato, MixedBatch
from transalg.model.counterpart import formal_counterpart
from transalg.runs import folder as run_folder
from transalg.runs.config import Config
from transalg.tasks import find
from transalg.tasks.gato import GeneralistAgent
from transalg.tokenization import train as make_tokenizer
from transalg.tokenization.modalities import Discrete, Vocabulary, action_ranges, concatenate, decode_action, encode_observation
from transalg.training.prepare_episodes import _vocabulary_texts
from transalg.training.report import Report
from transalg.training.start import train
from transalg.worlds import make as worlds
from transalg.worlds.taxi import Taxi

TOKENIZER = make_tokenizer("char", ["abcdefghijklmnopqrstuvwxyz "])
VOCABULARY = Vocabulary.of(TOKENIZER, 1)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return write(tmp_path_factory.mktemp("episodes"))


@pytest.fixture(scope="module")
def run(folders: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Run:
    out = tmp_path_factory.mktemp("runs") / "all"
    train(config(folders), out)
    return Run.load(out)


@pytest.fixture(autouse=True)
def short_rides(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that has learned nothing drives on and on."""
    monkeypatch.setattr(Taxi, "limit", 11)


@pytest.fixture
def known_car(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(worlds.WORLDS, "Car", Car)


def rows(folders: dict[str, Path], *names: str, weights: tuple[float, ...] = (), prompts: float = 0.25) -> NumberedRows:
    tasks = [Episodes(folders[name]) for name in names]
    return numbered_rows(tasks, VOCABULARY, 41, weights or (1.0,) * len(tasks), 3, prompts=prompts)


# Rows and batches ------------------------------------------------------------------------------------------------------


def test_a_step_has_as_many_rows_as_fit_its_tokens(folders: dict[str, Path]) -> None:
    source, plan = rows(folders, "taxi", "colours", "prose"), EpisodePlan(32, 97)
    start = 0
    for place, same, index in islice(plan.forever(source, DataPosition()), 30):
        lengths = same.lengths(index)
        following = len(source.row(int(index[-1]) + 1).sequence)
        assert index[0] == start and lengths.sum() <= 97 < lengths.sum() + following
        start = place.batch
    narrow = [index.tolist() for _, _, index in islice(EpisodePlan(32, 1).forever(source, DataPosition()), 3)]
    assert narrow == [[0], [1], [2]], "a row that is longer than the batch is a batch"
    assert [len(index) for _, _, index in islice(EpisodePlan(5).forever(source, DataPosition()), 3)] == [5, 5, 5]


def test_batches_continue_from_any_position(folders: dict[str, Path]) -> None:
    plan = EpisodePlan(32, 97)
    whole = list(islice(plan.forever(rows(folders, "taxi", "colours"), DataPosition()), 9))
    rest = list(islice(plan.forever(rows(folders, "taxi", "colours"), whole[4][0]), 4))
    assert [(place, index.tolist()) for place, _, index in rest] == [(place, index.tolist()) for place, _, index in whole[5:]]
    one, other = (source.batch(index) for _, source, index in (whole[6], rest[1]))
    assert one.sequences == other.sequences and one.tokens == sum(map(len, one.sequences))


def test_the_mean_of_losses_is_not_that_of_the_largest() -> None:
    """A tenth less counts the same in every task; what is solved does not count."""
    task = GeneralistAgent(["prose", "car", "taxi", "unseen"])

    def mean(*losses: float) -> float:
        return task.mean_figures([each for loss in losses for each in (2 * loss, 1.0, 2.0)] + [0.0, 0.0, 0.0], 6)["val_loss"]

    assert mean(2.0, 0.5, 0.04) == pytest.approx(0.04 ** (1 / 3))
    assert mean(2.0, 0.45, 0.04) == pytest.approx(mean(1.8, 0.5, 0.04)) and mean(2.0, 0.4, 0.04) < mean(1.9, 0.5, 0.04)
    assert mean(2.0, 0.5, 0.009) == mean(2.0, 0.5, 0.0)
    with pytest.raises(ValueError, match="data: expected text or an action to predict in the episodes of the split valid, got none"):
        task.mean_figures([0.0] * 12, 6)


def test_demonstrations_are_good_episodes(tmp_path: Path) -> None:
    """Those of at least 80 % of the expert's score, where there are some."""
    with Recorder(tmp_path / "a", name="a", observation=Discrete(7), action=Discrete(2), expert=10.0, random=0.0) as recorder:
        for episode, score in enumerate((9.0, 7.9, 8.0)):
            recorder.add(episode, 1, reward=score)
            recorder.end()
    episodes = Episodes(tmp_path / "a")

    def shown(expert: float | None) -> set[int]:
        task = evaluation.LearnedTask("a", "A", episodes.spaces, expert, 0.0, episodes)
        return {int(prompt.ids[0]) for prompt in evaluation.demonstrations(task, 40, 0, 9, VOCABULARY) if prompt is not None}

    assert shown(10.0) == {0, 2} and shown(100.0) == shown(None) == {0, 1, 2}


def test_weights_are_shares_of_tokens(folders: dict[str, Path]) -> None:
    """Captions are short, so there are more of them."""
    source, count = rows(folders, "taxi", "colours", weights=(1.0, 3.0), prompts=0.0), Counter[int]()
    for n in range(1500):
        count[source.row(n).task] += len(source.row(n).sequence)
    assert count[1] / count[0] == pytest.approx(3, rel=0.15)


def test_the_digest_sees_every_file(folders: dict[str, Path], tmp_path: Path) -> None:
    import shutil

    shutil.copytree(folders["colours"], tmp_path / "c")
    assert digest([Episodes(tmp_path / "c")]) == digest([Episodes(folders["colours"])])
    (file,) = (tmp_path / "c").glob("*.safetensors")
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    assert digest([Episodes(tmp_path / "c")]) != digest([Episodes(folders["colours"])])


# Training --------------------------------------------------------------------------------------------------------------


class Crash(Exception):
    pass


class At(Report):
    def step(self, step: int, loss: float, tokens_per_second: float) -> None:
        if step == 5:
            raise Crash


def test_resuming_is_bit_for_bit(folders: dict[str, Path], run: Run, tmp_path: Path) -> None:
    with pytest.raises(Crash):
        train(config(folders), tmp_path / "crashed", report=At())
    assert train(None, tmp_path / "crashed", resume=True).state.step == 6
    for name in ("best.safetensors", "last.safetensors"):
        ours, theirs = load_file(tmp_path / "crashed" / name), load_file(run.folder / name)
        assert ours.keys() == theirs.keys() and all(ours[key].equal(theirs[key]) for key in ours)


def test_what_a_run_keeps(run: Run, folders: dict[str, Path]) -> None:
    metadata = run_folder.model_metadata(run.folder)
    assert metadata.labels == tuple(folders) and metadata.episodes is not None
    taxi, car, colours, _ = metadata.episodes
    assert taxi["world"] == "Taxi" and taxi["expert"] > taxi["random"] and colours["expert"] is None
    assert run.spaces("car") == SPACES == run.spaces("Car") and car["expert"] == 6.0
    lines = [json.loads(line) for line in (run.folder / "metrics.jsonl").read_text().splitlines()]
    last = [line for line in lines if "val_loss" in line][-1]
    losses = [last[f"val_loss_{name}"] for name in folders]
    assert last["val_loss"] == pytest.approx(np.exp(np.log(losses).mean())), "each task counts equally, whatever the size of its loss"
    assert run.config.shares == dict.fromkeys(folders, 1.0) and run.model.hyper.C == 1


def test_figures_are_of_each_task(run: Run, folders: dict[str, Path]) -> None:
    task = find("gato").bound(tuple(folders))
    batch = rows(folders, *folders).batch(np.arange(20))
    assert batch.classes is not None and set(batch.classes) == {0, 1, 2, 3}
    example = task.example(batch, run.model.hyper, 0, np.arange(20))
    inputs, _ = example.part(0, 1, torch.device("cpu"))
    with torch.no_grad():
        sums = task.figure_sums(run.model, inputs).view(4, 3)
        for i in range(4):
            part = MixedBatch.of([each for each, of in zip(batch.sequences, batch.classes, strict=True) if of == i])
            assert float(sums[i, 2]) == pytest.approx(float(part.next_weights().sum()))
            torch.testing.assert_close(sums[i, 0], task.loss(run.model, (part,), weight=1.0).double(), rtol=1e-5, atol=0)
    assert float(sums[:, 2].sum()) == pytest.approx(example.count)
    both = [example.part(i, 2, torch.device("cpu"))[0][0].lengths for i in range(2)]
    assert sorted(both[0] + both[1]) == sorted(example.batch.lengths)


def test_patches_move_in_training_alone(run: Run, folders: dict[str, Path]) -> None:
    batch, task = rows(folders, "colours").batch(np.arange(5)), find("gato")
    assert task.example(batch, run.model.hyper, 1).batch.cells is not None
    assert task.example(batch, run.model.hyper, 1, np.arange(5)).batch.cells is None
    one, other = (task.example(batch, run.model.hyper, seed).batch.cells for seed in (1, 2))
    assert one is not None and other is not None and not one.equal(other)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"data": "nowhere"},
            "nowhere: expected a folder of episodes or a built-in task, cartpole, pendulum, taxi, glyphs, pydocs; got none",
        ),
        ({"valid": "x"}, "--valid: expected none for gato; the files of episodes say which of them validate"),
        ({"folds": 3}, "--folds: expected none for gato"),
        ({"weights": (1.0,)}, "--weights: expected 4, one for each data set"),
        ({"tokenizer": "letters"}, "--tokenizer: expected char, word, bpe, or a tokenizer.json, got 'letters'"),
        ({"model": {"ell_max": 3}}, "ell_max: expected at least 5, a timestep of Car, got 3"),
    ],
)
def test_bad_options(folders: dict[str, Path], tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match="^" + message.replace(".", r"\.")):
        train(Config.from_dict(options(folders) | changes), tmp_path / "run")
    assert not (tmp_path / "run").exists()


# Using it: the engine is the formal algorithm --------------------------------------------------------------------------


def double(run: Run, ell_max: int | None = None) -> Gato:
    assert isinstance(run.model, Gato)
    hyper = run.model.hyper
    model = Gato(replace(hyper, ell_max=ell_max or hyper.ell_max), dtype=torch.float64)
    model.load_state_dict({name: each.double() for name, each in run.model.state_dict().items()})
    with torch.no_grad():  # so that P is far from uniform
        for parameter in model.parameters():
            parameter.mul_(2.0)
    return model.eval()


def formal_tokens(sequence: Any, model: Gato) -> list[Token]:
    return MixedBatch.of([sequence]).formal(model.hyper.N_grid)[0]


class FormalCar:
    """The world as the formal algorithm sees it: tokens in, tokens out."""

    def __init__(self, model: Gato, seed: int) -> None:
        self.model, self.seed, self.world = model, seed, Car()
        self.actions = action_ranges(SPACES.action, VOCABULARY)
        self.taken = list[list[int]]()

    def _tokens(self, observation: Any) -> list[Token]:
        return formal_tokens(encode_observation(SPACES, observation, VOCABULARY).part(0, -1), self.model)

    def reset(self) -> list[Token]:
        return self._tokens(self.world.reset(self.seed))

    def step(self, a: list[int]) -> list[Token] | None:
        self.taken.append(a)
        outcome = self.world.step(decode_action(SPACES.action, a, VOCABULARY))
        return None if outcome.done else self._tokens(outcome.observation)


def test_control_is_the_formal_one(run: Run) -> None:
    """Several worlds at once, with prompts of different lengths, each as if it were alone."""
    model = double(run, 127)  # beyond ℓ_max the formal algorithm reads everything again; see below
    function, theta = formal_counterpart(model.hyper), model.theta()
    prompt = encode_observation(SPACES, {"speed": [0.5, -0.5], "mission": "sea"}, VOCABULARY)
    prompts, decisions = [None, prompt], list[Decision]()
    control(model, VOCABULARY, [Car() for _ in range(2)], [5, 6], prompts, watch=decisions.append)
    for row, (seed, shown) in enumerate(zip((5, 6), prompts, strict=True)):
        env = FormalCar(model, seed)
        GatoControl(env, [] if shown is None else formal_tokens(shown, model), theta, 0.0, VOCABULARY.separator, Gato=function)
        assert [list(each.ids) for each in decisions if each.row == row] == env.taken


def test_actions_stay_in_their_range(run: Run) -> None:
    decisions = list[Decision]()
    control(double(run), VOCABULARY, [Car() for _ in range(5)], range(5), tau=float("inf"), watch=decisions.append)
    assert len({each.ids for each in decisions}) > 10
    for each in decisions:
        assert all(token in allowed for token, allowed in zip(each.ids, each.ranges, strict=True))
        assert [len(P) for P in each.P] == [3, len(each.ranges[1])] and all(P.sum() == pytest.approx(1) for P in each.P)


def test_a_return_is_the_sum_of_all_rewards(run: Run) -> None:
    decisions = list[Decision]()
    returns = control(double(run), VOCABULARY, [Car() for _ in range(3)], [3, 4, 5], tau=float("inf"), watch=decisions.append)
    assert returns == [sum(each.action["gear"] for each in decisions if each.row == row) for row in range(3)] and max(returns) > 2


def test_a_world_says_the_temperature_unless_another_is_chosen(run: Run) -> None:
    class Warm(Car):
        tau = float("inf")

    def actions(world: type[Car], tau: float | None) -> list[Any]:
        decisions = list[Decision]()
        control(double(run), VOCABULARY, [world() for _ in range(3)], [3, 4, 5], tau=tau, watch=decisions.append)
        return [each.ids for each in decisions]

    assert actions(Warm, None) == actions(Car, float("inf")) != actions(Car, None) == actions(Warm, 0.0)


def test_worlds_without_seeds_are_refused(run: Run) -> None:
    with pytest.raises(ValueError, match="seeds: expected one for each of 2 worlds, got 1"):
        run.play([Car(), Car()])
    with pytest.raises(ValueError, match="worlds: expected at least one, got none"):
        run.play([], seeds=[])


def test_a_mission_of_many_episodes_is_one_text_of_the_vocabulary(folders: dict[str, Path]) -> None:
    """But what is to be written counts as often as it is there."""
    texts = {name: _vocabulary_texts(Episodes(folder)) for name, folder in folders.items()}
    car = Episodes(folders["car"])
    assert len(car.members("train")) > 1 and len(texts["car"]) == len(set(texts["car"]))
    counts = Counter(texts["colours"])
    assert set(counts) == set(COLOURS) and max(counts.values()) > 1


def test_a_row_draws_the_same_whoever_else_is_active(run: Run) -> None:
    """Also when a row before it has ended."""
    model, alone, among = double(run), list[Decision](), list[Decision]()
    short = Car()
    short.limit = 1
    control(model, VOCABULARY, [Car()], [8], tau=2.0, watch=alone.append)
    control(model, VOCABULARY, [short, Car()], [7, 8], tau=2.0, watch=among.append)
    assert [each.ids for each in alone] == [each.ids for each in among if each.row == 1] and len(alone) == 3


def test_beyond_ell_max_a_row_starts_over_with_its_last_timesteps(run: Run) -> None:
    model = double(run)
    memory, shown = Memory(model, [None, None]), list[Any]()
    for t in range(9):
        tokens = encode_observation(SPACES, {"speed": [t / 10, 0.0], "mission": "go"}, VOCABULARY)
        shown.append(tokens)
        for row in (0, 1):
            memory.observe(row, tokens)
        before, logits = memory.cache.lengths[0], memory.logits([0, 1])
        assert memory.cache.lengths[0] == before + len(tokens) or memory.cache.lengths[0] <= model.hyper.ell_max // 2
        expected = [[*shown[first:]] for first in range(len(shown)) if memory.cache.lengths[0] == sum(map(len, shown[first:]))]
        assert expected, "whole timesteps"
        with torch.no_grad():
            P = model(MixedBatch.of([concatenate(expected[0])]))[0, -1]
        torch.testing.assert_close(logits, torch.stack([P, P]), rtol=1e-9, atol=1e-9)
    assert len(expected[0]) < 9 and len(memory.timesteps[0]) < 9


def test_captions_and_text_are_those_of_the_formal_algorithm(run: Run) -> None:
    """The engine chooses among the tokens of text alone; so does the formal one where others have probability 0."""
    model = double(run)
    function, theta = formal_counterpart(model.hyper), model.theta()
    vocabulary, spaces = run.vocabulary, run.spaces("colours")

    def of_text(s: Any, theta: Any) -> torch.Tensor:
        P = function(s, theta).clone()
        P[run.tokenizer.N_V :] = 0
        return P / P.sum(dim=0)

    images = [np.full((16, 32, 1), value, np.uint8) for value in (0, 90, 250)]
    prompts = [encode_observation(spaces, image, vocabulary) for image in images]
    texts = answers(model, vocabulary, prompts, ell_gen=7)
    for prompt, text in zip(prompts, texts, strict=True):
        y = GatoInference(formal_tokens(prompt, model), theta, 7, 0.0, stop=run.tokenizer.eos_token, Gato=of_text).tolist()
        assert text == run.tokenizer.decode([token for token in y if token != run.tokenizer.eos_token])
    assert run.caption(images) == answers(run.model, vocabulary, prompts)


def test_text_is_continued_beyond_ell_max_without_values_or_separators(run: Run) -> None:
    text = run.generate("a dark ", ell_gen=60, tau=1.0, seed=3)
    assert isinstance(text, str) and set(text) <= set("".join((*DOCUMENTS, *COLOURS, "a bright sea")))
    assert run.generate("a dark ", ell_gen=60, tau=1.0, seed=3) == text
    with pytest.raises(ValueError, match="cannot classify; it can play, caption, generate"):
        run.classify("a")


# Evaluation ------------------------------------------------------------------------------------------------------------


def test_evaluation(run: Run, known_car: None, monkeypatch: pytest.MonkeyPatch) -> None:
    results = {each.name: each for each in evaluation.evaluate_tasks(run, episodes=3)}
    assert list(results) == ["taxi", "car", "colours", "prose"]
    assert results["car"].figures["episodes"] == 3 and "% of expert" in results["taxi"].figures
    assert results["colours"].figures["answers to face"] == 3 and len(results["colours"].examples) == 4
    tokens = len(run.tokenizer.encode(DOCUMENTS[3])) - 1
    assert results["prose"].figures["predicted tokens"] == tokens
    monkeypatch.setattr(Run, "play", lambda self, worlds, *, seeds, prompts, tau: [2.0, 4.0, 6.0][: len(seeds)])
    expert, random = run.episodes[1]["expert"], run.episodes[1]["random"]
    figures = {each.name: each.figures for each in evaluation.evaluate_tasks(run, episodes=3)}["car"]
    assert figures["return"] == 4 and figures["% of expert"] == pytest.approx(100 * (4 - random) / (expert - random))
    assert figures["± % (95 %)"] == pytest.approx(1.96 * 100 * 2 / (expert - random) / 3**0.5) and "success" not in figures
    monkeypatch.setattr(Car, "goal", True)
    monkeypatch.setattr(Run, "play", lambda self, worlds, *, seeds, prompts, tau: [0.0, 0.1, 0.9][: len(seeds)])
    figures = {each.name: each.figures for each in evaluation.evaluate_tasks(run, episodes=3)}["car"]
    assert figures["success"] == pytest.approx(2 / 3)


def test_exact_match_counts_captions(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluation, "answers", lambda model, vocabulary, prompts, ell_gen: ["grey"] * len(prompts))
    task = evaluation.find_task(run, "colours")
    figures = evaluation._captions(run.model, run.vocabulary, task, True).figures
    assert figures["exact match on face"] == pytest.approx(1 / 3)


def test_perplexity_does_not_depend_on_rows(run: Run) -> None:
    """Every token but the first is predicted once, whatever fits a row."""
    for width in (5, 7, 41):
        parts = evaluation.prose_rows(DOCUMENTS[0], width, run.vocabulary)
        ids = [parts[0].ids[0], *(token for part in parts for token in part.ids[1:])]
        assert ids == run.tokenizer.encode(DOCUMENTS[0]) and all(len(part) <= width for part in parts)


def test_without_its_world_or_its_data(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    notes = list[str]()

    class Notes(Report):
        def note(self, text: str) -> None:
            notes.append(text)

    assert "car" in {each.name for each in evaluation.evaluate_tasks(run, episodes=2, report=Notes())}
    assert any(note.startswith("car: Car: ") for note in notes)
    task = evaluation.find_task(run, "taxi")
    assert evaluation.demonstrations(evaluation.LearnedTask("a", "A", SPACES, None, None, None), 2, 0, 9, VOCABULARY) == [None, None]
    prompts = evaluation.demonstrations(task, 3, 0, 20, run.vocabulary)
    assert all(prompt is not None and 0 < len(prompt) <= 20 for prompt in prompts)
    with pytest.raises(ValueError, match=r"--env: expected one of the tasks of .*, taxi, car, colours, prose; got 'pong'"):
        evaluation.find_task(run, "pong")


def test_a_trained_model_is_the_formal_one(run: Run) -> None:
    from transalg.verify.trained import verify

    verdict = verify(run)
    assert verdict.holds and verdict.case.architecture == "Gato"
    with pytest.raises(ValueError, match="text: expected none for a model of gato"):
        verify(run, ["a sea"])


def test_built_in_tasks_are_recorded_once(tmp_path: Path) -> None:
    from transalg.worlds.builtin import BUILTIN, Builtin, episode_folder

    recorded = list[str]()

    def record(builtin: Builtin, folder: Path) -> None:
        recorded.append(builtin.name)
        folder.mkdir()

    for _ in range(2):
        folder = episode_folder("taxi", tmp_path / "cache", record)
    assert recorded == ["taxi"] and folder.is_relative_to(tmp_path / "cache")
    (tmp_path / "mine").mkdir()
    assert episode_folder(str(tmp_path / "mine"), tmp_path, record) == tmp_path / "mine"
    assert [name for name, each in BUILTIN.items() if each.work] == ["cartpole", "pendulum", "taxi"]


@pytest.mark.slow
def test_a_share_of_the_glyphs_validates() -> None:
    from transalg.worlds.glyphs import glyphs
    from transalg.worlds.record import captions

    splits = Counter(split for _, _, split in captions(0.05))
    assert set(splits) == {"train", "valid", "face", "pair"}
    plain = sum(glyph.split == "train" and not glyph.variant for glyph in glyphs())
    assert splits["valid"] == int(0.05 * plain)
