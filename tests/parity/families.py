"""Hugging Face's models in our terms, by what `transalg.interop` knows of their names and settings."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from torch import Tensor

from transalg.hyper import Hyper
from transalg.interop.families import family_of
from transalg.interop.family import Family
from transalg.interop.names import joined, sources_of
from transalg.interop.settings import Settings


def settings(config: Any) -> Settings:
    """As config.json has them."""
    return Settings(config.to_dict())


def family(config: Any) -> Family:
    return family_of(settings(config))


def hyper_of(config: Any) -> Hyper:
    """Our hyperparameters from a configuration of theirs."""
    return family(config).hyper(settings(config))


def state_of(config: Any, named: Mapping[str, Tensor], of: Callable[[Tensor], Tensor] = lambda part: part) -> dict[str, Tensor]:
    """The engine's parameters from theirs; with `of`, their gradients from the gradients of theirs."""
    return dict(joined(hyper_of(config), family(config).sources, lambda name: of(named[_present(config, name, named)])))


def names(config: Any) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Every parameter of the engine with those of theirs that it is made of, as a model in memory calls them."""
    for ours, source in sources_of(hyper_of(config), family(config).sources):
        yield ours, tuple(family(config).aliases.get(name, (name,))[0] for name in source.names)


def _present(config: Any, name: str, named: Mapping[str, Tensor]) -> str:
    """A model in memory has some parameters under other names than a file."""
    return next(one for one in (name, *family(config).aliases.get(name, ())) if one in named)
