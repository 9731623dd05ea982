"""transalg presets: the published systems as departures from the paper, and what they cost."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import tyro
from rich.console import Console
from rich.table import Table
from rich.text import Text

from transalg import terminal
from transalg.checks import integer
from transalg.cli.bounds import Size
from transalg.cli.using import Flag
from transalg.hyper import PRESETS, GatoHyper, Preset, cost, find
from transalg.hyper.embedding import patch_flops
from transalg.limits import limits


@dataclass(frozen=True)
class Presets:
    """List the published systems, or show one: its departures from the paper and its cost.

    transalg presets gpt2 --context 512 --batch 8
    """

    name: Annotated[str | None, tyro.conf.Positional, tyro.conf.arg(metavar="[NAME]", help_behavior_hint="")] = None
    """One of the names that `transalg presets` lists."""
    context: Annotated[int | None, tyro.conf.arg(metavar="TOKENS", help_behavior_hint="")] = None
    """For the cost: tokens in a row; by default ℓ_max."""
    batch: Size = 1
    """For the cost: rows in a batch."""
    bytes: Annotated[int, limits("[1, 8]")] = 4
    """For the cost: bytes per number, 4 in float32, 2 in bfloat16."""
    processes: Annotated[int, limits("[1, 1000000]")] = 1
    """For the cost: training processes, each with its own rows; the memory and traffic of each, replicated (DDP) and sharded (FSDP2)."""
    json: Flag = False
    """Print JSON."""

    def run(self) -> None:
        console = terminal.console()
        if self.name is None:
            if self.context is not None:
                raise ValueError("--context: expected the NAME of a preset with it, got none")
            if self.json:
                print(json.dumps({name: summary(preset) for name, preset in PRESETS.items()}, ensure_ascii=False))
            else:
                _list(console)
            return
        preset = find(self.name)
        context = (
            preset.hyper.ell_max if self.context is None else integer("--context", self.context, 1, preset.hyper.ell_max, limit="ℓ_max")
        )
        if self.json:
            print(
                json.dumps(summary(preset) | {"costs": costs(preset, context, self.batch, self.bytes, self.processes)}, ensure_ascii=False)
            )
        else:
            _show(self.name, preset, context, self.batch, self.bytes, self.processes, console)


def summary(preset: Preset) -> dict[str, Any]:
    hyper = preset.hyper
    return {
        "algorithm": hyper.algorithm,
        "parameters": cost.parameters(hyper),
        "published": preset.published,
        "source": preset.source,
        "sizes": {symbol: size for symbol, size in hyper.sizes().items() if size is not None},
        "departures": hyper.departures(),
        **({"replaced": hyper.replaced} if hyper.replaced else {}),
        "notes": [note for note in (preset.count, preset.note) if note],
    }


def costs(preset: Preset, context: int, batch: int, each: int, processes: int = 1) -> dict[str, Any]:
    hyper = preset.hyper
    forward = cost.flops_per_token(hyper, context, batch)
    values = {
        "context": context,
        "batch": batch,
        "bytes per number": each,
        "FLOPs per token, forward": forward,
        "FLOPs per token, training": 3 * forward,
        "bytes to train": cost.train_bytes(hyper, context, batch, each),
    }
    if processes > 1:
        values["processes"] = processes
        values["bytes to train sharded, each process"] = cost.sharded_train_bytes(hyper, context, batch, processes, each)
        values["bytes sent a step, replicated"] = cost.traffic_bytes(hyper, processes, sharded=False, bytes_each=each)
        values["bytes sent a step, sharded"] = cost.traffic_bytes(hyper, processes, sharded=True, bytes_each=each)
    if cost.cache_bytes(hyper, context, batch, each):
        values["bytes to decode"] = {
            "weights": cost.parameters(hyper) * each,
            "keys and values": cost.cache_bytes(hyper, context, batch, each),
        }
    return values


def _list(console: Console) -> None:
    families: dict[tuple[str, int], dict[str, Preset]] = {}
    for name, preset in PRESETS.items():
        families.setdefault((preset.source, preset.hyper.algorithm), {})[name] = preset
    for (source, algorithm), presets in families.items():
        all_departures = [preset.hyper.departures() for preset in presets.values()]
        common = {key: value for key, value in all_departures[0].items() if all(each.get(key) == value for each in all_departures)}
        replaced = next(iter(presets.values())).hyper.replaced
        but = f"{replaced}, " if replaced else ""
        console.print(Text.assemble((f"Algorithm {algorithm}", "bold"), f" ({source}), but ", (but + _fields(common), "cyan")))
        table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
        table.add_column("")
        for title in ("parameters", "published", "layers", "d_e", "heads"):
            table.add_column(title, justify="right", no_wrap=True)
        specific = [{key: value for key, value in each.items() if key not in {*common, "d_attn", "d_mid"}} for each in all_departures]
        table.add_column("and" if any(specific) else "")
        for (name, preset), more in zip(presets.items(), specific, strict=True):
            hyper = preset.hyper
            layers = str(getattr(hyper, "L", "")) or "+".join(str(hyper.sizes()[stack]) for stack in ("L_enc", "L_dec"))
            heads = f"{hyper.H}×{hyper.d_attn}"
            table.add_row(
                f"  {name}", f"{cost.parameters(hyper):,}", preset.published, layers, str(hyper.d_e), heads, Text(_fields(more), "cyan")
            )
        console.print(table)
        for name, preset in presets.items():
            if preset.count:
                console.print(f"  {name}: {preset.count}")
        console.print()
    console.print("transalg presets NAME shows all departures of one, and what it costs to train and to decode.")


def _fields(departures: Mapping[str, object]) -> str:
    return ", ".join(name if value is True else f"{name}={value}" for name, value in departures.items())


def _show(name: str, preset: Preset, context: int, batch: int, each: int, processes: int, console: Console) -> None:
    hyper = preset.hyper
    console.print(Text.assemble((name, "bold"), f", Algorithm {hyper.algorithm} as in {preset.source}"))
    console.print("  " + ", ".join(f"{symbol}={size}" for symbol, size in hyper.sizes().items() if size is not None))
    console.print(f"  {cost.parameters(hyper):,} parameters; published: {preset.published}")
    for note in (preset.count, preset.note):
        if note:
            console.print(f"  {note}")
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, title="Departures from the paper", title_justify="left")
    for title in ("field", "the paper", "here", "meaning"):
        table.add_column(title)
    if hyper.replaced:
        table.add_row("embedding", "W_e, W_p", Text("Gato's", "cyan"), f"{hyper.replaced}: `transalg algorithm Gato`")
    for field, value in hyper.departures().items():
        table.add_row(
            field, "d_e / H" if field in ("d_attn", "d_mid") else str(hyper.paper(field)), Text(str(value), "cyan"), hyper.doc(field)
        )
    console.print()
    console.print(table)
    console.print()
    console.print(f"With {batch} row{'s' if batch > 1 else ''} of {context} tokens, {each} bytes a number:", style="bold")
    values = costs(preset, context, batch, each, processes)
    sums = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, show_header=False)
    sums.add_column(justify="right")
    sums.add_column()
    if isinstance(hyper, GatoHyper):
        sums.add_row(_unit(patch_flops(hyper), "FLOP"), "more for an image patch")
    pair = " (a token of z and one of x)" if hyper.algorithm == 8 else ""
    sums.add_row(
        _unit(values["FLOPs per token, forward"], "FLOP"),
        f"per token{pair}, forward; {_unit(values['FLOPs per token, training'], 'FLOP')} to train on it",
    )
    for what in ("train", "decode"):
        parts = values.get(f"bytes to {what}")
        if parts:
            sums.add_row(
                _unit(sum(parts.values()), "B"), f"to {what}: " + ", ".join(f"{key} {_unit(value, 'B')}" for key, value in parts.items())
            )
    if processes > 1:
        parts = values["bytes to train sharded, each process"]
        sums.add_row(
            _unit(sum(parts.values()), "B"),
            f"in each of {processes:,} processes, sharded, with activation checkpointing: "
            + ", ".join(f"{key} {_unit(value, 'B')}" for key, value in parts.items()),
        )
        sent = _unit(values["bytes sent a step, sharded"], "B"), _unit(values["bytes sent a step, replicated"], "B")
        sums.add_row(sent[0], f"sent by each in a step, sharded; {sent[1]} replicated")
    console.print(sums)


def _unit(value: float, unit: str) -> str:
    for prefix in ("", "k", "M", "G", "T", "P"):
        if abs(value) < 1000 or prefix == "P":
            return f"{value:.3g} {prefix}{unit}" if value < 1000 else f"{value:.0f} {prefix}{unit}"
        value /= 1000
    raise AssertionError


PresetsVerb = Annotated[Presets, tyro.conf.subcommand("presets")]
