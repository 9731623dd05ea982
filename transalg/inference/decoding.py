"""Token by token, with the cache: each row goes on until eos, or until it is as long as it may be."""

from collections.abc import Sequence

import torch
from torch import Tensor

from transalg.formal.domains import refuse
from transalg.model import DTransformer, EDTransformer


@torch.no_grad()
def generate(
    model: DTransformer, prompts: Sequence[Sequence[int]], *, ell_gen: int, tau: float = 1.0, generator: torch.Generator | None = None
) -> list[list[int]]:
    """Algorithm 14 for a batch: what follows each prompt, ℓ_gen tokens at most, up to and without eos. τ = 0 takes the most probable token."""
    if not tau >= 0:
        raise refuse("tau", "a number in [0, ∞]", tau)
    rows = [list(prompt) or [model.hyper.bos_token] for prompt in prompts]
    lengths = [len(row) for row in rows]
    room = min(model.hyper.ell_max, max(lengths) + ell_gen)
    if max(lengths) > model.hyper.ell_max:
        raise refuse("prompts", f"at most ℓ_max = {model.hyper.ell_max} tokens each", max(lengths))
    cache = model.cache(len(rows), room)
    ids = torch.zeros(len(rows), max(lengths), dtype=torch.long, device=model.W_e.device)
    for i, row in enumerate(rows):
        ids[i, : len(row)] = torch.tensor(row)
    logits = model.decode(ids, cache, lengths)
    logits = logits[torch.arange(len(rows)), torch.tensor(lengths) - 1]
    found: list[list[int]] = [[] for _ in rows]
    going = [True] * len(rows)
    for _ in range(ell_gen):
        following = pick(logits, tau, generator)
        for i, one in enumerate(following.tolist()):
            going[i] = going[i] and one != model.hyper.eos_token
            if going[i]:
                found[i].append(one)
        going = [still and cache.lengths[i] < room for i, still in enumerate(going)]
        if not any(going):
            break
        logits = model.decode(following[:, None], cache, [int(still) for still in going])[:, 0]
    return found


def pick(logits: Tensor, tau: float, generator: torch.Generator | None) -> Tensor:
    """A token for each row: drawn from the softmax of logits / τ, or the most probable one if τ = 0."""
    if tau == 0:
        return logits.argmax(dim=1)
    precise = logits.to(torch.promote_types(logits.dtype, torch.float32))
    P = torch.softmax((precise - precise.amax(dim=1, keepdim=True)) / tau, dim=1)
    return torch.multinomial(P, 1, generator=generator)[:, 0]


@torch.no_grad()
def predict(models: Sequence[EDTransformer], z: Tensor, z_lengths: Sequence[int], *, ell: int | None = None) -> list[list[int]]:
    """Algorithm 15 with τ = 0 for a batch: x̂ of every z, up to and without eos. P̂ is the mean over the models, if there are several."""
    hyper = models[0].hyper
    room = hyper.ell_max if ell is None else min(ell, hyper.ell_max)
    caches = [model.cache(z, list(z_lengths), room) for model in models]
    found: list[list[int]] = [[] for _ in z_lengths]
    going = [True] * len(found)
    following = torch.full((len(found),), hyper.bos_token, dtype=torch.long, device=z.device)
    for _ in range(room):
        count = [int(still) for still in going]
        each = [model.decode(following[:, None], cache, count)[:, 0] for model, cache in zip(models, caches, strict=True)]
        P = each[0] if len(each) == 1 else torch.stack([torch.softmax(logits.double(), dim=1) for logits in each]).mean(dim=0)
        following = P.argmax(dim=1)
        for i, one in enumerate(following.tolist()):
            going[i] = going[i] and one != hyper.eos_token
            if going[i]:
                found[i].append(one)
        if not any(going):
            break
    return found
