"""Anyone's module against a formal algorithm, once its parameters are mapped to θ: P, gradients, and which component differs."""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from transalg.formal import DTheta, DTransformer, EDTheta, EDTransformer, ETheta, ETransformer
from transalg.formal.classification import EClassifier, ECTheta
from transalg.formal.theta import TransformerTheta
from transalg.verify.batches import Batch
from transalg.verify.findings import Finding
from transalg.verify.module_laws import BOUND, Subject, difference, gradients

ThetaMap = Callable[[dict[str, Tensor]], Mapping[str, Tensor] | TransformerTheta]
FORMAL: dict[str, tuple[type[TransformerTheta], Callable[..., Tensor]]] = {
    "DTransformer": (DTheta, DTransformer),
    "ETransformer": (ETheta, ETransformer),
    "EDTransformer": (EDTheta, EDTransformer),
    "Classifier": (ECTheta, EClassifier),
}
OUTPUTS = re.compile(r"(.*\.(?:W_o|W_mlp2|W_mlp4))$")  # the last matrices of sub-layers; their biases have b in the place of W


def against_formal(subject: Subject, theta_map: ThetaMap, formal: Callable[..., Tensor] | None) -> list[Finding]:
    """P and gradients of the module, and of the formal algorithm at the same θ."""
    try:
        names = _named_theta(subject, theta_map).named()
    except (ValueError, KeyError, IndexError, RuntimeError, TypeError, AttributeError) as error:
        return [
            Finding("theta", "broken", f"the parameters make no θ of {subject.like}: {type(error).__name__}: {str(error).splitlines()[0]}")
        ]
    findings = [_one_place(subject, theta_map, list(names))]
    algorithm = formal or FORMAL[subject.like][1]
    batch = subject.batch((subject.ell, 1, subject.ell - 2))
    if subject.like == "Classifier":
        batch.x[:, 0] = _named_theta(subject, theta_map).special_tokens.get("bos_token", 0)
    error = _of_P(subject, theta_map, algorithm, batch)
    if not error <= BOUND:
        where = _located(subject, theta_map, algorithm, batch, list(names))
        return [*findings, Finding("P", "broken", f"differs by {error:.1g} from the formal algorithm; {where}", error)]
    findings.append(Finding("P", "holds", "is that of the formal algorithm", error))
    return [*findings, _of_gradients(subject, theta_map, algorithm, batch)]


def _named_theta(subject: Subject, theta_map: ThetaMap) -> TransformerTheta:
    module = subject.module
    named = dict(module.named_parameters(remove_duplicate=False)) | dict(module.named_buffers(remove_duplicate=False))
    mapped = theta_map(named)
    return mapped if isinstance(mapped, TransformerTheta) else FORMAL[subject.like][0].from_named(dict(mapped))


def _one_place(subject: Subject, theta_map: ThetaMap, names: list[str]) -> Finding:
    """No parameter is in two places of θ, but that the unembedding may be tied."""
    places: dict[str, list[str]] = {}
    parts = _named_theta(subject, theta_map).named()
    for name in names:
        for parameter in _sources(subject, parts[name]):
            places.setdefault(parameter, []).append(name)
    for parameter, found in places.items():
        owners = {re.sub(r"\.[Wb]_\w+$", "", name) if "." in name else "" for name in found}
        if len(owners) > 1:
            return Finding("theta", "broken", f"{parameter} is in several places of θ: {', '.join(found[:4])}")
    return Finding("theta", "holds", f"{len(names)} parts, each from its own parameters")


def _sources(subject: Subject, part: Tensor) -> dict[str, Tensor]:
    """Which numbers of which parameters a part of θ is made of."""
    if not part.requires_grad:
        return {}
    weights = torch.rand(part.shape, generator=subject.generator, dtype=torch.float64) + 1
    by_parameter = gradients(subject.module, (part * weights).sum())
    return {parameter: gradient != 0 for parameter, gradient in by_parameter.items() if gradient.any()}


def _rows(batch: Batch) -> list[Batch]:
    """Every row as a batch without padding."""
    rows = []
    for row, length in enumerate(batch.x_lengths):
        one = batch.select([row])
        z = None if one.z is None or one.z_lengths is None else one.z[:, : one.z_lengths[0]]
        rows.append(Batch(one.x[:, :length], one.x_lengths, z, one.z_lengths))
    return rows


