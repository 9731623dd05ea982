"""The domains of the paper's symbols: what may enter an algorithm, and a ValueError that says so for what may not.

An algorithm's body is the paper's lines and nothing else, so its inputs are looked at before it starts:
`@checked(theta=parameters(DTheta), x=tokens)` admits `theta`, then `x`. A rule gets the symbol, its value and the scope (what
is known by now) and returns what the algorithm is to see: a list of token IDs, say, becomes a tensor beside θ.
"""

import functools
import inspect
import math
import numbers
import operator
import reprlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, ParamSpec, TypeVar

import torch
from torch import Tensor

from .theta import TransformerTheta
from .tree import Theta

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


@dataclass
class Scope:
    """The arguments of one call, and the sizes their shapes have given the paper's symbols so far."""

    arguments: dict[str, Any]
    sizes: dict[str, int] = field(default_factory=dict)
    like: tuple[str, torch.dtype, torch.device] | None = None  # the first tensor's name, and what all others must be of

    @property
    def theta(self) -> TransformerTheta:
        theta: TransformerTheta = self.arguments["theta"] if "theta" in self.arguments else self.arguments["theta_hat"]
        return theta

    def same(self, symbol: str, name: str, part: Tensor) -> None:
        """Refuse a tensor of another dtype or on another device than the first."""
        self.like = self.like or (name, part.dtype, part.device)
        first, dtype, device = self.like
        if (part.dtype, part.device) != (dtype, device):
            raise refuse(symbol, f"one dtype and device, {dtype} on {device} as in {first}", f"{part.dtype} on {part.device} in {name}")


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
    """Under torch.func.vmap a tensor stands for many, on the meta device for none: there are no values to look at."""
    while torch._C._functorch.is_functorch_wrapped_tensor(part):
        if torch._C._functorch.is_batchedtensor(part):
            return False
        part = torch._C._functorch.get_unwrapped(part)
    return not part.is_meta


# Parameters and activations --------------------------------------------------------------------------------------------


def parameters(kind: type[Theta], *, wider: bool = False) -> Rule:
    """A θ of the given kind: its parts agree in shape, dtype and device, and every number is finite.

    `wider` admits a θ with more parts, for an algorithm that only hands θ on to a transformer, which then says what it takes.
    """

    def rule(symbol: str, theta: Any, scope: Scope) -> Theta:
        if type(theta) is not kind and not (wider and isinstance(theta, kind)):  # a subclass has parts that this algorithm would leave out
            raise refuse(symbol, f"a {kind.__name__}", type(theta).__name__)
        scope.sizes |= theta.sizes()
        for name, part in theta.named().items():
            scope.same(symbol, f"{symbol}.{name}", part)
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
            if size == 0:
                raise refuse(symbol, f"{name} of at least 1 in {space}", 0)
        if parameter or not value.is_floating_point():
            real(symbol, value, symbol)
        scope.same(symbol, symbol, value)
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
    X, Z = scope.arguments["X"], scope.arguments["Z"]
    if readable(Mask) and Mask.tril(-1).any() and not Mask.triu(1).any() and (X is Z or (readable(X) and readable(Z) and X.shape == Z.shape and X.equal(Z))):
        raise refuse(symbol, "a row for every key, so that ⟦t_z ≤ t_x⟧ is upper triangular", "its transpose, in which a token sees only its future")
    return Mask.to(X.device)


def masks(symbol: str, Mask: Any, scope: Scope) -> Callable[[int, int], Tensor]:
    """The Mask of every layer: a function of ℓ and l."""
    if not callable(Mask):
        raise refuse(symbol, "a function of ℓ and l that gives the Mask of layer l, such as unidirectional", type(Mask).__name__)
    result: Callable[[int, int], Tensor] = Mask
    return result


# Tokens ----------------------------------------------------------------------------------------------------------------


def tokens(symbol: str, x: Any, scope: Scope, *, longest: float | None = None) -> Tensor:
    """x ∈ V^ℓ with 1 ≤ ℓ ≤ ℓ_max, or ≤ `longest`."""
    theta = scope.theta
    try:
        ids = torch.as_tensor(x)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        raise refuse(symbol, "a sequence of token IDs, whole numbers", reprlib.repr(x)) from None
    if ids.ndim != 1 or (len(ids) and (ids.is_floating_point() or ids.is_complex() or ids.dtype == torch.bool)):
        raise refuse(symbol, "a sequence of token IDs, whole numbers", f"{ids.dtype} of shape {tuple(ids.shape)}")
    ids = ids.to("cpu", torch.long)  # an index may stay on the CPU wherever θ is
    if len(ids) == 0:
        raise refuse(symbol, "at least one token", "an empty sequence")
    if len(ids) > (longest or theta.ell_max):
        raise refuse(symbol, f"at most ℓ_max = {theta.ell_max} tokens", f"ℓ = {len(ids)}")
    if readable(ids) and len(outside := ((ids < 0) | (ids >= theta.N_V)).nonzero()):
        raise refuse(symbol, f"token IDs in V = {{0, …, N_V−1}} with N_V = {theta.N_V}", f"{ids[outside[0, 0]]} at index {outside[0, 0]}")
    return ids


