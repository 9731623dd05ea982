"""docs/variants.md is what the code says: every system, its difference from Algorithm 10, its presets."""

from pathlib import Path

import pytest

from transalg.hyper import PRESETS, DHyper, GatoHyper
from transalg.hyper.variants import FAMILIES, diff, markdown, presets_of
from transalg.trace.source import Algorithm, algorithms, find

SYSTEMS = [algorithm for algorithm in algorithms() if algorithm.system]


def test_the_page_is_what_the_code_says() -> None:
    """`python -m transalg.hyper.variants > docs/variants.md` writes it anew."""
    assert (Path(__file__).parents[2] / "docs/variants.md").read_text(encoding="utf-8") == markdown()


@pytest.mark.parametrize("system", SYSTEMS, ids=lambda system: system.name)
def test_a_difference_applies(system: Algorithm) -> None:
    """What it keeps and takes away is Algorithm 10, what it keeps and adds the system; nothing is added that was there."""
    rows = diff(system).splitlines()[1:-1]
    for signs, algorithm in ((" -", find("10")), (" +", system)):
        expected = [f"{line.number:>2}  {'    ' * line.indent}{line.math}" for line in algorithm.lines]
        assert [row[2:] for row in rows if row[0] in signs] == expected
    gone, new = ([row[2:] for row in rows if row[0] == sign] for sign in "-+")
    assert len(gone) == len(new) and not set(gone) & set(new)


def test_which_lines_each_system_replaces() -> None:
    replaced = {one.name: sorted({int(row[2:4]) for row in diff(one).splitlines() if row.startswith("+")}) for one in SYSTEMS}
    assert replaced == {
        "Llama": [2, 5, 6, 7, 8, 10],
        "Mistral": [2, 5, 6, 7, 8, 10],
        "Qwen2": [2, 5, 6, 7, 8, 10],
        "Qwen3": [2, 5, 6, 7, 8, 10],
        "Gemma": [2, 5, 6, 7, 8, 10, 11],
        "GPTNeoX": [2, 6, 8],
        "Gato": [1, 2],
    }


def test_every_preset_with_rotary_positions_or_another_line_2_belongs_to_one_system() -> None:
    assert FAMILIES.keys() == {one.name for one in SYSTEMS}
    listed = [name for system in FAMILIES for name in presets_of(system)]
    rotary = {name for name, preset in PRESETS.items() if isinstance(preset.hyper, DHyper) and preset.hyper.positions == "rotary"}
    gato = {name for name, preset in PRESETS.items() if isinstance(preset.hyper, GatoHyper)}
    assert len(listed) == len(set(listed)) == 15 and set(listed) == rotary | gato
    text = markdown()
    assert all(text.count(f"| `{name}` |") == 1 for name in listed)


@pytest.mark.parametrize("name", FAMILIES)
def test_the_presets_of_a_system_have_its_departures(name: str) -> None:
    """What tells the systems apart, read off the hyperparameters."""
    for preset in presets_of(name).values():
        hyper = preset.hyper
        assert isinstance(hyper, DHyper)
        telling = hyper.bias, hyper.qk_norm, hyper.band is not None, hyper.norm, hyper.parallel, hyper.activation
        assert (
            telling
            == {
                "Llama": ("none", False, False, "RMSnorm", False, "SwiGLU"),
                "Mistral": ("none", False, True, "RMSnorm", False, "SwiGLU"),
                "Qwen2": ("qkv", False, False, "RMSnorm", False, "SwiGLU"),
                "Qwen3": ("none", True, False, "RMSnorm", False, "SwiGLU"),
                "Gemma": ("none", False, False, "RMSnorm_1p", False, "tanh_GEGLU"),
                "GPTNeoX": ("all", False, False, "layer_norm", True, "GELU"),
                "Gato": ("all", False, False, "layer_norm", False, "GEGLU"),
            }[name]
        )
