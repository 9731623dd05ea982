"""Where the data of a run lie: absolute and relative to the run's folder, so that they are found from anywhere and after a move."""

import os
from pathlib import Path
from typing import Any

import tomli_w

from transalg.reading import read_toml
from transalg.runs.config import Config, several

OPTIONS = ("data", "valid")  # those that name files or folders of data
TABLE = "paths"


def with_paths(config: Config, folder: Path, place: Path | None = None) -> str:
    """config.toml of the run in a folder: its options, and where its data lie now; or will lie, if the run's files are in another place yet."""
    paths = dict[str, Any]()
    for option in OPTIONS:
        value = getattr(config, option)
        places = [
            _writable({"absolute": os.path.abspath(name), "relative": os.path.relpath(name, folder)})
            if _exists(name, folder, place)
            else {}
            for name in several(value)  # built-in data are no file
        ]
        if any(places):
            paths[option] = places if isinstance(value, tuple) else places[0]
    return config.toml() + (f"\n{tomli_w.dumps({TABLE: paths})}" if paths else "")


def load_config(file: Path) -> Config:
    """config.toml of a run; a ValueError names the file."""
    options = read_options(file)
    if "task" not in options:
        raise ValueError(f"{file}: task: is missing; restore the file from a copy")
    try:
        return Config.from_dict(options)
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from error


def _writable(places: dict[str, str]) -> dict[str, str]:
    """Those that TOML can have: a folder's name may be bytes that are no text."""
    return {name: place for name, place in places.items() if place == place.encode("utf-8", "replace").decode()}


def read_options(file: Path) -> dict[str, Any]:
    """The options in a file. What config.toml of a run says of its data becomes the place where they are: beside the run, or where they were."""
    options = read_toml(file)
    paths = options.pop(TABLE, {})
    for option in OPTIONS:
        place, value = paths.get(option) if isinstance(paths, dict) else None, options.get(option)
        if isinstance(place, dict) and isinstance(value, str):
            options[option] = _located(value, place, file.parent)
        elif isinstance(place, list) and isinstance(value, list) and len(place) == len(value):
            pairs = zip(value, place, strict=True)
            options[option] = [
                _located(name, one, file.parent) if isinstance(one, dict) and one and isinstance(name, str) else name for name, one in pairs
            ]
    return options


def _exists(name: str, folder: Path, place: Path | None) -> bool:
    path = Path(name)
    return path.exists() or (place is not None and path.is_relative_to(folder) and (place / path.relative_to(folder)).exists())


def _located(name: str, place: dict[str, Any], folder: Path) -> str:
    """The name itself, if it is the same file or nothing better exists."""
    beside = os.path.normpath(os.path.join(os.path.abspath(folder), str(place.get("relative", name))))
    for path in (beside, str(place.get("absolute", name))):
        if os.path.exists(path):
            return name if os.path.exists(name) and os.path.samefile(name, path) else path
    return name
