"""The domains of the paper's symbols: what may enter an algorithm, and a ValueError that says so for what may not.

An algorithm's body is the paper's lines and nothing else, so its inputs are looked at before it starts:
`@checked(theta=parameters(DTheta), x=tokens)` admits `theta`, then `x`. A rule gets the symbol, its value and the scope (what
is known by now) and returns what the algorithm is to see: a list of token IDs, say, becomes a tensor beside θ.
"""

import functools
import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ParamSpec, TypeVar

import torch
from torch import Tensor

from .theta import Theta, TransformerTheta

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


@dataclass
class Scope:
    """The arguments of one call, and the sizes their shapes have given the paper's symbols so far."""

    arguments: dict[str, Any]
    sizes: dict[str, int] = field(default_factory=dict)

    @property
    def theta(self) -> TransformerTheta:
        theta: TransformerTheta = self.arguments["theta"] if "theta" in self.arguments else self.arguments["theta_hat"]
        return theta


Rule = Callable[[str, Any, Scope], Any]


def checked(**rules: Rule) -> Callable[[Callable[Arguments, Result]], Callable[Arguments, Result]]:
    """Admit the named arguments by their rules, in the order given, before the algorithm runs."""

    def declare(algorithm: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
        signature = inspect.signature(algorithm)

        @functools.wraps(algorithm)
        def admit(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
            bound = signature.bind(*args, **kwargs)
            bound.apply_defaults()
            scope = Scope(bound.arguments)
            for symbol, rule in rules.items():
                bound.arguments[symbol] = rule(symbol, bound.arguments[symbol], scope)
            return algorithm(*bound.args, **bound.kwargs)

        return admit

    return declare


def refuse(symbol: str, expected: str, came: object) -> ValueError:
    return ValueError(f"{symbol}: expected {expected}, got {came}")


def readable(part: Tensor) -> bool:
    """Under torch.func.vmap a tensor stands for many and has no values to look at."""
    return not torch._C._functorch.is_batchedtensor(part)


# Parameters and activations --------------------------------------------------------------------------------------------


def parameters(kind: type[Theta]) -> Rule:
    """A θ of the given kind: its parts agree in shape, dtype and device, and every number is finite."""

    def rule(symbol: str, theta: Any, scope: Scope) -> Theta:
        if not isinstance(theta, kind):
            raise refuse(symbol, f"a {kind.__name__}", type(theta).__name__)
        scope.sizes |= theta.sizes()
        parts = theta.named()
        name0, part0 = next(iter(parts.items()))
        for name, part in parts.items():
            if (part.dtype, part.device) != (part0.dtype, part0.device):
                raise refuse(symbol, f"one dtype and device, {part0.dtype} on {part0.device} as in {name0}", f"{part.dtype} on {part.device} in {name}")
            real(symbol, part, f"{symbol}.{name}")
        return theta

    return rule


def real(symbol: str, part: Tensor, name: str) -> None:
    if not part.is_floating_point():
        raise refuse(symbol, f"real numbers in {name}", part.dtype)
    if readable(part) and not part.isfinite().all():
        raise refuse(symbol, f"finite numbers in {name}", "NaN" if part.isnan().any() else "±∞")


def shaped(*symbols: str, parameter: bool = False) -> Rule:
    """A tensor whose dimensions are these symbols, each of one size throughout the arguments; finite if it is a parameter."""

    def rule(symbol: str, value: Any, scope: Scope) -> Tensor:
        space = f"ℝ^{{{'×'.join(symbols)}}}"
        if not isinstance(value, Tensor) or value.ndim != len(symbols):
            raise refuse(symbol, f"a tensor in {space}", f"the shape {tuple(value.shape)}" if isinstance(value, Tensor) else type(value).__name__)
        for name, size in zip(symbols, value.shape, strict=True):
            if scope.sizes.setdefault(name, size) != size:
                raise refuse(symbol, f"{name} = {scope.sizes[name]} in {space}", size)
        if parameter or not value.is_floating_point():
            real(symbol, value, symbol)
        return value

    return rule


def mask(symbol: str, Mask: Any, scope: Scope) -> Tensor:
    """Mask ∈ {0,1}^{ℓ_z×ℓ_x}, boolean: a row for every key, a column for every query."""
    shape = scope.sizes["ell_z"], scope.sizes["ell_x"]
    space = f"booleans in {{0,1}}^{{ℓ_z×ℓ_x}} = {shape[0]}×{shape[1]}, a row for every key"
    if not isinstance(Mask, Tensor) or Mask.dtype != torch.bool:
        raise refuse(symbol, space, Mask.dtype if isinstance(Mask, Tensor) else type(Mask).__name__)
    if Mask.shape != shape:
        raise refuse(symbol, space, "×".join(map(str, Mask.shape)) + (", its transpose" if Mask.shape == shape[::-1] else ""))
    if shape[0] == shape[1] > 1 and readable(Mask) and Mask.equal(torch.ones_like(Mask).tril()):
        raise refuse(symbol, "a row for every key, so that ⟦t_z ≤ t_x⟧ is upper triangular", "its transpose, in which a token sees only its future")
    return Mask.to(scope.arguments["X"].device)


# Tokens ----------------------------------------------------------------------------------------------------------------


def tokens(symbol: str, x: Any, scope: Scope, *, longest: float | None = None) -> Tensor:
    """x ∈ V^ℓ with 1 ≤ ℓ ≤ ℓ_max, or ≤ `longest`."""
    theta = scope.theta
    ids = torch.as_tensor(x)
    if ids.ndim != 1 or (len(ids) and (ids.is_floating_point() or ids.is_complex() or ids.dtype == torch.bool)):
        raise refuse(symbol, "a sequence of token IDs, whole numbers", f"{ids.dtype} of shape {tuple(ids.shape)}")
    if len(ids) == 0:
        raise refuse(symbol, "at least one token", "an empty sequence")
    if len(ids) > (longest or theta.ell_max):
        raise refuse(symbol, f"at most ℓ_max = {theta.ell_max} tokens", f"ℓ = {len(ids)}")
    if readable(ids) and len(outside := ((ids < 0) | (ids >= theta.N_V)).nonzero()):
        raise refuse(symbol, f"token IDs in V = {{0, …, N_V−1}} with N_V = {theta.N_V}", f"{ids[outside[0, 0]]} at index {outside[0, 0]}")
    return ids.to(theta.W_e.device, torch.long)


def prompt(symbol: str, x: Any, scope: Scope) -> Tensor:
    """A prompt of any length, for Algorithm 14 looks at its last ℓ_max tokens; the empty one is [bos_token]."""
    return tokens(symbol, x if len(x) else [scope.theta.bos_token], scope, longest=math.inf)


def sequences(*, start_with_bos: bool = False, without_mask_tokens: bool = False) -> Rule:
    """A data set x_1, …, x_{N_data}, as long as every other in the scope."""

    def rule(symbol: str, xs: Any, scope: Scope) -> list[Tensor]:
        result = []
        for n, x in enumerate(xs, start=1):
            x_n = f"{symbol.removesuffix('s')}_{n}"
            ids = tokens(x_n, x, scope)
            if start_with_bos and ids[0] != scope.theta.bos_token:
                raise refuse(x_n, f"bos_token = {scope.theta.bos_token} first, for P̂(x[1]) is never trained", int(ids[0]))
            if without_mask_tokens and len(found := (ids == scope.theta.mask_token).nonzero()):
                raise refuse(x_n, f"no mask_token = {scope.theta.mask_token} in the data", f"one at index {int(found[0])}")
            result.append(ids)
        _count(symbol, len(result), scope)
        return result

    return rule


def classes(symbol: str, cs: Any, scope: Scope) -> list[int]:
    """c_1, …, c_{N_data} ∈ [N_C]."""
    _count(symbol, len(cs), scope)
    return [index("N_C")(f"c_{n}", c, scope) for n, c in enumerate(cs, start=1)]


def _count(symbol: str, N_data: int, scope: Scope) -> None:
    if scope.sizes.setdefault("N_data", N_data) != N_data:
        raise refuse(symbol, f"N_data = {scope.sizes['N_data']} of them", N_data)


def index(size: str) -> Rule:
    """One of as many things as the symbol `size` says."""

    def rule(symbol: str, i: Any, scope: Scope) -> int:
        of = f"one of 0, …, {size}−1 with {size} = {scope.sizes[size]}"
        if isinstance(i, Tensor) and i.ndim == 0 and not i.is_floating_point():
            i = int(i)
        if isinstance(i, bool) or not isinstance(i, int) or not 0 <= i < scope.sizes[size]:
            raise refuse(symbol, of, repr(i))
        return i

    return rule


# Numbers ---------------------------------------------------------------------------------------------------------------


def number(test: Callable[[Any], bool], expected: str, *, whole: bool = False) -> Rule:
    def rule(symbol: str, value: Any, scope: Scope) -> Any:
        if isinstance(value, bool) or not isinstance(value, int if whole else int | float) or not test(value):
            raise refuse(symbol, expected, repr(value))
        return value if whole else float(value)

    return rule


natural = number(lambda n: n >= 0, "a whole number, 0 or more", whole=True)
learning_rate = number(lambda eta: 0 < eta < math.inf, "a number in (0, ∞)")
probability = number(lambda p: 0 < p < 1, "a number in (0, 1)")
temperature = number(lambda tau: tau >= 0, "a number in [0, ∞]")
epsilon = number(lambda eps: 0 <= eps < math.inf, "a number in [0, ∞)")


def cap(symbol: str, ell_gen: Any, scope: Scope) -> int:
    """How many tokens Algorithm 15 may generate: ℓ_max unless given, and never more, for x̂ has no further positions."""
    ell_max = scope.theta.ell_max
    at_most: int = natural(symbol, ell_max if ell_gen == math.inf else ell_gen, scope)
    if at_most > ell_max:
        raise refuse(symbol, f"at most ℓ_max = {ell_max}", at_most)
    return at_most
