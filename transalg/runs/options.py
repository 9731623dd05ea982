"""Options by name, in the tables of config.toml, and what they override."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from transalg.hyper.hyper import DERIVED_SIZES
from transalg.runs.config import Train
from transalg.tasks import TASKS

OVERRIDDEN = {  # when one of these changes, what a file says of the others no longer holds
    "model.d_e": (*DERIVED_SIZES["d_e"], "d_mlp"),
    "model.H": DERIVED_SIZES["H"],
    "train.steps": ("epochs", "warmup", "eval_every", "save_every"),
    "train.epochs": ("steps", "warmup", "eval_every", "save_every"),
}
TABLES = {
    "train": frozenset(each.name for each in fields(Train)),
    "model": frozenset(each.name for task in TASKS.values() for each in fields(task.hyper_class)),
}


def in_tables(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of training and of the model in their tables, where they are named alone.

    >>> in_tables({"steps": 100, "d_e": 64, "split": 0.2, "train": {"seed": 1}})
    {'train': {'seed': 1, 'steps': 100}, 'model': {'d_e': 64}, 'split': 0.2}
    """
    result: dict[str, Any] = {}
    for name, table in TABLES.items():
        of_table, alone = options.get(name), {one: value for one, value in options.items() if one in table}
        if isinstance(of_table, Mapping) or of_table is None:
            of_table = {**(of_table or {}), **alone} or None
        if of_table is not None:
            result[name] = of_table
    return result | {
        one: value for one, value in options.items() if one not in TABLES and not any(one in table for table in TABLES.values())
    }


def override(file: Mapping[str, Any], options: Mapping[str, Any], where: object = "") -> dict[str, Any]:
    """The options of a file, overridden by others."""
    chosen = {**file, **{name: value for name, value in options.items() if name not in TABLES}}
    for name in TABLES:
        table, more = file.get(name, {}), options.get(name, {})
        for each in (table, more):
            if not isinstance(each, Mapping):
                raise ValueError(f"{f'{where}: ' if where else ''}{name}: expected a table of options, got {each!r}")
        if more:
            derived = {one for changed in more for one in OVERRIDDEN.get(f"{name}.{changed}", ())}
            chosen[name] = {one: value for one, value in table.items() if one not in derived} | {**more}
    model, train = options.get("model", {}), options.get("train", {})
    if {"d_e", "optimizer"} & {*model, *train} and "eta" not in train and "train" in chosen:
        chosen["train"] = {one: value for one, value in chosen["train"].items() if one != "eta"}
    return chosen
