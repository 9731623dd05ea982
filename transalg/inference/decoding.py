"""Algorithms 14 and 15 for batches, token by token with the key/value cache: each row continues until eos or until its length limit."""

from collections.abc import Iterator, Sequence, Sized
from dataclasses import dataclass, field
from math import nan

import torch
from torch import Tensor

from transalg.checks import integer
from transalg.cpu import packed
from transalg.inference.ensemble import Decoder, as_models, common_ell_max
from transalg.inference.results import number
from transalg.inference.samplers import Sampler, draw, sampler_chain
from transalg.inference.text_only import TextOnly
from transalg.model import Cache, DTransformer
from transalg.tasks.predictions import ensemble_logits, token_log_probability

ROWS = 64  # decoded together; the others wait, which changes nothing but the memory


@dataclass
class Continuation:
    """The tokens generated after a prompt, up to and without eos."""

    ids: list[int] = field(default_factory=list)
    log_p: list[float] = field(default_factory=list)  # log P̂ of each token by the model, before any sampler
    ended: bool = False  # by eos or by a call of `Decoding.end`, not by the length limit
    log_p_eos: float | None = None  # log P̂ of eos, if it was drawn


class Decoding:
    """Rows that are decoded together, each as if it were alone. `step` appends a token to every active row."""

    def __init__(
        self,
        models: Sequence[Decoder],
        rows: Sequence[Sequence[int]],
        caches: Sequence[Cache],
        samplers: Sequence[Sampler],
        generators: Sequence[torch.Generator],
        ell_gen: int,
        group_size: int = 1,
        scored: bool = True,
    ) -> None:
        """Each group of `group_size` neighbouring rows has one z, whose keys and values are cached once. Without `scored`, log P̂ is NaN."""
        self.group_size, self.scored = group_size, scored
        self.models, self.caches, self.samplers, self.generators, self.ell_gen = models, caches, samplers, generators, ell_gen
        self.rows = [list(row) for row in rows]
        self.continuations = [Continuation() for _ in rows]
        self.active = list(range(len(rows))) if ell_gen > 0 else []
        self.cache_rows = list(range(len(rows)))  # the row that each row of the caches belongs to

    @torch.inference_mode()
    def step(self) -> list[tuple[int, int]]:
        """Draw a token for every active row; (row, token) for each row that did not get eos."""
        logits = without(self._logits(self.active), self.models[0].hyper.special_tokens.never)
        context = [self.rows[row] for row in self.active]
        tokens = draw(logits, self.samplers, context, [self.generators[row] for row in self.active])
        new_tokens, eos = [], self.models[0].hyper.special_tokens.eos  # None, which no token is, where the vocabulary has none
        for row, token, log_p in zip(self.active, tokens, self._log_p(logits, tokens), strict=True):
            continuation = self.continuations[row]
            if token == eos:
                continuation.ended, continuation.log_p_eos = True, log_p
                continue
            self.rows[row].append(token)
            continuation.ids.append(token)
            continuation.log_p.append(log_p)
            new_tokens.append((row, token))
        self.active = [row for row, _ in new_tokens if len(self.continuations[row].ids) < self.ell_gen]
        return new_tokens

    def _log_p(self, logits: Tensor, tokens: list[int]) -> list[float]:
        """log P̂ of each row's token; NaN without `scored`."""
        if not self.scored:
            return [nan] * len(tokens)
        return [number(one) for one in token_log_probability(logits, torch.tensor(tokens, device=logits.device)).tolist()]

    def end(self, row: int) -> None:
        """Stop decoding this row."""
        self.continuations[row].ended = True
        self.active = [other for other in self.active if other != row]

    def finish(self) -> list[Continuation]:
        """Step until no row is active."""
        while self.active:
            self.step()
        return self.continuations

    def _logits(self, active: list[int]) -> Tensor:
        """The logits of what follows each of these rows."""
        ell_max = common_ell_max(self.models)
        beyond = [row for row in active if len(self.rows[row]) > ell_max]
        if not beyond:
            return self._cached(active)
        inside = [row for row in active if len(self.rows[row]) <= ell_max]
        parts = [self._cached(inside)] if inside else []
        parts.append(ensemble_logits([_windows(model, [self.rows[row][-ell_max:] for row in beyond]) for model in self.models]))
        order = {row: i for i, row in enumerate(inside + beyond)}
        return torch.cat(parts)[[order[row] for row in active]]

    def _cached(self, rows: list[int]) -> Tensor:
        active, groups = set(rows), {row // self.group_size for row in rows}
        if len(groups) * self.group_size <= len(self.cache_rows) // 2:  # drop the rows that have ended
            remaining = [i for i, row in enumerate(self.cache_rows) if row // self.group_size in groups]
            for cache in self.caches:
                cache.select(remaining)
            self.cache_rows = [self.cache_rows[i] for i in remaining]
        cached = self.caches[0].lengths
        new = [self.rows[row][cached[i] :] if row in active else [] for i, row in enumerate(self.cache_rows)]
        ids, lengths = padded(new, self.models[0].device)
        logits = ensemble_logits(
            [model.decode(ids, cache, lengths, last=True) for model, cache in zip(self.models, self.caches, strict=True)]
        )
        return logits if len(active) == len(self.cache_rows) else logits[[i for i, row in enumerate(self.cache_rows) if row in active]]


def without(logits: Tensor, never: tuple[int, ...]) -> Tensor:
    """Logits in which tokens that decoding never writes have none."""
    return logits if not never else logits.index_fill(1, torch.tensor(never, device=logits.device), -torch.inf)


def _windows(model: Decoder, rows: list[list[int]]) -> Tensor:
    """The logits of what follows the last ℓ_max tokens of longer rows: every position has moved, so the cache is of no use."""
    if isinstance(model, TextOnly):
        return model.window(torch.tensor(rows, device=model.device))
    assert isinstance(model, DTransformer)  # x̂ of a seq2seq model is at most ℓ_max tokens long
    X, _ = model.features(torch.tensor(rows, device=model.device))
    return model.logits(X.view(len(rows), -1, X.shape[1])[:, -1])


def padded(rows: Sequence[Sequence[int]], device: torch.device) -> tuple[Tensor, list[int] | None]:
    """Token IDs, B × ℓ, and the lengths of the rows; None if all rows are equally long."""
    lengths = [len(row) for row in rows]
    longest = max(lengths)
    ids = torch.tensor([[*row, *(0,) * (longest - len(row))] for row in rows], dtype=torch.long, device=device)
    return ids, None if min(lengths) == longest else lengths


def sample_generators(generator: torch.Generator | None, samples: int) -> tuple[torch.Generator, list[torch.Generator]]:
    """The generator, and one for each sample of a prompt: a copy of it for the first, others seeded by it for the rest."""
    generator = generator if generator is not None else torch.Generator().manual_seed(int(torch.randint(2**62, ())))
    copies = [_copy_generator(generator)]
    if samples > 1:
        seeds = torch.randint(2**62, (samples - 1,), generator=_copy_generator(generator), device=generator.device)
        copies += [torch.Generator(generator.device).manual_seed(seed) for seed in seeds.tolist()]
    return generator, copies


def _copy_generator(generator: torch.Generator) -> torch.Generator:
    copy = torch.Generator(generator.device)
    copy.set_state(generator.get_state())
    return copy


def by_length(rows: Sequence[Sized], size: int) -> Iterator[list[int]]:
    """The indices of the rows in batches of this size, sorted by length."""
    order = sorted(range(len(rows)), key=lambda i: len(rows[i]))
    return (order[i : i + size] for i in range(0, len(order), size))


def generate(
    model: DTransformer | Sequence[DTransformer],
    prompts: Sequence[Sequence[int]],
    *,
    ell_gen: int,
    tau: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    repetition_penalty: float = 1.0,
    generator: torch.Generator | None = None,
) -> list[list[int]]:
    """Algorithm 14 for a batch: the continuation of each prompt, at most ℓ_gen tokens, up to and without eos.

    Each row equals what its prompt gives alone with the same generator, and what `DInference` gives. An empty prompt starts from bos. Beyond
    ℓ_max tokens the model sees the last ℓ_max, and each further token costs a full pass. Several models are an ensemble. If there is much to
    generate on a CPU, the weights are packed first (`pack`), which takes a moment the first time.
    """
    samplers = sampler_chain(tau, top_k, top_p, repetition_penalty)
    results = continuations(model, prompts, samplers, ell_gen=ell_gen, generator=generator, scored=False)
    return [samples[0].ids for samples in results]


def continuations(
    model: DTransformer | Sequence[DTransformer],
    prompts: Sequence[Sequence[int]],
    samplers: Sequence[Sampler],
    *,
    ell_gen: int,
    samples: int = 1,
    generator: torch.Generator | None = None,
    scored: bool = True,
) -> list[list[Continuation]]:
    """Several samples of the continuation of each prompt, with their log P̂ if `scored`."""
    generator, generators = sample_generators(generator, samples)
    models = packed(as_models(model, DTransformer), len(prompts) * samples, integer("ell_gen", ell_gen, 0))
    results: list[list[Continuation]] = [[] for _ in prompts]
    for index in by_length(prompts, max(1, ROWS // samples)):
        decoding = begin(models, [prompts[i] for i in index], samplers, ell_gen=ell_gen, generators=generators, scored=scored)
        batch = decoding.finish()
        for k, i in enumerate(index):
            results[i] = batch[k * samples : (k + 1) * samples]
        if 0 in index:
            generator.set_state(decoding.generators[index.index(0) * samples].get_state())
    return results


@torch.inference_mode()
def begin(
    model: DTransformer | Sequence[DTransformer] | Sequence[TextOnly],
    prompts: Sequence[Sequence[int]],
    samplers: Sequence[Sampler],
    *,
    ell_gen: int,
    generators: Sequence[torch.Generator],
    scored: bool = True,
) -> Decoding:
    """Start decoding all prompts together: one sample of each prompt for every generator, from a copy of it."""
    ell_gen = integer("ell_gen", ell_gen, 0)
    mixed = [each for each in model if isinstance(each, TextOnly)] if isinstance(model, Sequence) else []
    models: list[DTransformer | TextOnly] = [*(mixed or as_models(model, DTransformer))]  # type: ignore[arg-type]
    ell_max, samples = common_ell_max(models), len(generators)
    rows = [list(prompt) or [models[0].hyper.bos_token] for prompt in prompts]
    room = min(ell_max, max(map(len, rows)) + ell_gen)
    caches = [each.cache(len(rows), room) for each in models]
    if samples > 1:  # all samples of a prompt share the prefill of everything before its last token
        ids, lengths = padded([row[:-1] if len(row) <= ell_max else [] for row in rows], models[0].device)
        for each, cache in zip(models, caches, strict=True):
            if ids.shape[1]:
                each.decode(ids, cache, lengths, last=True)
            cache.repeat(samples)
    copies = [_copy_generator(generator) for _ in rows for generator in generators]
    return Decoding(models, [row for row in rows for _ in range(samples)], caches, samplers, copies, ell_gen, scored=scored)
