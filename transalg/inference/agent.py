"""Gato at work, many rows at once with the key/value cache: it acts (GatoControl) and answers images with text (GatoInference)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from transalg.checks import integer, real
from transalg.hyper.modalities import TEXT
from transalg.inference.samplers import Temperature, draw
from transalg.model import Cache, Gato, MixedBatch
from transalg.tokenization.modalities import Sequence as Tokens
from transalg.tokenization.modalities import Vocabulary, action_ranges, concatenate, decode_action, encode_observation
from transalg.tokenization.sequence import action_token
from transalg.worlds.world import World

ROWS = 64  # environments, or images, that are decoded together


@dataclass(frozen=True)
class Decision:
    """What a model does in a state: an action, and P̂ on the range 𝒜_i of each of its elements."""

    row: int
    world: World  # in the state before the action
    action: Any
    ranges: tuple[range, ...]
    P: tuple[NDArray[np.float64], ...]
    ids: tuple[int, ...]


class Memory:
    """The tokens of several rows, and the cache of those that the model has read.

    The formal algorithm reads the last ℓ_max tokens again for every action. Here a row is read once; where no more fit, every row starts over
    with its last timesteps, half of ℓ_max, as rows of training start anywhere in an episode.
    """

    def __init__(self, model: Gato, prompts: Sequence[Tokens | None]) -> None:
        self.model, self.room = model, model.hyper.ell_max
        self.timesteps = [[[prompt]] if prompt is not None and len(prompt) else [] for prompt in prompts]  # of each row, in parts
        self.unread = [[part for step in row for part in step] for row in self.timesteps]
        self.rows = list(range(len(prompts)))
        self.cache: Cache = model.cache(len(prompts))

    def observe(self, row: int, tokens: Tokens) -> None:
        """A timestep begins."""
        self.timesteps[row].append([tokens])
        self.unread[row].append(tokens)

    def act(self, row: int, tokens: Tokens) -> None:
        """It goes on."""
        self.timesteps[row][-1].append(tokens)
        self.unread[row].append(tokens)

    def logits(self, rows: Sequence[int]) -> Tensor:
        """The logits of what follows these rows; others are forgotten."""
        if list(rows) != self.rows:
            self.cache.select([self.rows.index(row) for row in rows])
            self.rows = list(rows)
        new = [concatenate(self.unread[row]) for row in rows]
        if any(have + len(more) > self.room for have, more in zip(self.cache.lengths, new, strict=True)):
            self.cache = self.model.cache(len(rows))
            new = [self._recent(row) for row in rows]
        for row in rows:
            self.unread[row] = []
        return self.model.decode(MixedBatch.of(new).to(self.model.device), self.cache, last=True)

    def _recent(self, row: int) -> Tokens:
        """The last timesteps of a row, at most half of ℓ_max tokens, at least one timestep; the others are dropped."""
        kept, total = list[list[Tokens]](), 0
        for step in reversed(self.timesteps[row]):
            total += sum(map(len, step))
            if kept and total > self.room // 2:
                break
            kept.insert(0, step)
        self.timesteps[row] = kept
        return concatenate([part for step in kept for part in step]).part(-self.room)


@torch.inference_mode()
def control(
    model: Gato,
    vocabulary: Vocabulary,
    worlds: Sequence[World],
    seeds: Sequence[int],
    prompts: Sequence[Tokens | None] | None = None,
    *,
    tau: float | None = None,
    watch: Callable[[Decision], None] | None = None,
) -> list[float]:
    """The return of an episode in each of these worlds, all of the same spaces. A prompt is a demonstration that goes first.

    An action is drawn from q ∝ P̂^{1/τ} on the range 𝒜_i of each of its elements: no other token is possible. τ is the world's unless given.
    """
    if not worlds:
        raise ValueError("worlds: expected at least one, got none")
    tau = real("tau", worlds[0].tau if tau is None else tau, "[0, ∞]")
    if len(seeds) != len(worlds):
        raise ValueError(f"seeds: expected one for each of {len(worlds)} worlds, got {len(seeds)}")
    if prompts is not None and len(prompts) != len(worlds):
        raise ValueError(f"prompts: expected one for each of {len(worlds)} worlds, or None, got {len(prompts)}")
    spaces = worlds[0].spaces
    ranges = action_ranges(spaces.action, vocabulary)
    memory = Memory(model, prompts or [None] * len(worlds))
    generators = [torch.Generator().manual_seed(seed) for seed in seeds]
    observations: list[Any] = [world.reset(seed) for world, seed in zip(worlds, seeds, strict=True)]
    scores, active = [0.0] * len(worlds), list(range(len(worlds)))
    while active:
        for row in active:
            memory.observe(row, encode_observation(spaces, observations[row], vocabulary))
        ids: dict[int, list[int]] = {row: [] for row in active}
        P: dict[int, list[NDArray[np.float64]]] = {row: [] for row in active}
        for allowed in ranges:
            logits = memory.logits(active)[:, allowed.start : allowed.stop].double().cpu()
            tokens = draw(logits, (Temperature(tau),), [()] * len(active), [generators[row] for row in active])
            for row, token, p in zip(active, tokens, logits.softmax(dim=1).numpy(), strict=True):
                ids[row].append(allowed.start + token)
                P[row].append(p)
                memory.act(row, action_token(ids[row][-1], vocabulary.channels))
        for row in active:
            action = decode_action(spaces.action, ids[row], vocabulary)
            if watch is not None:
                watch(Decision(row, worlds[row], action, tuple(ranges), tuple(P[row]), tuple(ids[row])))
            outcome = worlds[row].step(action)
            scores[row] += outcome.reward
            observations[row] = None if outcome.done else outcome.observation
        active = [row for row in active if observations[row] is not None]
    return scores


@torch.inference_mode()
def answers(
    model: Gato, vocabulary: Vocabulary, prompts: Sequence[Tokens], *, ell_gen: int = 64, tau: float = 0.0, seed: int = 0
) -> list[str]:
    """The text that follows each of these prompts, up to eos: the caption of an image."""
    integer("ell_gen", ell_gen, 1)
    tokenizer, texts = vocabulary.text(), list[str]()
    for first in range(0, len(prompts), ROWS):
        group = prompts[first : first + ROWS]
        generators = [torch.Generator().manual_seed(seed + first + i) for i in range(len(group))]
        texts += [tokenizer.decode(ids) for ids in _answered(model, tokenizer.N_V, tokenizer.eos_token, group, ell_gen, tau, generators)]
    return texts


def _answered(
    model: Gato, N_text: int, eos: int, prompts: Sequence[Tokens], ell_gen: int, tau: float, generators: list[torch.Generator]
) -> list[list[int]]:
    cache, written, ended = model.cache(len(prompts)), [list[int]() for _ in prompts], [False] * len(prompts)
    logits = model.decode(MixedBatch.of(prompts).to(model.device), cache, last=True)
    index = torch.tensor([int(prompt.index[-1]) for prompt in prompts])
    for _ in range(min(ell_gen, model.hyper.ell_max - max(map(len, prompts)))):
        tokens = draw(logits[:, :N_text].double().cpu(), (Temperature(tau),), [()] * len(prompts), generators)
        for row, token in enumerate(tokens):
            ended[row] = ended[row] or token == eos
            if not ended[row]:
                written[row].append(token)
        if all(ended):
            break
        index = (index + 1).clamp(max=model.hyper.N_loc - 1)
        ids = torch.tensor(tokens, device=model.device)[:, None]
        logits = model.decode(MixedBatch.of_tokens(TEXT, ids, index[:, None].to(model.device)), cache, last=True)
    return written
