"""Today's decoders, each as its difference from Algorithm 10: the text of docs/variants.md. No torch.

`python -m transalg.hyper.variants > docs/variants.md` writes the page anew.
"""

from collections.abc import Iterator

from transalg.hyper.hyper import DHyper
from transalg.hyper.presets import PRESETS, Preset
from transalg.trace.source import Algorithm, algorithms, difference

HEAD = """\
# Today's decoders as differences from Algorithm 10

Nearly every decoder that people run is Algorithm 10 with some lines replaced. Each system below keeps the paper's line
numbers: − is the paper's line, + the system's. `transalg algorithm Llama` shows the same with the Python of each new
line, `transalg trace Llama` runs it, `transalg presets` has the sizes. The formal functions are in
`transalg/formal/decoders.py`, what they are made of in `positions.py`, `heads.py`, `mlp.py`, `norm.py`, `bias.py`.
Gato, which sees images and acts, is in `gato.py`.
"""
FAMILIES = {  # how the presets of a system begin
    "Llama": ("llama", "tinyllama", "smollm2"),
    "Mistral": ("mistral",),
    "Qwen2": ("qwen2",),
    "Qwen3": ("qwen3",),
    "Gemma": ("gemma",),
    "GPTNeoX": ("pythia",),
    "Gato": ("gato",),
}
COLUMNS = ("L", "d_e", "d_mlp", "H", "H_kv", "d_attn")
TELLING = ("d_rot", "rotary_base", "rotary_scaling", "band", "eps", "tied")  # of presets of one system, apart from sizes


def presets_of(system: str) -> dict[str, Preset]:
    """The presets that are a system, by name."""
    return {name: preset for name, preset in PRESETS.items() if name.startswith(FAMILIES[system])}


def diff(system: Algorithm) -> str:
    """Every line of Algorithm 10, and where a system has another, both."""

    def written() -> Iterator[str]:
        for before, after in difference(system):
            margin = "    " * after.indent
            signs = ((" ", after),) if before.math == after.math else (("-", before), ("+", after))
            yield from (f"{sign} {line.number:>2}  {margin}{line.math}" for sign, line in signs)

    return "\n".join(["```diff", *written(), "```"])


def _table(system: str) -> str:
    """A row for each of its presets."""
    rows = [("preset", "parameters", *COLUMNS, "further"), ("---",) * (len(COLUMNS) + 3)]
    for name, preset in presets_of(system).items():
        hyper = preset.hyper
        assert isinstance(hyper, DHyper)
        sizes = {"L": hyper.L, "d_e": hyper.d_e, "d_mlp": hyper.d_mlp, "H": hyper.H, "H_kv": hyper.heads.H_kv, "d_attn": hyper.heads.d_attn}
        departures = ({"rotary_base": hyper.rotary_base} if hyper.rotary_base else {}) | hyper.departures()
        further = [_said(one, departures[one]) for one in TELLING if one in departures]
        count = f"{preset.published[:-1]} {preset.published[-1]}"
        rows.append((f"`{name}`", count, *(str(sizes[column]) for column in COLUMNS), ", ".join(further)))
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _said(name: str, value: object) -> str:
    """rotary_base 500000, tied."""
    numbers = value if isinstance(value, tuple) else (value,)
    return name if value is True else f"{name} {' '.join(f'{number:g}' for number in numbers)}"


def markdown() -> str:
    """docs/variants.md."""
    systems = [algorithm for algorithm in algorithms() if algorithm.system]
    parts = [f"## {one.name}\n\n{one.summary}\n\n{diff(one)}\n\n{_table(one.name)}" for one in systems]
    return "\n\n".join([HEAD.rstrip(), *parts]) + "\n"


if __name__ == "__main__":
    print(markdown(), end="")
