"""What every θ can do: it is a frozen dataclass and a pytree, and every field declares its shape.

The declarations are the types, the initialisation, the check that the parts of a θ agree, and the place where
the hyperparameters are read off. As a pytree, θ is what `torch.func.grad` differentiates by, and
`theta - eta * gradient` is a θ. A keyword-only field is no tensor: it is the context of the pytree, which
every transformation leaves as it is.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import Field, fields
from math import prod, sqrt
from typing import TypeVar, Union, get_args

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

DEPTHS = {"layers": "L", "enc": "L_enc", "dec": "L_dec"}  # the symbol of a tuple of layers' length
# What attention maps between; inside a layer the residual stream makes all three d_e.
STREAM = ("d_x", "d_z", "d_out")
DRAWN = ("W", "K", "w_")  # how the symbols begin whose initial values are random
TABLES = ("W_e", "W_p", "W_loc", "W_row", "W_col", "w_a")  # embeddings: vectors that are looked up

# not typing.Self, which the run-time checker of the tests does not know
AnyTheta = TypeVar("AnyTheta", bound="Theta")
Part = Union[Tensor, "Theta", tuple["Theta", ...]]
Device = torch.device | str


class Theta:
    """A collection of parameters: tensors, further Thetas, and tuples of Thetas, one per layer."""

    def __init_subclass__(cls) -> None:
        pytree.register_pytree_node(
            cls,
            _flatten,
            lambda parts, context: _unflatten(cls, parts, context),
            flatten_with_keys_fn=_flatten_with_keys,
        )

    def __post_init__(self) -> None:
        self.sizes()

    def __repr__(self) -> str:
        try:
            sizes = ", ".join(f"{symbol}={size}" for symbol, size in self.sizes().items())
        except ValueError:  # between two transformations of a pytree, its leaves may be no tensors
            return f"{type(self).__name__}(…)"
        count = sum(part.numel() for part in self.named().values())
        return f"{type(self).__name__}({sizes}: {count:,} numbers)"

    def __add__(self: AnyTheta, other: AnyTheta) -> AnyTheta:
        return self._map(torch.add, other)

    def __sub__(self: AnyTheta, other: AnyTheta) -> AnyTheta:
        return self._map(torch.sub, other)

    def __rmul__(self: AnyTheta, scalar: float) -> AnyTheta:
        return self._map(lambda part: scalar * part)

    def to(self: AnyTheta, target: torch.dtype | Device) -> AnyTheta:
        """The same θ in another dtype or on another device: `Tensor.to` for every part."""
        return self._map(lambda part: part.to(target))

    def _map(self: AnyTheta, f: Callable[..., Tensor], *others: AnyTheta) -> AnyTheta:
        result: AnyTheta = pytree.tree_map(f, self, *others)
        return result

    def named(self) -> dict[str, Tensor]:
        """Every tensor under its name, `layers.0.W.W_q` for the query matrices of the first layer."""
        return {name: part for name, _, part in self._parts()}

    @classmethod
    def from_named(cls: type[AnyTheta], named: dict[str, Tensor]) -> AnyTheta:
        """The θ with this `named()`."""
        theta = cls(**{field.name: _from_named(field, named, cls) for field in _fields(cls)})
        if unknown := named.keys() - theta.named().keys():
            expected = f"expected the parts of a {cls.__name__}"
            raise ValueError(f"theta: {expected}, got {min(unknown)}, which it does not have")
        return theta

    @classmethod
    def symbols(cls) -> tuple[str, ...]:
        """The hyperparameters that the declarations name, in their order."""
        names: list[str] = []
        for field in _fields(cls):
            if field.name in DEPTHS:
                names.append(DEPTHS[field.name])
            if kind := _nested(field):
                names += ("d_e" if symbol in STREAM else symbol for symbol in kind.symbols())
            else:
                names += (factor for symbol in _symbols(field) for factor in symbol.split("*"))
        return tuple(dict.fromkeys(names))

    def sizes(self) -> dict[str, int]:
        """Every hyperparameter but ε, by its symbol, read off the shapes; a ValueError where two disagree."""
        depths = (field.name for field in _fields(self) if field.name in DEPTHS)
        sizes = {DEPTHS[name]: len(getattr(self, name)) for name in depths}
        first: dict[str, str] = {}
        for name, symbols, part in self._parts():
            space = f"{name} ∈ ℝ^{{{'×'.join(symbols)}}}"
            if not isinstance(part, Tensor) or part.ndim != len(symbols):
                got = f"the shape {tuple(part.shape)}" if isinstance(part, Tensor) else type(part).__name__
                raise ValueError(f"theta: expected {space}, got {got}")
            for symbol, size in zip(symbols, part.shape, strict=True):
                if symbol.isidentifier():
                    sizes.setdefault(symbol, size)
                    first.setdefault(symbol, name)
                    if size == 0:
                        raise ValueError(f"theta: expected {symbol} of at least 1 in {name}, got 0")
                expected = prod(sizes[factor] for factor in symbol.split("*"))
                if size != expected:
                    source = f", as in {first[symbol]}" if symbol in first else ""
                    raise ValueError(f"theta: expected {symbol} = {expected} in {space}{source}, got {size}")
        return sizes

    @classmethod
    def draw(
        cls: type[AnyTheta],
        sizes: dict[str, int],
        generator: torch.Generator | None,
        dtype: torch.dtype,
        device: Device | None,
    ) -> AnyTheta:
        """Random parameters: W and kernels K ∼ 𝒩(0, 1/d), γ = 1, all else 0.

        d is the length of what W multiplies; of what it gives, for embeddings such as W_e and W_p.
        """

        def tensor(name: str, shape: tuple[int, ...]) -> Tensor:
            if not name.startswith(DRAWN):
                return torch.full(shape, float(name.startswith("gamma")), dtype=dtype, device=device)
            d = shape[0] if name in TABLES else prod(shape[1:]) if name.startswith("K") else shape[-1]
            return normal(shape, d, generator, dtype, device)

        def part(field: Field[object]) -> Part:
            kind = _nested(field)
            if kind and field.name in DEPTHS:
                depth = sizes[DEPTHS[field.name]]
                return tuple(kind.draw(sizes, generator, dtype, device) for _ in range(depth))
            if kind:
                return kind.draw(sizes | dict.fromkeys(STREAM, sizes["d_e"]), generator, dtype, device)
            shape = (prod(sizes[factor] for factor in symbol.split("*")) for symbol in _symbols(field))
            return tensor(field.name, tuple(shape))

        return cls(**{field.name: part(field) for field in _fields(cls)})

    def _parts(self, prefix: str = "") -> Iterator[tuple[str, tuple[str, ...], Tensor]]:
        """(name, symbols of its shape, tensor) for every tensor."""
        for field in _fields(self):
            value, kind = getattr(self, field.name), _nested(field)
            name = prefix + field.name
            if kind and field.name in DEPTHS:
                if not isinstance(value, tuple) or not all(isinstance(layer, kind) for layer in value):
                    expected = f"{name} to be a tuple of {kind.__name__}"
                    raise ValueError(f"theta: expected {expected}, got {_kinds(value)}")
                for l, layer in enumerate(value):
                    yield from layer._parts(f"{name}.{l}.")
            elif kind:
                if not isinstance(value, kind):
                    raise ValueError(f"theta: expected {name} to be a {kind.__name__}, got {_kinds(value)}")
                for inner, symbols, part in value._parts(f"{name}."):
                    yield inner, tuple("d_e" if symbol in STREAM else symbol for symbol in symbols), part
            else:
                yield name, _symbols(field), value


def field_names(theta: Theta | type[Theta]) -> set[str]:
    return {field.name for field in (*_fields(theta), *_context(theta))}


def _fields(theta: Theta | type[Theta]) -> tuple[Field[object], ...]:
    """The fields that hold tensors."""
    return tuple(field for field in fields(theta) if not field.kw_only)  # type: ignore[arg-type]


def _context(theta: Theta | type[Theta]) -> tuple[Field[object], ...]:
    """The fields that hold none."""
    return tuple(field for field in fields(theta) if field.kw_only)  # type: ignore[arg-type]


def _symbols(field: Field[object]) -> tuple[str, ...]:
    return tuple(field.type.dim_str.split())  # type: ignore[union-attr]


def _nested(field: Field[object]) -> type[Theta] | None:
    """The kind of θ that a field holds, one or one per layer; None for a tensor."""
    kind = get_args(field.type)[0] if field.name in DEPTHS else field.type
    return kind if isinstance(kind, type) and issubclass(kind, Theta) else None


def _kinds(value: object) -> str:
    if isinstance(value, tuple):
        return f"a tuple of {', '.join({type(one).__name__: 0 for one in value})}"
    return type(value).__name__


def normal(
    shape: tuple[int, ...],
    d: int,
    generator: torch.Generator | None,
    dtype: torch.dtype,
    device: Device | None,
) -> Tensor:
    """𝒩(0, 1/d), drawn where the generator is: one generator gives the same numbers for every device."""
    if not dtype.is_floating_point:
        raise ValueError(f"dtype: expected real numbers, got {dtype}")
    source = generator.device if generator else None
    return torch.randn(shape, generator=generator, dtype=dtype, device=source).to(device) / sqrt(d)


def _flatten(theta: Theta) -> tuple[list[Part], tuple[object, ...]]:
    context = tuple(getattr(theta, field.name) for field in _context(theta))
    return [getattr(theta, field.name) for field in _fields(theta)], context


def _flatten_with_keys(theta: Theta) -> tuple[list[tuple[pytree.KeyEntry, Part]], tuple[object, ...]]:
    parts, context = _flatten(theta)
    names = (pytree.GetAttrKey(field.name) for field in _fields(theta))
    return list(zip(names, parts, strict=True)), context


def _unflatten(cls: type[Theta], parts: Iterable[object], context: tuple[object, ...]) -> Theta:
    """Past the constructor: transformations of pytrees may put anything in a leaf's place for a while."""
    theta = object.__new__(cls)
    for field, part in zip((*_fields(cls), *_context(cls)), (*parts, *context), strict=True):
        object.__setattr__(theta, field.name, part)
    return theta


def _from_named(field: Field[object], named: dict[str, Tensor], cls: type[Theta]) -> Part:
    def below(prefix: str) -> dict[str, Tensor]:
        return {name.removeprefix(prefix): part for name, part in named.items() if name.startswith(prefix)}

    kind = _nested(field)
    if kind and field.name in DEPTHS:
        count = len({name.split(".")[0] for name in below(f"{field.name}.")})
        return tuple(kind.from_named(below(f"{field.name}.{l}.")) for l in range(count))
    if kind:
        return kind.from_named(below(f"{field.name}."))
    if field.name not in named:
        expected = f"expected {field.name} among the parts of a {cls.__name__}"
        raise ValueError(f"theta: {expected}, got {'others' if named else 'none'}")
    return named[field.name]
