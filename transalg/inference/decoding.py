"""Algorithms 14 and 15 for batches, token by token with the cache: each row goes on until eos, or until it is as long as it may be."""

from collections.abc import Iterator, Sequence, Sized
from dataclasses import dataclass, field
from math import nan
from typing import Any

import torch
from torch import Tensor

from transalg.cpu import packed
from transalg.formal.domains import refuse
from transalg.inference.ensemble import together
from transalg.inference.samplers import Sampler, draw, samplers
from transalg.model import Cache, DTransformer, EDTransformer

ROWS = 64  # that go on together; the others wait, which changes nothing but the memory


@dataclass
class Continuation:
    """What came behind a prompt, up to and without eos."""

    ids: list[int] = field(default_factory=list)
    log_p: list[float] = field(default_factory=list)  # log P̂ of each of them, as the model has it, whatever the samplers made of it
    ended: bool = False  # by eos, or by whoever asked for an end; not by its length
    log_p_eos: float | None = None  # of eos, if it came


class Decoding:
    """Rows that go on together, each as if it were alone. `step` gives one more token to every row that is still going."""

    def __init__(
        self,
        models: Sequence[Any],
        rows: Sequence[Sequence[int]],
        caches: Sequence[Cache],
        chosen: Sequence[Sampler],
        generators: Sequence[torch.Generator],
        ell_gen: int,
        size: int = 1,
        scored: bool = True,
    ) -> None:
        """`size` rows after one another have one z, whose keys and values the caches hold once. Without `scored`, log P̂ is not computed."""
        self.size, self.scored = size, scored
        self.models, self.caches, self.chosen, self.generators, self.ell_gen = models, caches, chosen, generators, ell_gen
        self.rows = [list(row) for row in rows]
        self.found = [Continuation() for _ in rows]
        self.going = list(range(len(rows))) if ell_gen > 0 else []
        self.held = list(range(len(rows)))  # which row each of the caches' rows is

    @torch.inference_mode()
    def step(self) -> list[tuple[int, int]]:
        """One more token for every row that is going: which row got which. A row that got eos has ended and is not among them."""
        logits = self._logits(self.going)
        context = [self.rows[row] for row in self.going]
        tokens = draw(logits, self.chosen, context, [self.generators[row] for row in self.going])
        came = []
        for row, token, log_p in zip(self.going, tokens, self._log_p(logits, tokens), strict=True):
            found = self.found[row]
            if token == self.models[0].hyper.eos_token:
                found.ended, found.log_p_eos = True, log_p
                continue
            self.rows[row].append(token)
            found.ids.append(token)
            found.log_p.append(log_p)
            came.append((row, token))
        self.going = [row for row, _ in came if len(self.found[row].ids) < self.ell_gen]
        return came

    def _log_p(self, logits: Tensor, tokens: list[int]) -> list[float]:
        """log P̂ of a token for each row; NaN if nobody asked for it."""
        if not self.scored:
            return [nan] * len(tokens)
        of_tokens = logits.gather(1, torch.tensor(tokens, device=logits.device)[:, None])[:, 0]
        found: list[float] = (of_tokens - torch.logsumexp(logits, dim=1)).tolist()
        return found

    def end(self, row: int) -> None:
        """This row is done."""
        self.found[row].ended = True
        self.going = [one for one in self.going if one != row]

    def finish(self) -> list[Continuation]:
        """All steps to the end."""
        while self.going:
            self.step()
        return self.found

    def _logits(self, going: list[int]) -> Tensor:
        """Of what follows each of these rows."""
        ell_max = shortest(self.models)
        beyond = [row for row in going if len(self.rows[row]) > ell_max]
        if not beyond:
            return self._cached(going)
        inside = [row for row in going if len(self.rows[row]) <= ell_max]
        parts = [self._cached(inside)] if inside else []
        parts.append(together([_windows(model, [self.rows[row][-ell_max:] for row in beyond]) for model in self.models]))
        order = {row: i for i, row in enumerate(inside + beyond)}
        return torch.cat(parts)[[order[row] for row in going]]

    def _cached(self, going: list[int]) -> Tensor:
        active, groups = set(going), {row // self.size for row in going}
        if len(groups) * self.size <= len(self.held) // 2:  # the others are done: forget them
            keep = [i for i, row in enumerate(self.held) if row // self.size in groups]
            for cache in self.caches:
                cache.select(keep)
            self.held = [self.held[i] for i in keep]
        have = self.caches[0].lengths
        new = [self.rows[row][have[i] :] if row in active else [] for i, row in enumerate(self.held)]
        ids, lengths = padded(new, self.models[0].device)
        logits = together([model.decode(ids, cache, lengths, last=True) for model, cache in zip(self.models, self.caches, strict=True)])
        return logits if len(active) == len(self.held) else logits[[i for i, row in enumerate(self.held) if row in active]]


def _windows(model: DTransformer, rows: list[list[int]]) -> Tensor:
    """The logits behind the last ℓ_max tokens of rows that are longer: every position has moved, so nothing of a cache holds."""
    X, _ = model.features(torch.tensor(rows, device=model.device))
    return model.logits(X.view(len(rows), -1, X.shape[1])[:, -1])


def padded(rows: Sequence[Sequence[int]], device: torch.device) -> tuple[Tensor, list[int] | None]:
    """Token IDs, B × ℓ, and the rows' lengths, None if they are alike."""
    lengths = [len(row) for row in rows]
    longest = max(lengths)
    ids = torch.tensor([[*row, *(0,) * (longest - len(row))] for row in rows], dtype=torch.long, device=device)
    return ids, None if min(lengths) == longest else lengths


def as_models(models: Any, kind: type[DTransformer] | type[EDTransformer]) -> list[Any]:
    """One model or several, of this kind and of one vocabulary."""
    found: list[Any] = [models] if isinstance(models, torch.nn.Module) else list(models)
    if not found or not all(isinstance(model, kind) for model in found):
        raise refuse("model", f"a {kind.__name__}, or several", [type(model).__name__ for model in found])
    if len({model.hyper.N_V for model in found}) > 1:
        raise refuse("models", "models of one vocabulary", [f"N_V = {model.hyper.N_V}" for model in found])
    return found


def shortest(models: Sequence[Any]) -> int:
    """How many tokens all of them take."""
    return min(int(model.hyper.ell_max) for model in models)


def own_numbers(generator: torch.Generator | None, samples: int) -> tuple[torch.Generator, list[torch.Generator]]:
    """The generator, and one for every sample of a prompt: a twin of it for the first, seeded by it for the others."""
    generator = generator if generator is not None else torch.Generator().manual_seed(int(torch.randint(2**62, ())))
    twins = [_twin(generator)]
    if samples > 1:
        seeds = torch.randint(2**62, (samples - 1,), generator=_twin(generator), device=generator.device)
        twins += [torch.Generator(generator.device).manual_seed(seed) for seed in seeds.tolist()]
    return generator, twins


def _twin(generator: torch.Generator) -> torch.Generator:
    twin = torch.Generator(generator.device)
    twin.set_state(generator.get_state())
    return twin


def by_length(rows: Sequence[Sized], size: int) -> Iterator[list[int]]:
    """The rows' indices, those of like length together, so many at a time."""
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
    """Algorithm 14 for a batch: what follows each prompt, ℓ_gen tokens at most, up to and without eos.

    Every row is what it would be alone with the same generator, and what `DInference` gives. An empty prompt starts from bos; beyond ℓ_max
    tokens the last ℓ_max count, and each further token costs a whole pass. Several models are an ensemble. For long texts the model's matrices
    are put in the order that is fastest, by `pack`, which takes a moment the first time.
    """
    chosen = samplers(tau, top_k, top_p, repetition_penalty)
    return [found[0].ids for found in continuations(model, prompts, chosen, ell_gen=ell_gen, generator=generator, scored=False)]


def continuations(
    model: DTransformer | Sequence[DTransformer],
    prompts: Sequence[Sequence[int]],
    chosen: Sequence[Sampler],
    *,
    ell_gen: int,
    samples: int = 1,
    generator: torch.Generator | None = None,
    scored: bool = True,
) -> list[list[Continuation]]:
    """So many samples of what follows each prompt, drawn by these samplers, and their log P̂ if `scored`."""
    generator, twins = own_numbers(generator, samples)
    models = packed(as_models(model, DTransformer), len(prompts) * samples, _whole(ell_gen))
    results: list[list[Continuation]] = [[] for _ in prompts]
    for index in by_length(prompts, max(1, ROWS // samples)):
        decoding = begin(models, [prompts[i] for i in index], chosen, ell_gen=ell_gen, generators=twins, scored=scored)
        found = decoding.finish()
        for k, i in enumerate(index):
            results[i] = found[k * samples : (k + 1) * samples]
        if 0 in index:
            generator.set_state(decoding.generators[index.index(0) * samples].get_state())
    return results


def _whole(ell_gen: int) -> int:
    if isinstance(ell_gen, bool) or not isinstance(ell_gen, int) or ell_gen < 0:
        raise refuse("ell_gen", "how many tokens, 0 or more", ell_gen)
    return ell_gen


@torch.inference_mode()
def begin(
    model: DTransformer | Sequence[DTransformer],
    prompts: Sequence[Sequence[int]],
    chosen: Sequence[Sampler],
    *,
    ell_gen: int,
    generators: Sequence[torch.Generator],
    scored: bool = True,
) -> Decoding:
    """All prompts at once, as many samples of each as there are generators, whose twins they draw with."""
    models, ell_gen = as_models(model, DTransformer), _whole(ell_gen)
    ell_max, samples = shortest(models), len(generators)
    rows = [list(prompt) or [models[0].hyper.bos_token] for prompt in prompts]
    room = min(ell_max, max(map(len, rows)) + ell_gen)
    caches = [each.cache(len(rows), room) for each in models]
    if samples > 1:  # what comes before the last token of a prompt is the same for all of its samples
        ids, lengths = padded([row[:-1] if len(row) <= ell_max else [] for row in rows], models[0].device)
        for each, cache in zip(models, caches, strict=True):
            if ids.shape[1]:
                each.decode(ids, cache, lengths, last=True)
            cache.repeat(samples)
    twins = [_twin(one) for _ in rows for one in generators]
    return Decoding(models, [row for row in rows for _ in range(samples)], caches, chosen, twins, ell_gen, scored=scored)