def _ours(subject: Subject, batch: Batch) -> list[Tensor]:
    return [row for one in _rows(batch) for row in subject.log_p(one)]


def _formal(subject: Subject, theta: TransformerTheta, algorithm: Callable[..., Tensor], batch: Batch) -> list[Tensor]:
    results = []
    for one in _rows(batch):
        inputs: list[Any] = [one.x[0]] if one.z is None else [one.z[0], one.x[0]]
        results.append(algorithm(*inputs, theta).log().mT if subject.like != "Classifier" else algorithm(*inputs, theta).log())
    return results


@torch.no_grad()
def _of_P(subject: Subject, theta_map: ThetaMap, algorithm: Callable[..., Tensor], batch: Batch) -> float:
    return difference(_ours(subject, batch), _formal(subject, _named_theta(subject, theta_map), algorithm, batch))


def _of_gradients(subject: Subject, theta_map: ThetaMap, algorithm: Callable[..., Tensor], batch: Batch) -> Finding:
    """By the module's own parameters: of the formal algorithm through the map."""
    ours, theirs = _ours(subject, batch), _formal(subject, _named_theta(subject, theta_map), algorithm, batch)
    weights = [torch.randn(row.shape, generator=subject.generator, dtype=torch.float64) for row in ours]
    sums = [torch.stack([(row * weight).mean() for row, weight in zip(rows, weights, strict=True)]).sum() for rows in (ours, theirs)]
    of_module, of_formal = (gradients(subject.module, each) for each in sums)
    errors = {name: difference([of_module[name]], [of_formal[name]]) for name in of_module}
    wrong = [name for name, error in errors.items() if not error <= BOUND]
    if wrong:
        return Finding("formal gradients", "broken", f"those by {', '.join(wrong[:4])} are not the formal algorithm's", errors[wrong[0]])
    return Finding("formal gradients", "holds", "are those of the formal algorithm", max(errors.values(), default=0.0))


# Which component ---------------------------------------------------------------------------------------------------------


def _located(subject: Subject, theta_map: ThetaMap, algorithm: Callable[..., Tensor], batch: Batch, names: list[str]) -> str:
    """Turn sub-layers off, on both sides, and see where the difference comes from."""
    outputs = [name for name in names if OUTPUTS.match(name)]
    groups = {output: [name for name in (output, re.sub(r"W_(\w+)$", r"b_\1", output)) if name in names] for output in outputs}
    parts = _named_theta(subject, theta_map).named()
    sources = {output: [_sources(subject, parts[name]) for name in group] for output, group in groups.items()}
    with _off(subject, [each for group in sources.values() for each in group]):
        error = _of_P(subject, theta_map, algorithm, batch)
    if not error <= BOUND:
        return (
            "also where W_o and W_mlp2 of all sub-layers are 0: look at the embedding, the residual connections, the norms, the unembedding"
        )
    wrong = []
    for output in outputs:
        with _off(subject, [each for name, group in sources.items() if name != output for each in group]):
            if not _of_P(subject, theta_map, algorithm, batch) <= BOUND:
                wrong.append(_called(output))
    if not wrong:
        return "but not where only one sub-layer is on: look at what connects them"
    return f"not with all sub-layers off, but with one on: {', '.join(wrong[:4])}" + (" …" if len(wrong) > 4 else "")


def _called(output: str) -> str:
    prefix, _, matrix = output.rpartition(".")
    return f"the attention {prefix}" if matrix == "W_o" else f"the MLP of {prefix}"


@contextmanager
def _off(subject: Subject, sources: list[dict[str, Tensor]]) -> Iterator[None]:
    """With these numbers of these parameters 0."""
    named = dict(subject.module.named_parameters())
    saved = {name: named[name].detach().clone() for source in sources for name in source}
    with torch.no_grad():
        for source in sources:
            for name, where in source.items():
                named[name].masked_fill_(where, 0)
    try:
        yield
    finally:
        with torch.no_grad():
            for name, values in saved.items():
                named[name].copy_(values)
