"""What every θ can do: a frozen dataclass that is a pytree, and whose fields declare their shapes in the paper's symbols.

The declarations are the types, the initialisation, the check that the parts of a θ agree, and the place where the
hyperparameters are read off. As a pytree, θ is what `torch.func.grad` differentiates by, and `theta - eta * gradient` is a θ.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import Field, fields
from math import prod, sqrt
from typing import Any, TypeVar, get_args

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

DEPTHS = {"layers": "L", "enc": "L_enc", "dec": "L_dec"}  # the symbol of a tuple of layers' length
STREAM = ("d_x", "d_z", "d_out")  # what attention maps between; inside a layer the residual stream makes all three d_e

Own = TypeVar("Own", bound="Theta")  # not typing.Self, which the run-time checker of the tests does not know in methods


class Theta:
    """A collection of parameters: tensors, further Thetas, and tuples of Thetas, one per layer."""

    def __init_subclass__(cls) -> None:
        pytree.register_pytree_node(cls, _flatten, lambda parts, _: _unflatten(cls, parts), flatten_with_keys_fn=_flatten_with_keys)

    def __post_init__(self) -> None:
        self.sizes()

    def __repr__(self) -> str:
        try:
            sizes = ", ".join(f"{symbol}={size}" for symbol, size in self.sizes().items())
        except ValueError:  # between two transformations of a pytree, its leaves may be no tensors
            return f"{type(self).__name__}(…)"
        return f"{type(self).__name__}({sizes}: {sum(part.numel() for part in self.named().values()):,} numbers)"

    def __add__(self: Own, other: Own) -> Own:
        return self._map(torch.add, other)

    def __sub__(self: Own, other: Own) -> Own:
        return self._map(torch.sub, other)

    def __rmul__(self: Own, scalar: float) -> Own:
        return self._map(lambda part: scalar * part)

    def to(self: Own, *args: Any, **kwargs: Any) -> Own:
        """The same θ in another dtype or on another device: `Tensor.to` for every part."""
        return self._map(lambda part: part.to(*args, **kwargs))

    def _map(self: Own, f: Callable[..., Tensor], *others: Own) -> Own:
        result: Own = pytree.tree_map(f, self, *others)
        return result

    def named(self) -> dict[str, Tensor]:
        """Every tensor under its name, `layers.0.W.W_q` for the query matrices of the first layer."""
        return {name: part for name, _, part in self._parts()}

    @classmethod
    def from_named(cls: type[Own], named: dict[str, Tensor]) -> Own:
        """The θ whose `named()` is given."""
        theta = cls(**{field.name: _from_named(field, named, cls) for field in _fields(cls)})
        if unknown := named.keys() - theta.named().keys():
            raise ValueError(f"theta: expected the parts of a {cls.__name__}, got {min(unknown)}, which it does not have")
        return theta

    def sizes(self) -> dict[str, int]:
        """Every hyperparameter but ε, by its symbol, as the shapes have it; a ValueError where two parts disagree."""
        sizes = {DEPTHS[field.name]: len(getattr(self, field.name)) for field in _fields(self) if field.name in DEPTHS}
        first: dict[str, str] = {}
        for name, symbols, part in self._parts():
            if not isinstance(part, Tensor) or part.ndim != len(symbols):
                came = f"the shape {tuple(part.shape)}" if isinstance(part, Tensor) else type(part).__name__
                raise ValueError(f"theta: expected {name} ∈ ℝ^{{{'×'.join(symbols)}}}, got {came}")
            for symbol, size in zip(symbols, part.shape, strict=True):
                if symbol.isidentifier():
                    sizes.setdefault(symbol, size)
                    first.setdefault(symbol, name)
                    if size == 0:
                        raise ValueError(f"theta: expected {symbol} of at least 1 in {name}, got 0")
                expected = prod(sizes[factor] for factor in symbol.split("*"))
                if size != expected:
                    source = f", as in {first[symbol]}" if symbol in first else ""
                    raise ValueError(f"theta: expected {symbol} = {expected} in {name} ∈ ℝ^{{{'×'.join(symbols)}}}{source}, got {size}")
        return sizes

    @classmethod
    def draw(cls: type[Own], sizes: dict[str, int], generator: torch.Generator | None, dtype: torch.dtype, device: torch.device | str | None) -> Own:
        """Random parameters: W ∼ 𝒩(0, 1/d), d being the length of what W multiplies (of what it yields for the embeddings), γ = 1, all else 0."""

        def tensor(name: str, shape: tuple[int, ...]) -> Tensor:
            if not name.startswith("W"):
                return torch.full(shape, float(name.startswith("gamma")), dtype=dtype, device=device)
            return normal(shape, shape[0] if name in ("W_e", "W_p") else shape[-1], generator, dtype, device)

        def part(field: "Field[Any]") -> Any:
            if field.name in DEPTHS:
                layer, _ = get_args(field.type)
                return tuple(layer.draw(sizes, generator, dtype, device) for _ in range(sizes[DEPTHS[field.name]]))
            if isinstance(field.type, type) and issubclass(field.type, Theta):
                return field.type.draw(sizes | dict.fromkeys(STREAM, sizes["d_e"]), generator, dtype, device)
            return tensor(field.name, tuple(prod(sizes[factor] for factor in symbol.split("*")) for symbol in _symbols(field)))

        return cls(**{field.name: part(field) for field in _fields(cls)})

    def _parts(self, prefix: str = "") -> Iterator[tuple[str, tuple[str, ...], Tensor]]:
        """(name, symbols of its shape, tensor) for every tensor."""
        for field in _fields(self):
            value = getattr(self, field.name)
            if field.name in DEPTHS:
                kind, _ = get_args(field.type)
                if not isinstance(value, tuple) or not all(isinstance(layer, kind) for layer in value):
                    raise ValueError(f"theta: expected {prefix}{field.name} to be a tuple of {kind.__name__}, got {_kinds(value)}")
                for l, layer in enumerate(value):
                    yield from layer._parts(f"{prefix}{field.name}.{l}.")
            elif isinstance(field.type, type) and issubclass(field.type, Theta):
                if not isinstance(value, field.type):
                    raise ValueError(f"theta: expected {prefix}{field.name} to be a {field.type.__name__}, got {_kinds(value)}")
                for name, symbols, part in value._parts(f"{prefix}{field.name}."):
                    yield name, tuple("d_e" if symbol in STREAM else symbol for symbol in symbols), part
            else:
                yield prefix + field.name, _symbols(field), value


def _fields(theta: Theta | type[Theta]) -> "tuple[Field[Any], ...]":
    return fields(theta)  # type: ignore[arg-type]


def _symbols(field: "Field[Any]") -> tuple[str, ...]:
    return tuple(field.type.dim_str.split())  # type: ignore[union-attr]


def _kinds(value: object) -> str:
    return f"a tuple of {', '.join({type(one).__name__: 0 for one in value})}" if isinstance(value, tuple) else type(value).__name__


def normal(shape: tuple[int, ...], d: int, generator: torch.Generator | None, dtype: torch.dtype, device: torch.device | str | None) -> Tensor:
    """𝒩(0, 1/d), drawn where the generator is, so that one generator gives the same numbers for every device."""
    if not dtype.is_floating_point:
        raise ValueError(f"dtype: expected real numbers, got {dtype}")
    return torch.randn(shape, generator=generator, dtype=dtype, device=generator.device if generator else None).to(device) / sqrt(d)


def _flatten(theta: Theta) -> tuple[list[Any], None]:
    return [getattr(theta, field.name) for field in _fields(theta)], None


def _flatten_with_keys(theta: Theta) -> tuple[list[tuple[pytree.KeyEntry, Any]], None]:
    return [(pytree.GetAttrKey(field.name), getattr(theta, field.name)) for field in _fields(theta)], None


def _unflatten(cls: type[Theta], parts: Iterable[Any]) -> Theta:
    """Past the constructor: transformations of pytrees may put anything in a leaf's place for a while."""
    theta = object.__new__(cls)
    for field, part in zip(_fields(cls), parts, strict=True):
        object.__setattr__(theta, field.name, part)
    return theta


def _from_named(field: "Field[Any]", named: dict[str, Tensor], cls: type[Theta]) -> Any:
    def below(prefix: str) -> dict[str, Tensor]:
        return {name.removeprefix(prefix): part for name, part in named.items() if name.startswith(prefix)}

    if field.name in DEPTHS:
        layer, _ = get_args(field.type)
        count = len({name.split(".")[0] for name in below(f"{field.name}.")})
        return tuple(layer.from_named(below(f"{field.name}.{l}.")) for l in range(count))
    if isinstance(field.type, type) and issubclass(field.type, Theta):
        return field.type.from_named(below(f"{field.name}."))
    if field.name not in named:
        raise ValueError(f"theta: expected {field.name} among the parts of a {cls.__name__}, got {'others' if named else 'none'}")
    return named[field.name]
