"""The page is one file that needs nothing else, and its mathematics is set as the paper's."""

import json
import re
from base64 import b64decode
from functools import partial
from typing import Any

import pytest
import torch
from torch.testing import assert_close

from tests.strategies import rng
from transalg.formal import DTheta, DTransformer, MHAttention
from transalg.formal.positions import RelativeAttention, relative
from transalg.trace.example import example
from transalg.trace.export import as_data, visible
from transalg.trace.page import page, typeset
from transalg.trace.record import run
from transalg.trace.setting import Settings
from transalg.trace.source import algorithms, find


def data_of(html: str) -> dict:
    """The data of a page, every matrix in its place."""
    data = json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', html, re.S)[1])
    for step in data["steps"]:
        for one in (step, *step["operands"], *step["inner"]):
            if isinstance(one["value"], dict) and "float32" in one["value"]:
                one["value"]["float32"] = data["pool"][one["value"]["float32"]]
    return data


def values(step: dict) -> torch.Tensor:
    """The numbers of a step, as the page unpacks them."""
    packed: dict[str, Any] = step["value"]
    return torch.frombuffer(bytearray(b64decode(packed["float32"])), dtype=torch.float32).reshape(packed["shape"])


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
    long_token = run(DTransformer, [0, 1], theta, vocabulary=["</script><img onerror=x>", "b", "mask", "bos", "eos"])
    for trace in (example(find("10"), "</script><img onerror=x>").trace(), long_token):
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


def test_the_page_has_the_numbers() -> None:
    """Vectors, lists of them and matrices, −∞ too, in float32."""
    trace = example(find("4"), "hi").trace()
    for shown, step in zip(data_of(page(trace))["steps"], trace.steps, strict=True):
        assert_close(values(shown), step.value.float(), rtol=0, atol=0)
    assert values(data_of(page(trace))["steps"][4])[1, 0] == -torch.inf
    trace = example(find("10"), "hi").trace()
    assert_close(values(data_of(page(trace))["steps"][1]), torch.stack(trace.steps[1].value).float(), rtol=0, atol=0)


def test_of_a_large_vocabulary_the_page_shows_the_most_probable_tokens() -> None:
    theta = DTheta.init(N_V=1009, ell_max=7, L=1, H=1, d_e=5, d_mlp=3, generator=rng(0))
    vocabulary = [f"v{i}" for i in range(1009)]
    trace = run(DTransformer, [1007, 3, 5], theta, vocabulary=vocabulary)
    shown, P = data_of(page(trace))["steps"][-1], trace.result
    names = shown["axes"][0]
    assert shown["shape"] == [1009, 3] and shown["part"] == "the 48 most probable tokens" and len(set(names)) == 48
    assert_close(values(shown), P[[vocabulary.index(name) for name in names]].float(), rtol=0, atol=0)
    assert names[:12] == [vocabulary[v] for v in P[:, -1].argsort(descending=True)[:12]], "first what may come next"
    for t in range(3):
        assert vocabulary[P[:, t].argmax()] in names
    assert shown["axes"][1] == ["v1007", "v3", "v5"]
    assert len(as_data(trace)["steps"][-1]["value"]) == 1009, "JSON is for programs, and whole"


def test_of_many_features_the_page_shows_the_first() -> None:
    theta = DTheta.init(N_V=11, ell_max=67, L=1, H=1, d_e=8, d_mlp=3, generator=rng(0))
    by_distance = partial(MHAttention, Attention=RelativeAttention)
    trace = run(DTransformer, [1] * 67, relative(theta, 16, rng(1)), depth=2, MHAttention=by_distance)
    shown = {step["symbol"]: step for step in data_of(page(trace))["steps"]}
    assert shown["r"]["shape"] == [16, 67, 67] and shown["r"]["value"]["shape"] == [7, 67, 67]
    assert shown["r"]["part"] == "the first 7 of d_r" and shown["S"]["part"] == ""


