"""The page is one file that needs nothing else, and its mathematics is set as the paper's."""

import json
import re

import pytest

from transalg.formal import DTheta, DTransformer
from transalg.trace.example import example
from transalg.trace.export import as_data
from transalg.trace.page import page, typeset
from transalg.trace.record import run
from transalg.trace.source import algorithms, find


def data_of(html: str) -> dict:
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', html, re.S)[1])


def test_the_page_is_self_contained() -> None:
    html = page(example(find("10"), "hello").trace())
    assert not re.search(r"https?:|src=|href=|@import|url\(", html)
    assert html.startswith("<!doctype html>") and "{{" not in html


def test_the_page_holds_every_step_and_every_algorithm_called() -> None:
    trace = example(find("10"), "hello").trace(depth=2)
    data = data_of(page(trace))
    assert len(data["steps"]) == len(trace.steps)
    assert set(data["listings"]) == {"DTransformer", "MHAttention", "Attention", "layer_norm"}
    assert [line["number"] for line in data["listings"]["DTransformer"]["lines"]] == list(range(1, 12))
    assert data["steps"][2]["axes"] == [None, ["bos", "h", "e", "l", "l", "o", "eos"]]
    assert data["steps"][1]["along"] == ["bos", "h", "e", "l", "l", "o", "eos"]


def test_a_text_cannot_break_out_of_the_page() -> None:
    """Neither by its characters nor by a token that is more than one."""
    theta = DTheta.init(N_V=5, ell_max=7, L=1, H=1, d_e=2, d_mlp=3)
    whole = run(DTransformer, [0, 1], theta, vocabulary=["</script><img onerror=x>", "b", "mask", "bos", "eos"])
    for trace in (example(find("10"), "</script><img onerror=x>").trace(), whole):
        html = page(trace)
        assert html.count("</script>") == 2
        assert data_of(html)["vocabulary"] == list(trace.vocabulary)


@pytest.mark.parametrize("number", range(1, 16))
def test_data_is_strict_json(number: int) -> None:
    data = as_data(example(find(str(number)), "hello").trace(depth=2))
    back = json.loads(json.dumps(data, allow_nan=False))
    assert back["algorithm"]["number"] == number
    assert all(step["line"] and step["math"] for step in back["steps"])


def test_minus_infinity_is_written_as_text() -> None:
    data = as_data(example(find("4"), "hi").trace())
    S = next(step["value"] for step in data["steps"] if step["line"] == 5)
    assert [[isinstance(s, str) for s in row] for row in S] == [[z > x for x in range(4)] for z in range(4)]
    assert S[1][0] == "-inf"


@pytest.mark.parametrize(
    ("math", "html"),
    [
        ("W_e[:,x[t]] + W_p[:,t]", "W<sub>e</sub>[:,x[t]] + W<sub>p</sub>[:,t]"),
        ("layer_norm(X̃ | mask_token)", "layer_norm(X̃ | mask_token)"),
        ("q ∝ p^{1/τ}", "q ∝ p<sup>1/τ</sup>"),
        ("e_{ℓ_z}", "e<sub>ℓ<sub>z</sub></sub>"),
        ("γ_l^1", 'γ<span class="both"><sup>1</sup><sub>l</sub></span>'),
        ("𝒲_l^e/d, Mask", '𝒲<span class="both"><sup>e/d</sup><sub>l</sub></span>, Mask'),
        ("x̃_n[t] < 1", "x̃<sub>n</sub>[t] &lt; 1"),
    ],
)
def test_typesetting(math: str, html: str) -> None:
    assert typeset(math) == html


def test_nothing_is_left_unset() -> None:
    """After typesetting, an underscore stands in names of functions and tokens only."""
    words = re.compile(r"(?:layer|pre|post)_norm(?:_decoder)?|(?:mask|bos|eos)_token|class=\"both\"")
    for algorithm in algorithms():
        for line in algorithm.lines:
            assert not re.search(r"[_^]", words.sub("", typeset(line.math))), line.math
