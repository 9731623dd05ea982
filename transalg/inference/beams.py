"""Algorithm 15 for batches: x̂ for every z, by sampling, greedily, or by beam search. z is encoded once."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from transalg.checks import integer, real
from transalg.cpu import packed
from transalg.data.files import Progress, no_progress
from transalg.inference.decoding import Continuation, Decoding, by_length, padded, sample_generators, without
from transalg.inference.ensemble import as_models, common_ell_max
from transalg.inference.results import number
from transalg.inference.samplers import Sampler, Temperature, sampler_chain
from transalg.model import Cache, EDTransformer
from transalg.tasks.predictions import ensemble_logits

ROWS = 64  # z that are decoded together


@dataclass(frozen=True)
class Hypothesis:
    """An x̂ of a beam search, up to and without eos, and its score."""

    ids: list[int]
    log_p: float  # log P̂(x̂ | z), including eos if it ended
    score: float  # log_p / ℓ^α, where ℓ counts eos
    ended: bool  # by eos


def predict(
    model: EDTransformer | Sequence[EDTransformer],
    z: Sequence[Sequence[int]],
    *,
    beams: int = 1,
    alpha: float = 1.0,
    ell_gen: int | None = None,
    tau: float = 0.0,
    top_k: int | None = None,
    top_p: float | None = None,
    repetition_penalty: float = 1.0,
    generator: torch.Generator | None = None,
) -> list[list[int]]:
    """Algorithm 15 for a batch: x̂ of every z, up to and without eos; by beam search if beams > 1. Several models are an ensemble."""
    if not is_sampled(beams, tau, top_k, top_p, repetition_penalty) and beams > 1:
        return [best[0].ids for best in search(model, z, beams=beams, alpha=alpha, ell_gen=ell_gen)]
    samplers = sampler_chain(tau, top_k, top_p, repetition_penalty)
    return [samples[0].ids for samples in sample(model, z, samplers, ell_gen=ell_gen, generator=generator)]


def is_sampled(beams: int, tau: float, top_k: int | None, top_p: float | None, repetition_penalty: float) -> bool:
    """Whether these options are for sampling rather than for beam search; a ValueError if they are for both."""
    sampled = bool(tau) or top_k is not None or top_p is not None or repetition_penalty != 1
    if integer("beams", beams, 1) > 1 and sampled:
        raise ValueError("beams: beam search does not sample; give beams, or tau, top_k, top_p and repetition_penalty")
    return sampled


@torch.inference_mode()
def sample(
    model: EDTransformer | Sequence[EDTransformer],
    z: Sequence[Sequence[int]],
    samplers: Sequence[Sampler],
    *,
    ell_gen: int | None = None,
    samples: int = 1,
    generator: torch.Generator | None = None,
    progress: Progress = no_progress,
) -> list[list[Continuation]]:
    """Several samples of x̂ for every z, each z as if it were alone."""
    models, room = _checked(model, ell_gen)
    models = packed(models, len(z) * samples, len(z) * room)
    generator, last = sample_generators(generator, samples)
    results: list[list[Continuation]] = [[] for _ in z]
    for index in by_length(z, max(1, ROWS // samples)):
        caches = _caches(models, [z[i] for i in index], room)
        for cache in caches:
            cache.repeat(samples)
        generators = [copy for _ in index for copy in sample_generators(generator, samples)[1]]
        bos = [[models[0].hyper.bos_token]] * len(generators)
        batch = Decoding(models, bos, caches, samplers, generators, room, group_size=samples).finish()
        for k, i in enumerate(index):
            results[i] = batch[k * samples : (k + 1) * samples]
        if 0 in index:
            last = generators[index.index(0) * samples :]
        progress(len(index))
    if z:
        generator.set_state(last[0].get_state())
    return results


@dataclass
class SearchState:
    """The beam search for one z: its beams, best first, and the hypotheses that have ended."""

    index: int
    beams: list[tuple[list[int], float]]  # tokens after bos, log P̂
    greedy: int | None = 0  # the beam that greedy decoding follows; −1 once it has ended; None once it has fallen out of the beams
    ended: list[Hypothesis] = field(default_factory=list)


@torch.inference_mode()
def search(
    model: EDTransformer | Sequence[EDTransformer],
    z: Sequence[Sequence[int]],
    *,
    beams: int,
    alpha: float = 1.0,
    ell_gen: int | None = None,
    n_best: int = 1,
    progress: Progress = no_progress,
) -> list[list[Hypothesis]]:
    """Beam search: the n best x̂ of every z, best first, by log P̂ / ℓ^α.

    The search for a z ends when as many hypotheses have ended as there are beams and no beam is better, at its present length, than the worst
    of them. The result of greedy decoding is always a candidate, so the best is never worse than it; with 1 beam it is the result.
    """
    models, room = _checked(model, ell_gen)
    integer("beams", beams, 1)
    integer("n_best", n_best, 1, beams, limit="beams")
    real("alpha", alpha, "[0, ∞)")
    models = packed(models, len(z) * beams, len(z) * room)
    results: list[list[Hypothesis]] = [[] for _ in z]
    for index in by_length(z, ROWS):
        states, caches = [SearchState(i, [([], 0.0)]) for i in index], _caches(models, [z[i] for i in index], room)
        lost = _search(models, states, caches, beams, alpha, room)
        for state in states:
            results[state.index] = _best(state.ended, n_best)
        for i, greedy in lost.items():
            if greedy.ids not in [hypothesis.ids for hypothesis in results[i]]:
                results[i] = _best([*results[i], greedy], n_best)
        progress(len(index))
    return results


def _best(hypotheses: list[Hypothesis], count: int) -> list[Hypothesis]:
    return sorted(hypotheses, key=lambda hypothesis: -hypothesis.score)[:count]


def _search(
    models: list[EDTransformer], states: list[SearchState], caches: list[Cache], beams: int, alpha: float, room: int
) -> dict[int, Hypothesis]:
    """Run the search to its end. Returns, by the index of z, the result of greedy decoding where it fell out of the beams."""
    beam_caches = [cache.restarted(range(len(states))) for cache in caches]  # `caches` stay empty for greedy decoding
    for cache in beam_caches:
        cache.repeat(beams)
    bos, eos = models[0].hyper.bos_token, models[0].hyper.special_tokens.eos
    active = list(states)
    tokens, lost = [[bos] * beams for _ in active], list[int]()
    for ell in range(1, room + 1):
        ids = torch.tensor([token for row in tokens for token in row], device=models[0].device)[:, None]
        logits = ensemble_logits([model.decode(ids, cache, last=True) for model, cache in zip(models, beam_caches, strict=True)])
        log_P, candidates = _candidates(without(logits, models[0].hyper.special_tokens.never), 2 * beams)
        cache_rows, still_active = list[int](), list[SearchState]()
        for i, state in enumerate(active):
            first, end = i * beams, i * beams + len(state.beams)
            parents = _extend(state, log_P[first:end], candidates[first:end], beams, alpha, ell, eos)
            if ell == room or _done(state, beams, alpha, ell):
                state.ended += [_hypothesis(x, log_p, ell, alpha, False) for x, log_p in state.beams] if ell == room else []
                if state.greedy is None:
                    lost.append(state.index)
            else:
                still_active.append(state)
                cache_rows += [first + parent for parent in _pad_beams(parents, beams)]
        if not still_active:
            break
        for cache in beam_caches:
            if len(still_active) < len(active):
                cache.select(cache_rows)
            else:
                cache.reorder(cache_rows)
        active = still_active
        tokens = [_pad_beams([x[-1] for x, _ in state.beams], beams) for state in active]
    if not lost:
        return {}
    position = {state.index: i for i, state in enumerate(states)}
    greedy_caches = [cache.restarted([position[i] for i in lost]) for cache in caches]
    generators = [torch.Generator()] * len(lost)
    greedy = Decoding(models, [[bos]] * len(lost), greedy_caches, (Temperature(0),), generators, room).finish()
    return {i: _greedy(continuation, alpha) for i, continuation in zip(lost, greedy, strict=True)}


def _pad_beams(values: list[int], beams: int) -> list[int]:
    """One value for each beam: the last is repeated for beams that are not in use."""
    return values + values[-1:] * (beams - len(values))


def _candidates(logits: Tensor, count: int) -> tuple[list[list[float]], list[list[int]]]:
    """log P̂ of the most probable next tokens of every row, and these tokens."""
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    best, token = logits.topk(min(count, logits.shape[1]), dim=1)
    log_P = best.double() - torch.logsumexp(logits, dim=1, keepdim=True).double()
    return log_P.tolist(), token.tolist()


def _extend(
    state: SearchState, log_P: list[list[float]], candidates: list[list[int]], beams: int, alpha: float, ell: int, eos: int | None
) -> list[int]:
    """Replace the beams by their best extensions by one token; the old beam that each new one extends."""
    extensions = [
        (before + log_p, parent, token)
        for parent, (_, before) in enumerate(state.beams)
        for log_p, token in zip(log_P[parent], candidates[parent], strict=True)
    ]
    extensions.sort(key=lambda extension: -extension[0])  # stable: the first of equals comes first
    old, greedy = state.beams, state.greedy
    state.beams, parents, state.greedy = [], [], None
    for rank, (log_p, parent, token) in enumerate(extensions):
        is_greedy = parent == greedy and token == candidates[parent][0]
        if token == eos:
            if rank < beams:
                state.ended.append(_hypothesis(old[parent][0], log_p, ell, alpha, True))
                if is_greedy:
                    state.greedy = -1
            continue
        if is_greedy:
            state.greedy = len(state.beams)
        state.beams.append(([*old[parent][0], token], log_p))
        parents.append(parent)
        if len(state.beams) == beams:
            break
    state.greedy = -1 if greedy == -1 else state.greedy
    state.ended = _best(state.ended, beams)
    return parents


def _done(state: SearchState, beams: int, alpha: float, ell: int) -> bool:
    """Whether as many hypotheses have ended as there are beams, the worst no worse than the best beam at its present length."""
    if not state.beams:
        return True
    return len(state.ended) >= beams and state.ended[-1].score >= state.beams[0][1] / ell**alpha


def _hypothesis(ids: list[int], log_p: float, ell: int, alpha: float, ended: bool) -> Hypothesis:
    return Hypothesis(ids, number(log_p), log_p / ell**alpha, ended)


def _greedy(continuation: Continuation, alpha: float) -> Hypothesis:
    log_p = sum(continuation.log_p) + (continuation.log_p_eos or 0.0)
    return _hypothesis(continuation.ids, log_p, len(continuation.ids) + continuation.ended, alpha, continuation.ended)


def _checked(model: EDTransformer | Sequence[EDTransformer], ell_gen: int | None) -> tuple[list[EDTransformer], int]:
    models = as_models(model, EDTransformer)
    ell_max = common_ell_max(models)
    return models, ell_max if ell_gen is None else min(integer("ell_gen", ell_gen, 1), ell_max)


def _caches(models: list[EDTransformer], z: list[Sequence[int]], room: int) -> list[Cache]:
    ids, lengths = padded(z, models[0].device)
    return [model.cache(ids, lengths, room) for model in models]
