"""What a generalist does: returns of its episodes as % of the expert's, captions that are exactly right, perplexity of prose."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import exp, log, sqrt
from statistics import mean, stdev
from typing import Any

import numpy as np
import torch

from transalg.checks import integer
from transalg.data.episode_batches import numbered_rows
from transalg.data.episode_rows import last_timesteps
from transalg.data.episodes import ACTION, Episodes
from transalg.hyper.modalities import LOCAL
from transalg.inference.agent import ROWS, answers
from transalg.inference.run import Run
from transalg.model import Gato, MixedBatch
from transalg.runs.config import several
from transalg.tasks.predictions import log_probabilities, next_mixed_tokens
from transalg.tokenization.modalities import Sequence as Tokens
from transalg.tokenization.modalities import Spaces, Vocabulary, encode_observation, text
from transalg.tokenization.spaces import unflatten
from transalg.training.prepare_episodes import folders
from transalg.training.report import Report
from transalg.worlds.make import make
from transalg.worlds.record import GOOD
from transalg.worlds.rollout import episode_seed, normalised
from transalg.worlds.world import World

EVALUATION, DEMONSTRATION = 25, 26  # what a seed is derived for
EPISODES = 50
CONFIDENCE = 1.96  # standard errors on each side of a mean, for 95 %


@dataclass(frozen=True)
class TaskFigures:
    """The figures of one task in the order to show them."""

    name: str
    figures: dict[str, float]
    examples: list[dict[str, str]] = field(default_factory=list)  # captions, with what was right


@dataclass(frozen=True)
class LearnedTask:
    """A task that a run has learned: what it keeps of it, and its episodes, where they are at hand."""

    name: str
    world: str
    spaces: Spaces
    expert: float | None
    random: float | None
    episodes: Episodes | None


def learned_tasks(run: Run, report: Report | None = None, *, data: bool = True) -> list[LearnedTask]:
    """The tasks of a run. Built-in ones are recorded anew if they are not at hand; without folders of others, a note says so."""
    report = report or Report()
    if not run.episodes:
        raise ValueError(f"{run.folder}: expected a model for gato, got one for {run.task}")
    return [_learned(run, number, report, data) for number in range(len(run.episodes))]


def _learned(run: Run, number: int, report: Report, data: bool) -> LearnedTask:
    each, episodes = run.episodes[number], None
    if data:
        try:
            (episodes,) = folders([several(run.config.data)[number]], run.folder, report)
        except (ValueError, OSError) as error:
            report.note(f"{each['name']}: without its episodes there are no demonstrations: {error}")
    return LearnedTask(each["name"], each["world"], run.spaces(each["name"]), each.get("expert"), each.get("random"), episodes)


def find_task(run: Run, name: str, report: Report | None = None, option: str = "--env", *, data: bool = True) -> LearnedTask:
    """The task of this name, or of the world of this name; without its episodes if they are not needed."""
    tasks = learned_tasks(run, report, data=False)
    for i, task in enumerate(tasks):
        if name in (task.name, task.world):
            return _learned(run, i, report or Report(), data)
    raise ValueError(f"{option}: expected one of the tasks of {run.folder}, {', '.join(task.name for task in tasks)}; got {name!r}")


def gato_of(run: Run) -> tuple[Gato, Vocabulary]:
    """The model of a run, and its tokens."""
    vocabulary = run.vocabulary
    return run.gato, vocabulary


def world_of(task: LearnedTask) -> World:
    """The world of a task, if it is the one that was learned."""
    world = make(task.world)
    if world.spaces != task.spaces:
        raise ValueError(f"{task.world}: expected the spaces that the model has learned, got others")
    return world


def first_row(task: LearnedTask, vocabulary: Vocabulary, ell_max: int) -> Tokens:
    """A row of this task, as training has it: from some timestep on, without a prompt."""
    if task.episodes is None:
        raise ValueError(f"{task.name}: expected its episodes, which are not where the run was trained from")
    return numbered_rows((task.episodes,), vocabulary, ell_max, (1.0,), 0, prompts=0.0).row(0).sequence


def demonstrations(task: LearnedTask, count: int, seed: int, room: int, vocabulary: Vocabulary) -> list[Tokens | None]:
    """Prompts for so many episodes: each the end of an episode of training, of at most `room` tokens. Only good ones are shown, if any are."""
    if task.episodes is None:
        return [None] * count
    members = task.episodes.members("train")
    if task.expert is not None and task.random is not None:
        least, scores = task.random + GOOD * (task.expert - task.random), [task.episodes.episodes[i].score for i in members]
        good = [score is not None and score >= least for score in scores]
        members = members[good] if any(good) else members
    rng = np.random.default_rng([seed, DEMONSTRATION])
    return [last_timesteps(task.episodes, int(number), room, vocabulary) for number in rng.choice(members, count)]


def evaluate_tasks(
    run: Run,
    *,
    episodes: int = EPISODES,
    tau: float | None = None,
    prompts: bool = True,
    seed: int = 0,
    images: bool = True,
    task: str | None = None,
    report: Report | None = None,
) -> list[TaskFigures]:
    """Every task of a run, or the one that is named: `episodes` episodes of each world, all captions and all prose that are held out.

    Episodes start with a demonstration, unless there are to be no prompts. Without `images`, patches are blank: what captions then are right,
    the model says from the language alone.
    """
    report = report or Report()
    model, vocabulary = gato_of(run)
    results = list[TaskFigures]()
    for each in learned_tasks(run, report) if task is None else [find_task(run, task, report, "--task")]:
        if each.spaces.document:
            results.append(TaskFigures(each.name, _prose(model, vocabulary, each)))
        elif each.spaces.answers:
            results.append(_captions(model, vocabulary, each, images))
        else:
            figures = _returns(run, each, integer("episodes", episodes, 2), tau, prompts, seed, report)
            results.append(TaskFigures(each.name, figures))
    return results


def _returns(run: Run, task: LearnedTask, count: int, tau: float | None, prompts: bool, seed: int, report: Report) -> dict[str, float]:
    try:
        worlds = [world_of(task) for _ in range(min(count, ROWS))]
    except ValueError as error:
        said = str(error)
        report.note(said if said.startswith(f"{task.name}:") else f"{task.name}: {said}")
        return {}
    shown = demonstrations(task, count, seed, run.ell_max // 2, run.vocabulary) if prompts else [None] * count
    seeds, scores = [episode_seed(seed, EVALUATION, number) for number in range(count)], list[float]()
    with report.work(f"Playing {task.name}", count) as progress:
        for first in range(0, count, ROWS):
            group = slice(first, min(first + ROWS, count))
            scores += run.play(worlds[: len(seeds[group])], seeds=seeds[group], prompts=shown[group], tau=tau)
            progress(len(seeds[group]))
    figures = {"episodes": count, "return": mean(scores)}
    if worlds[0].goal:
        figures |= _share("success", [score > 0 for score in scores])
    if task.expert is not None and task.random is not None:
        shares = [100 * normalised(score, task.expert, task.random) for score in scores]
        figures |= {"% of expert": mean(shares), "± % (95 %)": CONFIDENCE * stdev(shares) / sqrt(count)}
    return figures


def _share(name: str, right: Sequence[bool]) -> dict[str, float]:
    """The share of what is right, and Wilson's interval of it, which holds for few and for all of them too."""
    n, p, z2 = len(right), mean(right), CONFIDENCE**2
    middle, half = (p + z2 / (2 * n)) / (1 + z2 / n), CONFIDENCE * sqrt(p * (1 - p) / n + z2 / (4 * n * n)) / (1 + z2 / n)
    return {name: p, f"{name}, from": max(0.0, middle - half), f"{name}, to": min(1.0, middle + half)}


