"""Laws of anyone's module, from outside: what must change P, what must not, and gradients that are those of the values."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from transalg.verify.adapters import Adapter, in_double, tensor
from transalg.verify.batches import Batch
from transalg.verify.findings import Finding

BOUND = 1e-8  # in float64, of what must not change
TINY = 1e-13  # less than this is no change
STEP, SLOPE = 1e-6, 1e-5  # of finite differences: the step, and how far from the gradient they may be, by its norm
SHOWN = 4  # names in a message
TOKENS = 1024  # of a vocabulary that are tried, at most


@dataclass(frozen=True)
class Subject:
    """A module and what it is tried on."""

    module: nn.Module
    like: str
    adapter: Adapter
    N_V: int
    ell: int  # the longest sequence
    generator: torch.Generator

    @property
    def causal(self) -> bool:
        return self.like in ("DTransformer", "EDTransformer")

    def ids(self, rows: int, ell: int) -> Tensor:
        return torch.randint(self.N_V, (rows, ell), generator=self.generator)

    def batch(self, lengths: tuple[int, ...]) -> Batch:
        """Random rows of these lengths; of an encoder–decoder with contexts of the same lengths, in the other order."""
        x = self.ids(len(lengths), max(lengths))
        if self.like != "EDTransformer":
            return Batch(x, lengths)
        return Batch(x, lengths, self.ids(len(lengths), max(lengths)), lengths[::-1])

    def ragged(self) -> Batch:
        """Rows of different lengths, where the module can take them: a mask, or causality, makes padding invisible."""
        lengths = (self.ell, 1, self.ell - 2)
        if self.adapter.has_mask or self.like == "DTransformer":
            return self.batch(lengths)
        return self.batch((self.ell,) * len(lengths))

    def log_p(self, batch: Batch) -> list[Tensor]:
        """For every row log P, ℓ × N_V; log p of the classes for a classifier."""
        output = self.adapter.output(self.module, batch)
        log_p = output.clamp(min=0).log() if are_probabilities(output) else output.log_softmax(dim=-1)
        return list(log_p) if self.like == "Classifier" else [row[:length] for row, length in zip(log_p, batch.x_lengths, strict=True)]

    def other(self, ids: Tensor, at: int | slice) -> Tensor:
        """Other tokens at this place."""
        changed = ids.clone()
        part = changed[:, at]
        changed[:, at] = (part + torch.randint(1, self.N_V, part.shape, generator=self.generator)) % self.N_V
        return changed


def are_probabilities(output: Tensor) -> bool:
    """Whether the numbers for all tokens are probabilities."""
    output = output.detach()
    return bool((output >= 0).all()) and torch.allclose(output.sum(-1), torch.ones((), dtype=output.dtype), rtol=0, atol=1e-6)


def difference(ours: list[Tensor], theirs: list[Tensor]) -> float:
    """The largest difference, by the largest of the numbers if that is more than 1; ∞ where one is not a number."""
    largest = torch.stack([(one - other).abs().max() for one, other in zip(ours, theirs, strict=True)]).max()
    scale = torch.stack([other.abs().max() for other in theirs]).max().clamp(min=1)
    return float((largest / scale).detach().nan_to_num(nan=float("inf")))


def _verdict(law: str, error: float, holds: str, broken: str) -> Finding:
    return Finding(law, "holds", holds, error) if error <= BOUND else Finding(law, "broken", f"{broken} (by {error:.1g})", error)


# What must not change P -------------------------------------------------------------------------------------------------


def runs(subject: Subject) -> Finding:
    """It takes a sequence of every length and returns a row for every token."""
    for ell in range(1, subject.ell + 1):
        try:
            output = subject.adapter.output(subject.module, subject.batch((ell,)))
        except Exception as error:
            reason = (str(error).splitlines() or [""])[0]
            return Finding(
                "runs", "broken", f"fails on a sequence of {ell}, of 1 to {subject.ell} tokens: {type(error).__name__}: {reason}"
            )
        expected = (1,) if subject.like == "Classifier" else (1, ell, subject.N_V)
        if tuple(output.shape[: len(expected)]) != expected or output.dim() != (2 if subject.like == "Classifier" else 3):
            shape = "1 × N_C" if subject.like == "Classifier" else " × ".join(map(str, expected))
            return Finding("runs", "broken", f"returns {' × '.join(map(str, output.shape))} for a sequence of {ell}; expected {shape}")
    return Finding("runs", "holds", f"on sequences of 1 to {subject.ell} tokens")


def repeatable(subject: Subject) -> Finding:
    batch = subject.ragged()
    error = difference(subject.log_p(batch), subject.log_p(batch))
    return _verdict("repeatable", error, "two passes are equal", "two passes of .eval() differ: something random, dropout say, is still on")


def distributions(subject: Subject) -> Finding:
    output = subject.adapter.output(subject.module, subject.batch((subject.ell,) * 3)).detach()
    if not output.isfinite().all():
        return Finding("distributions", "broken", "some logits are not finite")
    if are_probabilities(output):
        log_p = output.clamp(min=1e-300).log()
        if float((log_p.amax(-1) - log_p.amin(-1)).max()) <= 1:
            return Finding(
                "distributions", "broken", "no two log P̂ of a position differ by more than 1, as after a second softmax, of probabilities"
            )
        return Finding("distributions", "holds", "returns P̂, not logits: take its log for a loss; cross_entropy would be a second softmax")
    for axis, name in enumerate(("the rows of a batch", "positions")[: output.dim() - 1]):
        if (output >= 0).all() and torch.allclose(output.sum(axis), torch.ones((), dtype=output.dtype), rtol=0, atol=1e-6):
            return Finding("distributions", "broken", f"softmax is over {name}, not over the vocabulary")
    return Finding("distributions", "holds", "finite logits")


def causality(subject: Subject) -> Finding:
    batch = subject.batch((subject.ell,) * 3)
    before = subject.log_p(batch)
    for t in range(subject.ell - 1):
        after = subject.log_p(replace(batch, x=subject.other(batch.x, slice(t + 1, None))))
        error = difference([row[: t + 1] for row in after], [row[: t + 1] for row in before])
        if not error <= BOUND:
            return _verdict("causality", error, "", f"other tokens after t = {t + 1} change P[:, 1:{t + 1}]: a position sees later ones")
    return Finding("causality", "holds", "tokens after t do not change P[:, 1:t]")


def padding(subject: Subject) -> Finding:
    batch = subject.ragged()
    ours, theirs = (_with_gradients(subject, batch.disturbed(fill)) for fill in (0, subject.N_V - 1))
    return _verdict(
        "padding", difference(ours, theirs), "tokens in the padding change neither P nor gradients", "tokens in the padding matter"
    )


def _with_gradients(subject: Subject, batch: Batch) -> list[Tensor]:
    log_p = subject.log_p(batch)
    return [*log_p, *gradients(subject.module, torch.cat([row.flatten() for row in log_p]).square().mean()).values()]


def composition(subject: Subject) -> Finding:
    batch = subject.ragged()
    alone = []
    for row, length in enumerate(batch.x_lengths):
        one = batch.select([row])
        one = replace(one, x=one.x[:, :length])
        if one.z is not None and one.z_lengths is not None:
            one = replace(one, z=one.z[:, : one.z_lengths[0]])
        alone += subject.log_p(one)
    return _verdict(
        "batch",
        difference(subject.log_p(batch), alone),
        "a row alone is what it is among others",
        "a row alone is not what it is among others",
    )


def order(subject: Subject) -> Finding:
    batch = subject.ragged()
    backwards = subject.log_p(batch.select(range(len(batch.x))[::-1]))[::-1]
    return _verdict("order", difference(subject.log_p(batch), backwards), "the order of rows does not matter", "the order of rows matters")


def cache(subject: Subject) -> Finding:
    step = subject.adapter.step
    if step is None:
        return Finding("cache", "not checked", "no way to decode is known; give step=")
    batch = subject.batch((subject.ell,) * 3)
    expected, state, logits = subject.log_p(batch), None, []
    for t in range(subject.ell):
        inputs = [batch.x[:, t : t + 1]] if batch.z is None else [batch.z, batch.x[:, t : t + 1]]
        with in_double():
            output, state = step(subject.module, *inputs, state)
            logits.append(tensor(output)[:, -1])
    error = difference(list(torch.stack(logits, 1).log_softmax(-1)), expected)
    return _verdict(
        "cache", error, "decoding token by token gives what one pass gives", "decoding token by token is not what one pass gives"
    )


# What must change P -----------------------------------------------------------------------------------------------------


def context(subject: Subject) -> Finding:
    """P of a position depends on the tokens that it has to see: its own, its neighbours, every token of a context."""
    batch = subject.batch((subject.ell,) * 3)
    before = torch.stack(subject.log_p(batch))

    def unchanged(changed: Batch) -> Tensor:
        moved = (torch.stack(subject.log_p(changed)) - before).abs().amax(dim=-1)
        return moved <= TINY

    for s in range(subject.ell):
        same = unchanged(replace(batch, x=subject.other(batch.x, s)))
        if subject.like == "Classifier":
            if same.any():
                return Finding("context", "broken", f"another token at {s + 1} does not change P̂ of the classes")
            continue
        for t in range(s if subject.causal else max(0, s - 1), min(s + 2, subject.ell)):
            if same[:, t].any():
                return Finding("context", "broken", f"another token at {s + 1} does not change P[:, {t + 1}], which has to see it")
    if batch.z is not None:
        for s in range(subject.ell):
            if unchanged(replace(batch, z=subject.other(batch.z, s))).any():
                return Finding("context", "broken", f"another token at {s + 1} of z does not change P")
    if tokens := _not_embedded(subject):
        return Finding(
            "context", "broken", f"nothing depends on the vectors of tokens {_listed(list(map(str, tokens)))}: they are not embedded"
        )
    return Finding("context", "holds", "P depends on the tokens it has to see")


def _not_embedded(subject: Subject) -> list[int]:
    """The tokens on whose vectors P does not depend, as a table of embeddings looks them up; not as a tied unembedding uses them."""
    looked_up: list[tuple[Tensor, Tensor]] = []

    def note(part: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> Tensor:
        looked_up.extend((ids, output) for ids in inputs[:1] if output.requires_grad)
        return output.clone()  # so that nobody changes what is noted

    tables = [part for part in subject.module.modules() if isinstance(part, nn.Embedding) and part.num_embeddings == subject.N_V]
    handles = [part.register_forward_hook(note) for part in tables]
    tokens = torch.randperm(subject.N_V, generator=subject.generator)[:TOKENS]
    rows = -(-len(tokens) // subject.ell)
    batch, ids = subject.batch((subject.ell,) * rows), tokens[torch.arange(rows * subject.ell) % len(tokens)].view(rows, subject.ell)
    try:
        log_p = subject.log_p(replace(batch, x=ids))
    finally:
        for handle in handles:
            handle.remove()
    if not looked_up:
        return []
    value = torch.stack(log_p).square().mean()
    used = torch.zeros(subject.N_V, dtype=torch.bool)
    for (at, _), part in zip(looked_up, torch.autograd.grad(value, [one for _, one in looked_up], allow_unused=True), strict=True):
        if part is not None:
            used[at[part.any(dim=-1)]] = True
    return sorted(tokens[~used[tokens]].tolist())


def positions(subject: Subject) -> Finding:
    batch = subject.batch((subject.ell,) * 3)
    before = torch.stack(subject.log_p(batch))
    for name in ("x", "z"):
        ids = getattr(batch, name)
        if ids is None:
            continue
        swapped, first = ids.clone(), subject.ell - 3
        swapped[:, first], swapped[:, first + 1] = ids[:, first + 1], ids[:, first]
        distinct = ids[:, first] != ids[:, first + 1]
        after = torch.stack(subject.log_p(replace(batch, **{name: swapped})))
        moved = (after - before).abs().flatten(1) if subject.like == "Classifier" else (after - before).abs()[:, -1]
        if (moved.amax(dim=-1) <= BOUND)[distinct].any():
            return Finding(
                "positions", "broken", f"two tokens of {name} that change places leave P after them as it was: it has no positions"
            )
    return Finding("positions", "holds", "the order of tokens matters")


# Parameters -------------------------------------------------------------------------------------------------------------


def sharing(subject: Subject) -> Finding:
    """Each parameter has one role in a pass; embeddings may have several."""
    calls: dict[str, int] = {}
    handles = []
    for name, part in subject.module.named_modules():
        own = list(part.parameters(recurse=False))
        if own and not isinstance(part, nn.Embedding) and not any({subject.N_V, subject.ell} & {*parameter.shape} for parameter in own):

            def count(*_: object, name: str = name) -> None:
                calls[name] = calls.get(name, 0) + 1

            handles.append(part.register_forward_hook(count))
    try:
        subject.adapter.output(subject.module, subject.batch((subject.ell,)))
    finally:
        for handle in handles:
            handle.remove()
    names = [f"{name} ({times} times)" for name, times in calls.items() if times > 1]
    by_tensor: dict[int, list[str]] = {}
    for name, parameter in subject.module.named_parameters(remove_duplicate=False):
        if subject.N_V not in parameter.shape:
            by_tensor.setdefault(id(parameter), []).append(name)
    names += [" = ".join(same) for same in by_tensor.values() if len(same) > 1]
    if names:
        return Finding("sharing", "broken", f"used more than once in a pass: {_listed(names)}; skip this law if that is meant")
    return Finding("sharing", "holds", "each parameter but embeddings has one use")


def gradient(subject: Subject) -> Finding:
    """Every parameter has a gradient, and it is the slope of the values."""
    batch = subject.batch((subject.ell,) * 3)
    weights = [torch.randn(row.shape, generator=subject.generator, dtype=torch.float64) for row in subject.log_p(batch)]

    def value() -> Tensor:
        return torch.stack([(row * weight).mean() for row, weight in zip(subject.log_p(batch), weights, strict=True)]).sum()

    by_name = gradients(subject.module, value())
    if not by_name:
        return Finding("gradients", "not checked", "no parameter is trained")
    if any(not part.isfinite().all() for part in by_name.values()):
        return Finding("gradients", "broken", "some gradients are not finite")
    norm = float(torch.stack([part.norm() for part in by_name.values()]).norm())
    tables = {f"{name}.weight" for name, part in subject.module.named_modules() if isinstance(part, nn.Embedding)}
    unused = [name for name, part in by_name.items() if not part.any() or (name not in tables and _has_unused_rows(part, subject, norm))]
    if unused:
        return Finding("gradients", "broken", f"nothing depends on {_listed(unused)}, or on rows of it")
    error = _slope(subject, by_name, value, list(by_name)) / norm
    if not error <= SLOPE:
        names = [name for name in by_name if not _slope(subject, by_name, value, [name]) / norm <= SLOPE]
        return Finding("gradients", "broken", f"the gradient is not the slope of P̂ (off by {error:.1g}) for {_listed(names)}", error)
    return Finding("gradients", "holds", "every parameter has one, and finite differences agree", error)


def gradients(module: nn.Module, value: Tensor) -> dict[str, Tensor]:
    """The gradient by every parameter that is trained; 0 for one that is not used."""
    named = {name: parameter for name, parameter in module.named_parameters() if parameter.requires_grad}
    if not named or not value.requires_grad:
        return {name: torch.zeros_like(parameter) for name, parameter in named.items()}
    parts = torch.autograd.grad(value, list(named.values()), allow_unused=True, retain_graph=True)
    return {name: torch.zeros_like(named[name]) if part is None else part for name, part in zip(named, parts, strict=True)}


def _has_unused_rows(part: Tensor, subject: Subject, norm: float) -> bool:
    """Whether the first rows or columns of a matrix have no effect but by rounding, as those of queries, keys and values in one may have.

    Not any of them: a unit of ReLU may be off for all tokens. Vectors are not looked at: the bias of keys never has an effect.
    """
    if part.dim() != 2 or subject.N_V in part.shape:
        return False
    zero = part.abs() <= TINY * norm
    return bool(zero.all(0)[: subject.ell].all() or zero.all(1)[: subject.ell].all())


@torch.no_grad()
def _slope(subject: Subject, by_name: dict[str, Tensor], value: Callable[[], Tensor], names: list[str]) -> float:
    """How far the gradient is from a finite difference in a random direction of these parameters."""
    named = dict(subject.module.named_parameters())
    directions = {name: torch.randn(named[name].shape, generator=subject.generator, dtype=torch.float64) for name in names}
    length = float(torch.stack([direction.norm() for direction in directions.values()]).norm())
    expected = sum(float((by_name[name] * direction).sum()) for name, direction in directions.items()) / length
    saved, values = {name: named[name].clone() for name in names}, []
    for sign in (1, -1):
        for name, direction in directions.items():
            named[name].copy_(saved[name] + sign * STEP * direction / length)
        values.append(float(value()))
    for name in names:
        named[name].copy_(saved[name])
    return abs((values[0] - values[1]) / (2 * STEP) - expected)


def _listed(names: list[str]) -> str:
    return ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")


LAWS: dict[str, Callable[[Subject], Finding]] = {
    "repeatable": repeatable,
    "distributions": distributions,
    "causality": causality,
    "context": context,
    "positions": positions,
    "padding": padding,
    "batch": composition,
    "order": order,
    "cache": cache,
    "sharing": sharing,
    "gradients": gradient,
}