def starting_with_bos(symbol: str, x: Any, scope: Scope) -> Tensor:
    """x with x[1] = bos_token."""
    ids = tokens(symbol, x, scope)
    if readable(ids) and ids[0] != scope.theta.bos_token:
        raise refuse(symbol, f"bos_token = {scope.theta.bos_token} first", int(ids[0]))
    return ids


def without_mask_tokens(symbol: str, x: Any, scope: Scope) -> Tensor:
    """x in which no token is mask_token, for Algorithm 12 would count it among those it masked."""
    ids = tokens(symbol, x, scope)
    if len(found := (ids == scope.theta.mask_token).nonzero()):
        raise refuse(symbol, f"no mask_token = {scope.theta.mask_token} in the data", f"one at index {int(found[0])}")
    return ids


def segments(symbol: str, s: Any, scope: Scope) -> Tensor:
    """s ∈ [N_S]^ℓ, a segment for every token of x; all 0 if None."""
    ell, N_S = len(scope.arguments["x"]), scope.sizes["N_S"]
    ids = torch.zeros(ell, dtype=torch.long) if s is None else torch.as_tensor(s)
    if ids.shape != (ell,) or ids.is_floating_point() or ids.dtype == torch.bool:
        raise refuse(symbol, f"a segment for each of the ℓ = {ell} tokens", f"{ids.dtype} of shape {tuple(ids.shape)}")
    if readable(ids) and len(outside := ((ids < 0) | (ids >= N_S)).nonzero()):
        raise refuse(symbol, f"segments in {{0, …, N_S−1}} with N_S = {N_S}", f"{ids[outside[0, 0]]} at index {outside[0, 0]}")
    return ids.long()


def prompt(symbol: str, x: Any, scope: Scope) -> Tensor:
    """A prompt of any length, for Algorithm 14 looks at its last ℓ_max tokens; the empty one is [bos_token]."""
    empty = hasattr(x, "__len__") and getattr(x, "ndim", 1) == 1 and len(x) == 0
    return tokens(symbol, [scope.theta.bos_token] if empty else x, scope, longest=math.inf)


def sequences(one: Rule = tokens) -> Rule:
    """A data set x_1, …, x_{N_data}, each by the rule for one, and as many as of every other in the scope."""

    def rule(symbol: str, xs: Any, scope: Scope) -> list[Tensor]:
        return [one(f"{symbol.removesuffix('s')}_{n}", x, scope) for n, x in enumerate(_many(symbol, xs, scope), start=1)]

    return rule


def classes(symbol: str, cs: Any, scope: Scope) -> list[int]:
    """c_1, …, c_{N_data} ∈ [N_C]."""
    return [index("N_C")(f"c_{n}", c, scope) for n, c in enumerate(_many(symbol, cs, scope), start=1)]


def _many(symbol: str, those: Any, scope: Scope) -> list[Any]:
    if isinstance(those, str | bytes | dict) or not isinstance(those, Iterable) or getattr(those, "ndim", 1) == 0:
        raise refuse(symbol, "a list, one for each n ∈ [N_data]", reprlib.repr(those))
    many = list(those)
    if scope.sizes.setdefault("N_data", len(many)) != len(many):
        raise refuse(symbol, f"N_data = {scope.sizes['N_data']} of them", len(many))
    return many


def index(size: str) -> Rule:
    """One of as many things as the symbol `size` says."""

    def rule(symbol: str, i: Any, scope: Scope) -> int:
        number = _whole(i)
        if number is None or not 0 <= number < scope.sizes[size]:
            raise refuse(symbol, f"one of 0, …, {size}−1 with {size} = {scope.sizes[size]}", i if number is None else number)
        return number

    return rule


def _whole(value: Any) -> int | None:
    """A whole number of any kind, Python's, NumPy's or a tensor's, as an int."""
    if isinstance(value, bool) or (isinstance(value, Tensor) and (value.ndim or value.dtype == torch.bool)):
        return None
    try:
        return operator.index(value)
    except TypeError:
        return None


def optional(rule: Rule) -> Rule:
    """None, or what the rule admits."""
    return lambda symbol, value, scope: None if value is None else rule(symbol, value, scope)


def random(symbol: str, generator: Any, scope: Scope) -> torch.Generator | None:
    """A torch.Generator, or None for torch's own."""
    if generator is not None and not isinstance(generator, torch.Generator):
        raise refuse(symbol, "a torch.Generator or None", repr(generator))
    return generator


# Numbers ---------------------------------------------------------------------------------------------------------------


def _real(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        return None
    try:
        return float(value)
    except OverflowError:
        return None


def number(test: Callable[[Any], bool], expected: str, *, whole: bool = False) -> Rule:
    def rule(symbol: str, value: Any, scope: Scope) -> Any:
        given = _whole(value) if whole else _real(value)
        if given is None or not test(given):
            raise refuse(symbol, expected, repr(value))
        return given

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