def _captions(model: Gato, vocabulary: Vocabulary, task: LearnedTask, images: bool) -> TaskFigures:
    if task.episodes is None:
        return TaskFigures(task.name, {})
    figures, examples = dict[str, float](), list[dict[str, str]]()
    for split in [each for each in task.episodes.splits if each != "train"]:
        members = task.episodes.members(split).tolist()
        prompts, truths = [observed(task.episodes, number, vocabulary) for number in members], [_text(task.episodes, n) for n in members]
        if not images:
            prompts = [_blank(prompt) for prompt in prompts]
        guesses = answers(model, vocabulary, prompts, ell_gen=model.hyper.ell_max)  # of which what a prompt leaves
        figures |= _share(f"exact match on {split}", [guess == truth for guess, truth in zip(guesses, truths, strict=True)])
        figures[f"answers to {split}"] = len(members)
        examples += [{"split": split, "prediction": guess, "target": truth} for guess, truth in zip(guesses, truths, strict=True)]
    return TaskFigures(task.name, figures, examples)


def observed(episodes: Episodes, number: int, vocabulary: Vocabulary) -> Tokens:
    """What an answer is given to."""
    steps = episodes.steps(number, 0, 1)
    parts = {path: part[0] for path, part in steps.observation.items()}
    return encode_observation(episodes.spaces, unflatten(episodes.spaces.observation, parts), vocabulary)


def _text(episodes: Episodes, number: int) -> str:
    return episodes.episodes[number].texts[ACTION][0][1]


def _blank(prompt: Tokens) -> Tokens:
    return Tokens(prompt.kind, prompt.ids, prompt.index, np.zeros_like(prompt.patches), prompt.intervals, prompt.loss)


def _prose(model: Gato, vocabulary: Vocabulary, task: LearnedTask) -> dict[str, float]:
    """Documents that validate, in rows of ℓ_max tokens; every token but the first of a row is predicted."""
    if task.episodes is None or "valid" not in task.episodes.splits:
        return {}
    documents = [_text(task.episodes, int(number)) for number in task.episodes.members("valid")]
    rows = [row for document in documents for row in prose_rows(document, model.hyper.ell_max, vocabulary)]
    log_p = torch.cat([prose_log_probability(model, rows[first : first + ROWS]) for first in range(0, len(rows), ROWS)])
    bits = -float(log_p.sum()) / log(2) / sum(len(document.encode()) for document in documents)
    return {"perplexity": exp(min(-float(log_p.mean()), 700.0)), "bits per byte": bits, "predicted tokens": len(log_p)}


def prose_rows(document: str, ell_max: int, vocabulary: Vocabulary) -> list[Tokens]:
    """A document as rows of at most ℓ_max tokens, each of which begins with the last token of the one before."""
    ids, width = vocabulary.encode(document, bos=True, eos=True), min(ell_max, LOCAL)
    return [text(ids[start : start + width], vocabulary.channels) for start in range(0, max(1, len(ids) - 1), width - 1)]


@torch.no_grad()
def prose_log_probability(model: Gato, rows: Sequence[Any]) -> torch.Tensor:
    return log_probabilities([model], [next_mixed_tokens(model, MixedBatch.of(rows).to(model.device))])[0]
