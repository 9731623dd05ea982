"""The domains of the paper's symbols: what may enter an algorithm, and a ValueError for what may not.

An algorithm's body is the paper's lines and nothing else, so `@checked` looks at its arguments before it
starts. The annotations say most of it: θ is of its kind, a tensor has the shape of its annotation, a Mask a
row for every key. What they cannot say is a rule: `@checked(x=tokens, eps=epsilon)`. A rule gets the
symbol, its value and the scope (what is known by now) and returns what the algorithm is to see: a list of
token IDs becomes a tensor.
"""

import functools
import inspect
import math
import numbers
import operator
import reprlib
from collections.abc import Callable, Iterable, Sized
from dataclasses import dataclass, field
from types import UnionType
from typing import ParamSpec, SupportsIndex, TypeVar, get_args

import torch
from jaxtyping import AbstractArray, Bool, Float
from torch import Tensor

from .mask import Masks
from .theta import TransformerTheta
from .tree import DEPTHS, Theta, field_names

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
PARAMETERS = ("W", "b_", "gamma", "beta")  # how the symbols of parameters begin; those of activations do not


@dataclass
class Scope:
    """The arguments of one call, and the sizes their shapes have given the paper's symbols so far."""

    arguments: dict[str, object]
    sizes: dict[str, int] = field(default_factory=dict)
    like: tuple[str, torch.dtype, torch.device] | None = None  # the first tensor: its name, dtype and device

    @property
    def theta(self) -> TransformerTheta:
        theta = self.arguments["theta"] if "theta" in self.arguments else self.arguments["theta_hat"]
        assert isinstance(theta, TransformerTheta)
        return theta

    def same(self, symbol: str, name: str, part: Tensor) -> None:
        """Refuse a tensor of another dtype or on another device than the first."""
        self.like = self.like or (name, part.dtype, part.device)
        first, dtype, device = self.like
        if (part.dtype, part.device) != (dtype, device):
            expected = f"one dtype and device, {dtype} on {device} as in {first}"
            raise refuse(symbol, expected, f"{part.dtype} on {part.device} in {name}")


Rule = Callable[[str, object, Scope], object]


