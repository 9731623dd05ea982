"""Algorithm 15 for batches: x̂ for every z, by sampling, greedily, or by a search with beams. z is encoded once."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf

import torch
from torch import Tensor

from transalg.cpu import packed
from transalg.formal.domains import refuse
from transalg.inference.decoding import Continuation, Decoding, as_models, by_length, own_numbers, padded, shortest
from transalg.inference.ensemble import together
from transalg.inference.samplers import Sampler, Temperature, samplers
from transalg.model import Cache, EDTransformer


@dataclass(frozen=True)
class Hypothesis:
    """An x̂ that a search found, up to and without eos, and how good it is."""

    ids: list[int]
    log_p: float  # log P̂(x̂ | z), with eos if it came
    score: float  # log_p / ℓ^α, where ℓ counts eos
    ended: bool  # with eos


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
    """Algorithm 15 for a batch: x̂ of every z, up to and without eos; the best of a search if beams > 1. Several models are an ensemble."""
    if beams != 1:
        if tau or top_k is not None or top_p is not None or repetition_penalty != 1:
            raise refuse("beams", "1 with tau, top_k, top_p or repetition_penalty: a search draws nothing", beams)
        return [found[0].ids for found in search(model, z, beams=beams, alpha=alpha, ell_gen=ell_gen)]
    chosen = samplers(tau, top_k, top_p, repetition_penalty)
    return [found[0].ids for found in samples(model, z, chosen, ell_gen=ell_gen, generator=generator)]


@torch.inference_mode()
def samples(
    model: EDTransformer | Sequence[EDTransformer],
    z: Sequence[Sequence[int]],
    chosen: Sequence[Sampler],
    *,
    ell_gen: int | None = None,
    count: int = 1,
    generator: torch.Generator | None = None,
    batch: int = 64,
) -> list[list[Continuation]]:
    """So many samples of x̂ for every z, drawn by these samplers; each z as if it were alone."""
    models, room = _checked(model, ell_gen)
    models = packed(models, len(z) * count, len(z) * room)
    generator, twins = own_numbers(generator, count)
    results: list[list[Continuation]] = [[] for _ in z]
    for index in by_length(z, max(1, batch // count)):
        caches = _caches(models, [z[i] for i in index], room)
        for cache in caches:
            cache.repeat(count)
        own = [one for _ in index for one in own_numbers(generator, count)[1]]
        decoding = Decoding(models, [[models[0].hyper.bos_token] for _ in own], caches, chosen, own, room, size=count)
        found = decoding.finish()
        for k, i in enumerate(index):
            results[i] = found[k * count : (k + 1) * count]
        if 0 in index:
            twins = own[index.index(0) * count :]
    if z:
        generator.set_state(twins[0].get_state())
    return results


@dataclass
class Sentence:
    """The search for one z: its beams, best first, and what has ended."""

    index: int
    beams: list[tuple[list[int], float]]  # tokens behind bos, log P̂
    greedy: int | None = 0  # the beam that greedy decoding would be, if it is still among them
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
    batch: int = 64,
) -> list[list[Hypothesis]]:
    """The n best x̂ of every z that a search with so many beams finds, best first, by log P̂ / ℓ^α.

    A z is done when no beam is better, at its present length, than the worst of as many ended ones as there are beams. What greedy decoding
    gives is always among the candidates, so that the best is never worse than it; with 1 beam it is the result.
    """
    models, room = _checked(model, ell_gen)
    if isinstance(beams, bool) or not isinstance(beams, int) or beams < 1:
        raise refuse("beams", "1 or more", beams)
    if isinstance(n_best, bool) or not isinstance(n_best, int) or not 1 <= n_best <= beams:
        raise refuse("n_best", f"1 to as many as there are beams, {beams}", n_best)
    if isinstance(alpha, bool) or not isinstance(alpha, int | float) or not 0 <= alpha < inf:
        raise refuse("alpha", "an exponent of the length, 0 or more", alpha)
    models = packed(models, len(z) * beams, len(z) * room)
    results: list[list[Hypothesis]] = [[] for _ in z]
    for index in by_length(z, batch):
        sentences, caches = [Sentence(i, [([], 0.0)]) for i in index], _caches(models, [z[i] for i in index], room)
        lost = _search(models, sentences, caches, beams, alpha, room)
        for sentence in sentences:
            results[sentence.index] = sorted(sentence.ended, key=lambda one: -one.score)[:n_best]
        for i, found in lost.items():
            best = [*results[i], found] if found.ids not in [one.ids for one in results[i]] else results[i]
            results[i] = sorted(best, key=lambda one: -one.score)[:n_best]
    return results


def _search(
    models: list[EDTransformer], sentences: list[Sentence], caches: list[Cache], beams: int, alpha: float, room: int
) -> dict[int, Hypothesis]:
    """Fills the sentences. What greedy decoding gives where it fell out of the beams, by the index of z."""
    groups = [cache.restarted(range(len(sentences))) for cache in caches]  # rows for the beams; `caches` stay for greedy decoding
    for cache in groups:
        cache.repeat(beams)
    bos, eos = models[0].hyper.bos_token, models[0].hyper.eos_token
    held = list(sentences)
    going = list(sentences)
    tokens, lost = [[bos] * beams for _ in held], list[int]()
    for ell in range(1, room + 1):
        ids = torch.tensor([one for row in tokens for one in row], device=models[0].device)[:, None]
        logits = together([model.decode(ids, cache, last=True) for model, cache in zip(models, groups, strict=True)])
        log_P, token = _candidates(logits, 2 * beams)
        order, still = list[list[int]](), list[Sentence]()
        for i, sentence in enumerate(held):
            rows = range(i * beams, i * beams + len(sentence.beams))
            order.append(_extend(sentence, [log_P[row] for row in rows], [token[row] for row in rows], beams, alpha, ell, eos))
            if ell == room or _done(sentence, beams, alpha, ell):
                sentence.ended += [_hypothesis(ids_, log_p, ell, alpha, False) for ids_, log_p in sentence.beams] if ell == room else []
                if sentence.greedy is None:
                    lost.append(sentence.index)
            else:
                still.append(sentence)
        if not still:
            break
        place = {id(sentence): i for i, sentence in enumerate(held)}
        rows_ = [place[id(sentence)] * beams + parent for sentence in still for parent in _filled(order[place[id(sentence)]], beams)]
        for cache in groups:
            if len(still) < len(held):
                cache.select(rows_)
            else:
                cache.reorder(rows_)
        held = still
        tokens = [_filled([ids_[-1] for ids_, _ in sentence.beams], beams) for sentence in held]
    place_of = {sentence.index: i for i, sentence in enumerate(going)}
    if not lost:
        return {}
    again = [cache.restarted([place_of[i] for i in lost]) for cache in caches]
    generators = [torch.Generator()] * len(lost)
    found = Decoding(models, [[bos]] * len(lost), again, (Temperature(0),), generators, room).finish()
    return {i: _greedy(one, alpha) for i, one in zip(lost, found, strict=True)}


def _filled(rows: list[int], beams: int) -> list[int]:
    """As many as there are beams; what is not in use doubles the last."""
    return rows + rows[-1:] * (beams - len(rows))


def _candidates(logits: Tensor, count: int) -> tuple[list[list[float]], list[list[int]]]:
    """The most probable next tokens of every row, and their log P̂."""
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    best, token = logits.topk(min(count, logits.shape[1]), dim=1)
    log_P = best.double() - torch.logsumexp(logits, dim=1, keepdim=True).double()
    return log_P.tolist(), token.tolist()


def _extend(
    sentence: Sentence, log_P: list[list[float]], token: list[list[int]], beams: int, alpha: float, ell: int, eos: int
) -> list[int]:
    """The sentence with its best beams one token longer; the rows they come from."""
    found = [
        (before + log_p, parent, one)
        for parent, (_, before) in enumerate(sentence.beams)
        for log_p, one in zip(log_P[parent], token[parent], strict=True)
    ]
    found.sort(key=lambda one: -one[0])  # stable: of what is alike, the first
    old, greedy = sentence.beams, sentence.greedy
    sentence.beams, parents, sentence.greedy = [], [], None
    for rank, (log_p, parent, one) in enumerate(found):
        follows = parent == greedy and one == token[parent][0]
        if one == eos:
            if rank < beams:
                sentence.ended.append(_hypothesis(old[parent][0], log_p, ell, alpha, True))
                if follows:
                    sentence.greedy = -1  # has ended, and is kept
            continue
        if follows:
            sentence.greedy = len(sentence.beams)
        sentence.beams.append(([*old[parent][0], one], log_p))
        parents.append(parent)
        if len(sentence.beams) == beams:
            break
    sentence.greedy = -1 if greedy == -1 else sentence.greedy
    sentence.ended = sorted(sentence.ended, key=lambda one: -one.score)[:beams]
    return parents


def _done(sentence: Sentence, beams: int, alpha: float, ell: int) -> bool:
    """Whether as many have ended as there are beams, the worst of them no worse than the best beam is now."""
    if not sentence.beams:
        return True
    return len(sentence.ended) >= beams and sentence.ended[-1].score >= sentence.beams[0][1] / ell**alpha


def _hypothesis(ids: list[int], log_p: float, ell: int, alpha: float, ended: bool) -> Hypothesis:
    return Hypothesis(ids, log_p, log_p / ell**alpha, ended)


def _greedy(found: Continuation, alpha: float) -> Hypothesis:
    log_p = sum(found.log_p) + (found.log_p_eos or 0.0)
    return _hypothesis(found.ids, log_p, len(found.ids) + found.ended, alpha, found.ended)


def _checked(model: EDTransformer | Sequence[EDTransformer], ell_gen: int | None) -> tuple[list[EDTransformer], int]:
    models = as_models(model, EDTransformer)
    ell_max = shortest(models)
    if ell_gen is not None and (isinstance(ell_gen, bool) or not isinstance(ell_gen, int) or ell_gen < 1):
        raise refuse("ell_gen", "how many tokens, 1 or more", ell_gen)
    return models, ell_max if ell_gen is None else min(ell_gen, ell_max)


def _caches(models: list[EDTransformer], z: list[Sequence[int]], room: int) -> list[Cache]:
    ids, lengths = padded(z, models[0].device)
    return [model.cache(ids, lengths, room) for model in models]