def test_operands_stand_beside_the_result() -> None:
    """Those of Q ← W_q X are what Q was made of, as it was before the line."""
    trace = example(find("4"), "hi").trace()
    (Q, *_), (shown, *_) = trace.steps, data_of(page(trace))["steps"]
    assert [one["symbol"] for one in shown["operands"]] == ["W<sub>q</sub>", "X", "b<sub>q</sub>"]
    W_q, X, b_q = (one.value for one in Q.operands)
    assert_close(W_q @ X + b_q[:, None], Q.value)
    for one, operand in zip(shown["operands"], Q.operands, strict=True):
        assert_close(values(one), operand.value.float(), rtol=0, atol=0)
    before, after = (
        step for step in example(find("10"), "hi").trace().steps if step.line.number in (3, 6) and step.passes in ({}, {"l": 1})
    )
    assert after.operands[0].value.equal(before.value) and not after.value.equal(before.value)


def test_a_loss_without_tokens_has_a_page() -> None:
    """No token is masked, so no term is in the sum."""
    data = data_of(page(example(find("12"), "ab", settings=Settings(p_mask=1e-9, N_epochs=1)).trace()))
    loss = next(step for step in data["steps"] if step["line"] == 9)
    assert loss["value"] == 0 and loss["inner"][0]["value"]["shape"] == [0]


def test_a_large_operand_is_shown_by_its_corner() -> None:
    theta = DTheta.init(N_V=101, ell_max=7, L=1, H=1, d_e=67, d_mlp=3, generator=rng(0))
    trace = run(DTransformer, [1, 2], theta, vocabulary=[str(v) for v in range(101)])
    W_e = data_of(page(trace))["steps"][1]["operands"][0]
    assert W_e["shape"] == [67, 101] and W_e["value"]["shape"] == [64, 64] and len(W_e["axes"][1]) == 64
    assert_close(values(W_e), theta.W_e[:64, :64].float(), rtol=0, atol=0)


def test_a_matrix_that_many_lines_read_is_in_the_page_once() -> None:
    html = page(example(find("14"), "hello", settings=Settings(ell_gen=3)).trace(depth=3))
    pool = json.loads(re.search(r'id="data">(.*?)</script>', html, re.S)[1])["pool"]
    assert len(pool) == len(set(pool))
    shown = [
        one["value"]["float32"] for step in data_of(html)["steps"] for one in (step, *step["operands"]) if "float32" in str(one["value"])
    ]
    assert len(shown) > 2 * len(pool)


def test_the_page_says_why_and_what_is_wrong_with_the_paper() -> None:
    data = data_of(page(example(find("10"), "hi").trace(depth=2)))
    for listing in data["listings"].values():
        assert all(line["why"] for line in listing["lines"])
    assert data["listings"]["layer_norm"]["lines"][2]["errata"] == [3]
    where, paper, decision = data["errata"]["3"]
    assert where == "Algorithm 6" and paper.startswith("divides by √v") and "√(v + ε)" in decision
    assert next(step["errata"] for step in data["steps"] if step["algorithm"] == "Attention" and step["line"] == 6) == [7, 18]


def test_a_system_has_a_page() -> None:
    """With the weights of every head, and a listing for every algorithm called."""
    data = data_of(page(example(find("Llama"), "hi").trace(depth=2)))
    assert set(data["listings"]) == {"Llama", "GroupedMHAttention", "RotaryAttention", "RMSnorm"}
    weights = [values(inner) for step in data["steps"] for inner in step["inner"] if step["algorithm"] == "RotaryAttention"]
    assert len(weights) == 4
    for one in weights:
        assert_close(one.sum(dim=0), torch.ones(4))
    assert data["inputs"]["ω"] == "1 0.1 0.01 0.001"


@pytest.mark.parametrize(("token", "seen"), [(" ", "␣"), (" the", "␣the"), ("a\n\t", "a⏎⇥"), ("\x1b[1m", "\\x1b[1m"), ("é猫", "é猫")])
def test_every_token_can_be_seen(token: str, seen: str) -> None:
    assert visible(token) == seen


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
    words = re.compile(
        r"(?:layer|pre|post)_norm(?:_decoder)?|RMSnorm_1p|group_norm|mu_law(?:_inverse)?|tanh_GELU|decoder_block|(?:mask|bos|eos)_token|class=\"both\""
    )
    for algorithm in algorithms():
        for line in algorithm.lines:
            assert not re.search(r"[_^]", words.sub("", typeset(line.math))), line.math
