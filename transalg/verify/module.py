"""Check anyone's module: the laws that a transformer keeps, and, once its parameters are mapped to θ, equality with a formal algorithm."""

import copy
from collections.abc import Callable, Collection
from typing import Any

import torch
from torch import Tensor, nn

from transalg.verify.adapters import Call, Step, adapter
from transalg.verify.components import FORMAL, ThetaMap, against_formal
from transalg.verify.findings import Finding, Findings
from transalg.verify.module_laws import LAWS, Subject, runs

LONGEST = 5  # tokens of a sequence, unless the module takes fewer


def check(
    module: nn.Module,
    like: str = "DTransformer",
    *,
    call: Call | None = None,
    step: Step | None = None,
    theta: ThetaMap | None = None,
    formal: Callable[..., Tensor] | None = None,
    N_V: int | None = None,
    ell: int | None = None,
    skip: Collection[str] = (),
    randomise: bool = True,
    seed: int = 0,
) -> Findings:
    """Check a module against the laws of a DTransformer, ETransformer, EDTransformer or Classifier, and name what is broken.

    A copy is checked, in float64 and in evaluation mode, with random parameters: a bias of 0 or a γ of 1 hides mistakes. With
    randomise=False its parameters stay what they are.

    The module takes B × ℓ token IDs and returns B × ℓ × N_V logits or probabilities (B × N_C for a Classifier), as `module(x)`, of an
    EDTransformer as `module(z, x)`; models of transformers and of this package are called as they are. For another module,
    `call(module, x)` or `call(module, x, mask)` says how (`call(module, z, x, z_mask, x_mask)`); the mask is B × ℓ and True for tokens.
    `step(module, x, state)` (`step(module, z, x, state)`) decodes new tokens: it returns their logits and the next state; at first that is None.

    Laws see a module from outside. Errors that keep all of them, an unbiased variance say, show only in values: `theta` maps the
    module's named parameters and buffers to those of the formal θ, `theta(named)["layers.0.W.W_q"]`, by any operations of torch. Then P
    and all gradients are compared with those of `formal(x, theta)` (`formal(z, x, theta)`), by default the paper's algorithm `like`.

    N_V is the size of the vocabulary, `ell` the length of the sequences; `skip` names laws that a module is not meant to keep.
    """
    if not isinstance(module, nn.Module):
        raise ValueError(f"module: expected an nn.Module, got {type(module).__name__}")
    if like not in FORMAL:
        raise ValueError(f"like: expected {', '.join(FORMAL)}, got {like!r}")
    for law in skip:
        if law not in LAWS:
            raise ValueError(f"skip: expected names of {', '.join(LAWS)}, got {law!r}")
    generator = torch.Generator().manual_seed(seed)
    copied = copy.deepcopy(module).double().eval()
    for part in copied.modules():
        if isinstance(part, nn.Embedding):
            part.padding_idx = None  # a token like any other here: lengths say what is padding
    if randomise:
        _randomise(copied, generator)
    length = ell or min(LONGEST, _size(copied, ("max_position_embeddings", "n_positions", "ell_max")) or LONGEST)
    if length < 3:
        raise ValueError(f"ell: expected at least 3, got {length}")
    subject = Subject(copied, like, adapter(copied, like, call, step), N_V or _vocabulary(copied), length, generator)
    found = [runs(subject)]
    if found[0].status == "holds":
        found += [_apply(name, subject, skip) for name in LAWS]
        if theta is not None:
            found += against_formal(subject, theta, formal)
    elif theta is not None:
        found += [finding for finding in against_formal(subject, theta, formal)[:1] if finding.status == "broken"]
    return Findings(type(module).__name__, like, tuple(found))


def _apply(law: str, subject: Subject, skip: Collection[str]) -> Finding:
    if law in skip:
        return Finding(law, "not checked", "skipped")
    if law == "causality" and not subject.causal:
        return Finding(law, "not checked", f"of {subject.like} every position sees both sides")
    if law == "padding" and not subject.adapter.has_mask and subject.like != "DTransformer":
        return Finding(law, "not checked", "the module is not told which tokens are padding; give call=")
    return LAWS[law](subject)


@torch.no_grad()
def _randomise(module: nn.Module, generator: torch.Generator) -> None:
    """Every trained parameter random, of a size at which attention and MLPs matter."""
    for parameter in module.parameters():
        if parameter.requires_grad:
            noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            parameter.copy_(noise * (1.5 / parameter.shape[-1] ** 0.5) if parameter.dim() > 1 else parameter + 0.4 * noise)


def _size(module: nn.Module, names: tuple[str, ...]) -> int | None:
    settings: Any = getattr(module, "config", getattr(module, "hyper", None))
    return next((value for name in names if isinstance(value := getattr(settings, name, None), int)), None)


def _vocabulary(module: nn.Module) -> int:
    """N_V, from the module's configuration or its first embedding."""
    if size := _size(module, ("vocab_size", "N_V")):
        return size
    for part in module.modules():
        if isinstance(part, nn.Embedding):
            return part.num_embeddings
    raise ValueError("N_V: expected the size of the vocabulary, for the module has neither a configuration nor an nn.Embedding; got none")