def checked(**rules: Rule) -> Callable[[Callable[Arguments, Result]], Callable[Arguments, Result]]:
    """Admit θ, the tensors, then the arguments of these rules in their order, before the algorithm runs."""

    def declare(algorithm: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
        signature = inspect.signature(algorithm)
        in_order = _in_order(signature, rules)

        @functools.wraps(algorithm)
        def admit(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
            bound = signature.bind(*args, **kwargs)
            bound.apply_defaults()
            scope = Scope(bound.arguments)
            for symbol, rule in in_order.items():
                bound.arguments[symbol] = rule(symbol, bound.arguments[symbol], scope)
            return algorithm(*bound.args, **bound.kwargs)

        return admit

    return declare


def _in_order(signature: inspect.Signature, rules: dict[str, Rule]) -> dict[str, Rule]:
    """Every rule of an algorithm: of θ first, for the sizes of all else are its own."""
    thetas: dict[str, Rule] = {}
    tensors: dict[str, Rule] = {}
    for symbol, parameter in signature.parameters.items():
        kind = parameter.annotation
        if _is_theta(kind):
            thetas[symbol] = rules.get(symbol) or parameters(kind)
        elif symbol not in rules and (rule := _by_shape(symbol, kind)):
            tensors[symbol] = rule
    if unknown := rules.keys() - signature.parameters.keys():
        raise TypeError(f"checked: expected rules for arguments, got one for {min(unknown)}")
    return thetas | tensors | {symbol: rule for symbol, rule in rules.items() if symbol not in thetas}


def _is_theta(kind: object) -> bool:
    """Whether an annotation is a θ, or one of several."""
    kinds = get_args(kind) if isinstance(kind, UnionType) else (kind,)
    return all(isinstance(one, type) and issubclass(one, Theta) for one in kinds)


def _by_shape(symbol: str, kind: object) -> Rule | None:
    """The rule that the annotation of a tensor says."""
    if isinstance(kind, UnionType) and type(None) in get_args(kind):
        (tensor,) = (one for one in get_args(kind) if one is not type(None))
        rule = _by_shape(symbol, tensor)
        return optional(rule) if rule else None
    if not isinstance(kind, type) or not issubclass(kind, AbstractArray):
        return None
    symbols = kind.dim_str.split()
    dtype: object = kind.dtype
    if dtype is Float:
        return shaped(*symbols, parameter=symbol.startswith(PARAMETERS))
    if dtype is Bool:
        return mask(*symbols)
    raise TypeError(f"checked: expected a rule for {symbol}, which its annotation does not give")


def refuse(symbol: str, expected: str, got: object) -> ValueError:
    return ValueError(f"{symbol}: expected {expected}, got {got}")


def readable(part: Tensor) -> bool:
    """Whether a tensor has values: under torch.func.vmap it stands for many, on the meta device for none."""
    while torch._C._functorch.is_functorch_wrapped_tensor(part):
        if torch._C._functorch.is_batchedtensor(part):
            return False
        part = torch._C._functorch.get_unwrapped(part)
    return not part.is_meta


# Parameters and activations -----------------------------------------------------------------------


def parameters(
    kind: type[Theta] | UnionType,
    *,
    wider: bool = False,
    wider_layers: bool = False,
    also: tuple[str, ...] = (),
) -> Rule:
    """A θ of this kind: its parts agree in shape, dtype and device, and every number is finite.

    A subclass may have parts that an algorithm would leave out. It is refused, θ itself and its layers alike,
    unless the algorithm hands it on to what then says which parts it takes: all of θ with `wider`, its layers
    with `wider_layers`, and to the components `also` the parts of the θ that these are annotated with.
    """
    kinds: tuple[type[Theta], ...] = get_args(kind) or (kind,)
    names = " or ".join(f"a {one.__name__}" for one in kinds)

    def rule(symbol: str, theta: object, scope: Scope) -> Theta:
        takers = [scope.arguments[name] for name in also]
        if not isinstance(theta, kinds) or not (wider or _all_taken(theta, kinds, takers)):
            raise refuse(symbol, names, type(theta).__name__)
        if not wider and getattr(theta, "statistics", None) is not None:
            raise refuse(symbol, "no running statistics, which `running` puts into γ and β", "some")
        scope.sizes |= theta.sizes()
        for name, part in theta.named().items():
            scope.same(symbol, f"{symbol}.{name}", part)
            real(symbol, part, f"{symbol}.{name}")
        if not (wider or wider_layers):
            _plain_layers(symbol, theta)
        return theta

    return rule


def _all_taken(theta: Theta, kinds: tuple[type[Theta], ...], components: list[object]) -> bool:
    """Whether every part of θ is one of these kinds', or of the θ that a component takes."""
    signatures = (inspect.signature(component) for component in components if callable(component))
    annotations = [one.parameters["theta"].annotation for one in signatures if "theta" in one.parameters]
    members = [kind for annotation in annotations for kind in get_args(annotation) or (annotation,)]
    known = [kind for kind in (*kinds, *members) if isinstance(kind, type) and issubclass(kind, Theta)]
    return field_names(theta) <= set().union(*map(field_names, known))


def _plain_layers(symbol: str, theta: Theta) -> None:
    """Refuse a layer of another kind than θ declares."""
    for name in DEPTHS:
        for l, layer in enumerate(getattr(theta, name, ())):
            kind, _ = get_args(type(theta).__dataclass_fields__[name].type)  # type: ignore[attr-defined]
            if type(layer) is not kind:
                raise refuse(symbol, f"{name}.{l} to be a {kind.__name__}", type(layer).__name__)


def real(symbol: str, part: Tensor, name: str) -> None:
    if not part.is_floating_point():
        raise refuse(symbol, f"real numbers in {name}", part.dtype)
    if readable(part) and not part.isfinite().all():
        raise refuse(symbol, f"finite numbers in {name}", "NaN" if part.isnan().any() else "±∞")


def shaped(*symbols: str, parameter: bool = False) -> Rule:
    """A tensor with these dimensions, each of one size in all arguments; finite if it is a parameter."""
    space = f"ℝ^{{{'×'.join(symbols)}}}"

    def rule(symbol: str, value: object, scope: Scope) -> Tensor:
        if not isinstance(value, Tensor):
            raise refuse(symbol, f"a tensor in {space}", type(value).__name__)
        if value.ndim != len(symbols):
            raise refuse(symbol, f"a tensor in {space}", f"the shape {tuple(value.shape)}")
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


def mask(keys: str, queries: str) -> Rule:
    """Mask ∈ {0,1}^{ℓ_z×ℓ_x}, boolean: a row for every key, a column for every query."""
    symbols = f"{keys}×{queries}".replace("ell", "ℓ")

    def rule(symbol: str, Mask: object, scope: Scope) -> Tensor:
        shape = scope.sizes[keys], scope.sizes[queries]
        space = f"booleans in {{0,1}}^{{{symbols}}} = {shape[0]}×{shape[1]}, a row for every key"
        if not isinstance(Mask, Tensor) or Mask.dtype != torch.bool:
            raise refuse(symbol, space, Mask.dtype if isinstance(Mask, Tensor) else type(Mask).__name__)
        if Mask.shape != shape:
            transposed = ", its transpose" if Mask.shape == shape[::-1] else ""
            raise refuse(symbol, space, "×".join(map(str, Mask.shape)) + transposed)
        X, Z = scope.arguments["X"], scope.arguments["Z"]
        assert isinstance(X, Tensor) and isinstance(Z, Tensor)
        if readable(Mask) and Mask.tril(-1).any() and not Mask.triu(1).any() and _equal(X, Z):
            expected = "a row for every key, so that ⟦t_z ≤ t_x⟧ is upper triangular"
            raise refuse(symbol, expected, "its transpose, in which a token sees only its future")
        return Mask.to(X.device)

    return rule


def _equal(X: Tensor, Z: Tensor) -> bool:
    return X is Z or (readable(X) and readable(Z) and X.shape == Z.shape and X.equal(Z))


def masks(symbol: str, Mask: object, scope: Scope) -> Masks:
    """The Mask of every layer: a function of ℓ and l."""
    if not callable(Mask):
        expected = "a function of ℓ and l that gives the Mask of layer l, such as unidirectional"
        raise refuse(symbol, expected, type(Mask).__name__)
    result: Masks = Mask
    return result


# Tokens -------------------------------------------------------------------------------------------


def tokens(symbol: str, x: object, scope: Scope, *, longest: float | None = None) -> Tensor:
    """x ∈ V^ℓ with 1 ≤ ℓ ≤ ℓ_max, or ≤ `longest`."""
    theta, expected = scope.theta, "a sequence of token IDs, whole numbers"
    try:
        ids = torch.as_tensor(x)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        raise refuse(symbol, expected, reprlib.repr(x)) from None
    whole_numbers = not (ids.is_floating_point() or ids.is_complex() or ids.dtype == torch.bool)
    if ids.ndim != 1 or (len(ids) and not whole_numbers):
        raise refuse(symbol, expected, f"{ids.dtype} of shape {tuple(ids.shape)}")
    ids = ids.to("cpu", torch.long)  # an index may stay on the CPU wherever θ is
    if len(ids) == 0:
        raise refuse(symbol, "at least one token", "an empty sequence")
    if len(ids) > (longest or theta.ell_max):
        raise refuse(symbol, f"at most ℓ_max = {theta.ell_max} tokens", f"ℓ = {len(ids)}")
    if readable(ids) and len(outside := ((ids < 0) | (ids >= theta.N_V)).nonzero()):
        expected = f"token IDs in V = {{0, …, N_V−1}} with N_V = {theta.N_V}"
        raise refuse(symbol, expected, f"{ids[outside[0, 0]]} at index {outside[0, 0]}")
    return ids


def embeddable(symbol: str, x: object, scope: Scope) -> object:
    """x ∈ V^ℓ; or whatever an `embed` of tokens of another kind, s, takes, which has rules of its own."""
    component = scope.arguments["embed"]
    of_tokens = not callable(component) or "s" not in [*inspect.signature(component).parameters][:1]
    return tokens(symbol, x, scope) if of_tokens else x


def starting_with_bos(symbol: str, x: object, scope: Scope) -> Tensor:
    """x with x[1] = bos_token."""
    ids = tokens(symbol, x, scope)
    if readable(ids) and ids[0] != scope.theta.bos_token:
        raise refuse(symbol, f"bos_token = {scope.theta.bos_token} first", int(ids[0]))
    return ids


def without_mask_tokens(symbol: str, x: object, scope: Scope) -> Tensor:
    """x in which no token is mask_token, for Algorithm 12 would count it among those it masked."""
    ids, mask_token = tokens(symbol, x, scope), scope.theta.mask_token
    if len(masked := (ids == mask_token).nonzero()):
        raise refuse(symbol, f"no mask_token = {mask_token} in the data", f"one at index {int(masked[0])}")
    return ids


def segments(symbol: str, s: object, scope: Scope) -> Tensor:
    """s ∈ [N_S]^ℓ, a segment for every token of x; all 0 if None."""
    x, N_S = scope.arguments["x"], scope.sizes["N_S"]
    assert isinstance(x, Tensor)
    ell = len(x)
    ids = torch.zeros(ell, dtype=torch.long) if s is None else torch.as_tensor(s)
    if ids.shape != (ell,) or ids.is_floating_point() or ids.dtype == torch.bool:
        expected = f"a segment for each of the ℓ = {ell} tokens"
        raise refuse(symbol, expected, f"{ids.dtype} of shape {tuple(ids.shape)}")
    if readable(ids) and len(outside := ((ids < 0) | (ids >= N_S)).nonzero()):
        expected = f"segments in {{0, …, N_S−1}} with N_S = {N_S}"
        raise refuse(symbol, expected, f"{ids[outside[0, 0]]} at index {outside[0, 0]}")
    return ids.long()


def prompt(symbol: str, x: object, scope: Scope) -> Tensor:
    """A prompt of any length: Algorithm 14 looks at its last ℓ_max tokens. The empty one is [bos_token]."""
    empty = isinstance(x, Sized) and getattr(x, "ndim", 1) == 1 and len(x) == 0
    return tokens(symbol, [scope.theta.bos_token] if empty else x, scope, longest=math.inf)


def sequences(one: Rule = tokens) -> Rule:
    """A data set x_1, …, x_{N_data}, each by the rule for one, and as many as of every other in the scope."""

    def rule(symbol: str, xs: object, scope: Scope) -> list[object]:
        name = symbol.removesuffix("s")
        return [one(f"{name}_{n}", x, scope) for n, x in enumerate(many_of(symbol, xs, scope), start=1)]

    return rule


def classes(symbol: str, cs: object, scope: Scope) -> list[object]:
    """c_1, …, c_{N_data} ∈ [N_C]."""
    return [index("N_C")(f"c_{n}", c, scope) for n, c in enumerate(many_of(symbol, cs, scope), start=1)]


def block(symbol: str, C: object, scope: Scope) -> list[object]:
    """C ⊆ [N_C]: at least one class, each once."""
    if not isinstance(C, Iterable) or getattr(C, "ndim", 1) == 0 or isinstance(C, str | bytes | dict):
        raise refuse(symbol, "a list of classes", reprlib.repr(C))
    members = [index("N_C")(symbol, c, scope) for c in C]
    if not members or len(set(members)) < len(members):
        raise refuse(symbol, "at least one class, each once", members)
    return list(members)


def many_of(symbol: str, those: object, scope: Scope) -> list[object]:
    iterable = isinstance(those, Iterable) and getattr(those, "ndim", 1) != 0
    if not iterable or isinstance(those, str | bytes | dict):
        raise refuse(symbol, "a list, one for each n ∈ [N_data]", reprlib.repr(those))
    assert isinstance(those, Iterable)
    many = list(those)
    if scope.sizes.setdefault("N_data", len(many)) != len(many):
        raise refuse(symbol, f"N_data = {scope.sizes['N_data']} of them", len(many))
    return many


def index(size: str) -> Rule:
    """One of as many things as the symbol `size` says."""

    def rule(symbol: str, i: object, scope: Scope) -> int:
        number, count = as_whole(i), scope.sizes[size]
        if number is None or not 0 <= number < count:
            expected = f"one of 0, …, {size}−1 with {size} = {count}"
            raise refuse(symbol, expected, i if number is None else number)
        return number

    return rule


def as_whole(value: object) -> int | None:
    """A whole number of any kind, Python's, NumPy's or a tensor's, as an int."""
    if isinstance(value, bool) or not isinstance(value, SupportsIndex):
        return None
    if isinstance(value, Tensor) and (value.ndim or value.dtype == torch.bool):
        return None
    try:
        return operator.index(value)
    except TypeError:
        return None


def frequencies(symbol: str, omega: object, scope: Scope) -> Tensor:
    """ω ∈ ℝ^{n} with 2n ≤ d_attn, finite, in any precision."""
    d_attn = scope.sizes["d_attn"]
    if not isinstance(omega, Tensor) or omega.ndim != 1 or not omega.is_floating_point():
        got = tuple(omega.shape) if isinstance(omega, Tensor) else type(omega).__name__
        raise refuse(symbol, "a vector of frequencies, such as rotary_frequencies(d_rot)", got)
    if not 1 <= len(omega) <= d_attn // 2:
        raise refuse(
            symbol, f"1 to {d_attn // 2} frequencies, one for a pair of d_attn = {d_attn}", len(omega)
        )
    real(symbol, omega, symbol)
    return omega


def groups(symbol: str, G: object, scope: Scope) -> int:
    """A number of groups that divides the C_r channels."""
    count = natural(symbol, G, scope)
    if count < 1 or scope.sizes["C_r"] % count:
        raise refuse(symbol, f"a divisor of C_r = {scope.sizes['C_r']}", count)
    return count


def optional(rule: Rule) -> Rule:
    """None, or what the rule admits."""
    return lambda symbol, value, scope: None if value is None else rule(symbol, value, scope)


def random(symbol: str, generator: object, scope: Scope) -> torch.Generator | None:
    """A torch.Generator, or None for torch's own."""
    if generator is not None and not isinstance(generator, torch.Generator):
        raise refuse(symbol, "a torch.Generator or None", repr(generator))
    return generator


# Numbers ------------------------------------------------------------------------------------------


def number(test: Callable[[float], bool], expected: str) -> Rule:
    """A real number that passes the test."""

    def rule(symbol: str, value: object, scope: Scope) -> float:
        real_number = as_real(value)
        if real_number is None or not test(real_number):
            raise refuse(symbol, expected, repr(value))
        return real_number

    return rule


def as_real(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        return None
    try:
        return float(value)
    except OverflowError:
        return None


learning_rate = number(lambda eta: 0 < eta < math.inf, "a number in (0, ∞)")
positive = learning_rate
probability = number(lambda p: 0 < p < 1, "a number in (0, 1)")
temperature = number(lambda tau: tau >= 0, "a number in [0, ∞]")
epsilon = number(lambda eps: 0 <= eps < math.inf, "a number in [0, ∞)")


def natural(symbol: str, value: object, scope: Scope) -> int:
    whole_number = as_whole(value)
    if whole_number is None or whole_number < 0:
        raise refuse(symbol, "a whole number, 0 or more", repr(value))
    return whole_number


def cap(symbol: str, ell_gen: object, scope: Scope) -> int:
    """How many tokens Algorithm 15 may generate: ℓ_max unless given, never more, for x̂ ends there."""
    ell_max = scope.theta.ell_max
    at_most = natural(symbol, ell_max if ell_gen == math.inf else ell_gen, scope)
    if at_most > ell_max:
        raise refuse(symbol, f"at most ℓ_max = {ell_max}", at_most)
    return at_most
