"""A trace is what the running code did: every line, its value, its shape."""

import re
import sys
from functools import partial
from pathlib import Path

import pytest
import torch
from torch.testing import assert_close

import transalg
from tests.strategies import rng
from tests.trace.shapes import check_shapes
from transalg.formal import DInference, DTheta, DTransformer, ETheta, ETraining, MHAttention
from transalg.formal.norm import RMSnorm
from transalg.formal.notation import softmax
from transalg.formal.positions import RelativeAttention, relative
from transalg.trace.example import SYSTEMS, UNITS, example, save_theta
from transalg.trace.record import Trace, run
from transalg.trace.setting import Settings, Sizes
from transalg.trace.source import algorithms, find

D = {"N_V": 11, "ell_max": 7, "H": 3, "d_e": 5, "d_mlp": 13, "d_attn": 2, "d_mid": 17}
theta = DTheta.init(**D, L=3, generator=rng(0))
x = [9, 1, 2, 3, 10]


def numbers(trace: Trace, depth: int = 0) -> list[int]:
    return [step.line.number for step in trace.steps if step.depth == depth]


def test_every_line_of_algorithm_10_in_order() -> None:
    assert numbers(run(DTransformer, x, theta)) == [1, 2, 3, *[4, 5, 6, 7, 8] * 3, 10, 11]


def test_the_values_are_those_of_the_run() -> None:
    trace = run(DTransformer, x, theta)
    values = [step.value for step in trace.steps]
    assert values[0] == 5
    assert_close(torch.stack(values[1], dim=1), theta.W_e[:, x] + theta.W_p[:, :5])
    assert_close(values[2], torch.stack(values[1], dim=1))
    assert values[3] == 1 and trace.steps[3].symbol == "l"
    assert_close(values[-1], softmax(theta.W_u @ values[-2]))
    assert_close(values[-1], DTransformer(x, theta))
    assert trace.result.equal(values[-1])


def test_values_are_as_they_were_then() -> None:
    """x̃ changes in place, one token at a time; each step shows it as it was."""
    theta = ETheta.init(**D, L=1, d_f=19, generator=rng(0))
    trace = run(ETraining, [[9, 1, 2, 3, 10]], theta, 1, 0.1, 1 - 1e-12, rng(0))
    assert [step.value.tolist() for step in trace.steps if step.line.number == 5] == [
        [9, 1, 2, 3, 10], [9, 8, 2, 3, 10], [9, 8, 8, 3, 10], [9, 8, 8, 8, 10], [9, 8, 8, 8, 10],
    ]  # fmt: skip
    assert [step.passes["t"] for step in trace.steps if step.line.number == 4] == [1, 2, 3, 4, 5]
    loss = next(step.value for step in trace.steps if step.line.number == 9)
    P = next(step.value for step in trace.steps if step.line.number == 8)
    assert_close(loss, -(P[1, 1] * P[2, 2] * P[3, 3]).log())


def test_loops_and_calls_are_counted() -> None:
    trace = run(DTransformer, x, theta, depth=2)
    assert [step.passes for step in trace.steps if step.depth == 0 and step.line.number == 6] == [
        {"l": 1},
        {"l": 2},
        {"l": 3},
    ]
    heads = [step.passes["h"] for step in trace.steps if step.algorithm.name == "Attention" and step.line.number == 1]
    assert heads == [1, 2, 3] * 3
    norms = [step.passes["t"] for step in trace.steps if step.algorithm.name == "layer_norm" and step.line.number == 1]
    assert norms == [1, 2, 3, 4, 5] * 7
    assert max(step.depth for step in trace.steps) == 2
    assert numbers(trace) == numbers(run(DTransformer, x, theta))


def test_a_path_says_how_a_line_was_reached() -> None:
    trace = run(DTransformer, x, theta, depth=2)
    step = [step for step in trace.steps if step.algorithm.name == "Attention" and step.line.number == 4][3 + 1]
    assert step.path() == "Algorithm 10, line 6, l = 2 → Algorithm 5, line 1, h = 2 → Algorithm 4, line 4"
    assert step.path(line=False).endswith("h = 2 → Algorithm 4")
    norm = next(step for step in trace.steps if step.algorithm.name == "layer_norm" and step.passes["t"] == 3)
    assert norm.path() == "Algorithm 10, line 5, l = 1, t = 3 → Algorithm 6, line 1"
    assert next(step for step in example(find("15"), "a").trace().steps if step.passes).path() == "Algorithm 15, line 3, pass 1"


@pytest.mark.parametrize("number", range(1, 16))
def test_operands_are_the_symbols_of_the_line(number: int) -> None:
    """Each stands in the line's mathematics, with the shape that its symbols have."""
    trace = example(find(str(number)), "abcd", "ab", settings=Settings(ell_gen=1, eta=0.1)).trace(depth=3)
    seen = 0
    for step in trace.steps:
        for one in step.operands:
            assert _bare(one.symbol) in _bare(step.line.math), f"{one.symbol} in {step.line.math}"
            assert one.dims is None or one.shape is None or len(one.dims) == len(one.shape)
            seen += 1
    assert seen


def _bare(math: str) -> str:
    """e_1 is e_t, Y^1 is Y^h; eq. (3)'s E is [e_1, …]; Algorithm 14's p is P[:,…]."""
    return math.replace("e_1", "e_t").replace("Y^1", "Y^h").replace("Σ_{t=1}^T α_t", "α").replace("k_u", "k_t").replace("e_t +", "E e_t +")


@pytest.mark.parametrize("seed", range(2))
def test_the_default_eta_lowers_the_loss_at_every_step(seed: int) -> None:
    """The loss is a sum over tokens: a fixed η of 0.1 raises it on a text as long as this."""
    trace = example(find("13"), "My grandma makes", seed=seed).trace()
    losses = [step for step in trace.steps if step.symbol == "loss(θ)"]
    after = [float(step.inner[1].value) for step in trace.steps if step.symbol == "θ"]
    assert all(now < float(loss.value) for loss, now in zip(losses, after, strict=True)) and len(after) == 3
    for loss in losses:
        (terms,) = loss.inner
        assert_close(terms.value.sum(), loss.value)
        assert list(terms.axes["ℓ−1"]) == [*"My grandma makes", "eos"]


def test_the_trace_shown_is_the_one_that_descends() -> None:
    """Algorithm 12 draws its masks: those of the trace are the first that its seed gives, as with this η given."""
    shown = example(find("12"), "My grandma makes", seed=3)
    eta = float(str(shown.call.inputs["η"]).partition(",")[0])
    given = example(find("12"), "My grandma makes", seed=3, settings=Settings(eta=eta))
    first, second = ([float(step.value) for step in one.trace().steps if step.symbol == "loss(θ)"] for one in (shown, given))
    assert first == pytest.approx(second, rel=1e-2) and len(first) > 1


def test_narrowing() -> None:
    trace = run(DTransformer, x, theta, depth=1)
    assert numbers(trace.narrow(layer=2)) == [1, 2, 3, 4, 5, 6, 7, 8, 10, 11]
    assert {step.passes["l"] for step in trace.narrow(layer=2).steps if step.depth == 0 and "l" in step.passes} == {2}
    only = trace.narrow(layer=2, lines={6})
    assert numbers(only) == [6] and numbers(only, depth=1) == [1, 2, 3]


def test_narrowing_to_a_layer_reaches_into_calls() -> None:
    """Algorithm 14 has no layers; the transformers it calls do."""
    trace = example(find("14"), "ab", settings=Settings(ell_gen=2)).trace(depth=1).narrow(layer=2)
    assert {step.passes["l"] for step in trace.steps if "l" in step.passes} == {2}
    assert numbers(trace) == [1, *[2, 3, 4, 5, 6] * 2, 8]
    assert numbers(trace, depth=1) == [1, 2, 3, 4, 5, 6, 7, 8, 10, 11] * 2


def test_a_variant_is_traced_like_the_rest() -> None:
    trace = run(
        DTransformer,
        x,
        relative(theta, 4, rng(0)),
        depth=2,
        layer_norm=RMSnorm,
        MHAttention=partial(MHAttention, Attention=RelativeAttention),
    )
    assert {step.algorithm.name for step in trace.steps} == {
        "DTransformer",
        "RMSnorm",
        "MHAttention",
        "RelativeAttention",
    }
    assert next(step for step in trace.steps if step.symbol == "R").dims == ("d_attn", "ℓ_z", "ℓ_x")


@pytest.mark.parametrize("number", range(1, 16))
def test_declared_shapes_are_the_actual_ones(number: int) -> None:
    sizes = Sizes(L=2, H=3, d_e=15, d_mlp=17, d_f=19)
    trace = example(find(str(number)), "abcdefghi", "aabbc", sizes=sizes, settings=Settings(ell_gen=2)).trace(depth=3)
    check_shapes(trace)
    d_f = [step.shape for step in trace.steps if step.algorithm.name == "ETransformer" and step.dims and step.dims[0] == "d_f"]
    assert all(shape[0] == 19 for shape in d_f if shape)


@pytest.mark.parametrize("number", range(1, 16))
def test_the_result_is_the_untraced_one(number: int) -> None:
    of = example(find(str(number)), "hello", seed=3)
    traced = of.trace(depth=2).result
    of = example(find(str(number)), "hello", seed=3)
    plain = of.function(*of.call.args, **of.call.kwargs)
    same = (
        all(a.equal(b) for a, b in zip(traced.named().values(), plain.named().values(), strict=True))
        if hasattr(plain, "named")
        else plain.equal(traced)
    )
    assert same


def test_tokens_stand_along_the_axes() -> None:
    trace = example(find("8"), "xyz", "ab").trace(depth=2)
    z, x = ["bos", "a", "b", "eos"], ["bos", "x", "y", "z", "eos"]

    def axes(line: int, symbol: str) -> list[list[str]]:
        start = next(i for i, step in enumerate(trace.steps) if step.depth == 0 and step.line.number == line)
        step = next(step for step in trace.steps[start + 1 :] if step.symbol == symbol)
        return [list(step.axes[dim]) for dim in step.dims or ()]

    assert axes(5, "S") == [z, z]
    assert axes(14, "S") == [x, x]
    assert axes(16, "S") == [z, x]
    assert list(trace.steps[-1].axes["N_V"]) == ["a", "b", "x", "y", "z", "mask", "bos", "eos"]


def test_tracing_stops_when_it_ends_even_by_an_error() -> None:
    before = sys.gettrace()
    run(DTransformer, x, theta)
    assert sys.gettrace() is before
    with pytest.raises(ValueError, match="token IDs"):
        run(DTransformer, [99], theta)
    assert sys.gettrace() is before


def test_the_algorithms_contain_no_tracing_code() -> None:
    for path in (Path(transalg.__file__).parent / "formal").glob("*.py"):
        assert not re.search(r"\b(trace|settrace|record|print|log_step)\b", path.read_text(encoding="utf-8")), path


def test_any_other_variant_has_no_example_of_its_own() -> None:
    for algorithm in algorithms():
        if algorithm.number is None and algorithm.name not in (*SYSTEMS, *UNITS):
            with pytest.raises(ValueError, match=f"{algorithm.name} is no algorithm of the paper"):
                example(algorithm, "hello")


# Today's decoders, and what they are made of ---------------------------------------------------------------------------


def test_every_system_has_an_example() -> None:
    assert {algorithm.name for algorithm in algorithms() if algorithm.system} == {*SYSTEMS, "Gato"}


@pytest.mark.parametrize("name", [*SYSTEMS, *UNITS])
def test_a_system_is_traced_with_its_shapes_and_its_result(name: str) -> None:
    sizes = Sizes(L=2, H=6, H_kv=2, d_e=30, d_mlp=17)
    of = example(find(name), "abcdefgh", sizes=sizes, settings=Settings(w=3))
    trace = of.trace(depth=3)
    check_shapes(trace)
    assert trace.result.equal(of.function(*of.call.args, **of.call.kwargs))
    assert trace.algorithm.name == name and len({step.line.number for step in trace.steps if step.depth == 0}) == len(find(name).lines) - (
        name in SYSTEMS
    ), "every line but the end of the loop"
    for step in trace.steps:
        assert step.symbol, f"{step.algorithm.name}, line {step.line.number} sets something"


def test_the_heads_of_a_system_are_reached() -> None:
    sizes = Sizes(H=6, H_kv=2, d_e=30)
    trace = example(find("Llama"), "abc", sizes=sizes).trace(depth=3)
    scores = [step for step in trace.steps if step.algorithm.name == "RotaryAttention" and step.line.number == 6]
    assert [(step.passes["h"], list(step.axes["ℓ_z"])) for step in scores] == [(h, ["bos", *"abc", "eos"]) for h in range(1, 7)] * 2
    assert scores[7].path() == "Llama, line 6, l = 2 → GroupedMHAttention, line 1, h = 2 → RotaryAttention, line 6"
    keys = [step.value for step in trace.steps if step.algorithm.name == "RotaryAttention" and step.line.number == 2][:6]
    assert [keys[h].equal(keys[0]) for h in range(6)] == [True] * 3 + [False] * 3, "three heads share a key"
    turns = [step for step in trace.steps if step.algorithm.name == "rotate" and step.line.number == 1]
    assert [step.passes["t"] for step in turns[:10]] == [1, 2, 3, 4, 5] * 2
    assert all(step.value.allclose((step.passes["t"] - 1) * example(find("rotate"), "a", sizes=sizes).call.args[2]) for step in turns)


def test_down_to_the_heads_there_are_neither_norms_nor_rotations() -> None:
    called = {name: {step.algorithm.name for step in example(find(name), "ab").trace(depth=None).steps} for name in ("Llama", "Qwen3")}
    assert called == {
        "Llama": {"Llama", "GroupedMHAttention", "RotaryAttention"},
        "Qwen3": {"Qwen3", "GroupedMHAttention", "NormedAttention"},
    }


def test_mistral_s_window_is_w_wide_in_every_layer() -> None:
    trace = example(find("Mistral"), "abcd", settings=Settings(w=2)).trace(depth=2)
    masked = [step.value for step in trace.steps if step.algorithm.name == "RotaryAttention" and step.line.number == 7]
    assert len(masked) == 4
    for S in masked:
        assert [[bool(S[z, x] > -torch.inf) for x in range(6)] for z in range(6)] == [[x - 2 < z <= x for x in range(6)] for z in range(6)]


def test_the_scales_of_a_random_gemma_are_1() -> None:
    theta = example(find("Gemma"), "ab").theta
    assert not theta.gamma.any() and not theta.layers[1].gamma2.any()
    assert (example(find("Llama"), "ab").theta.gamma == 1).all()


def test_a_system_on_a_theta_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "theta.safetensors"
    of = example(find("Qwen3"), "hello", seed=5)
    save_theta(of.theta, path)
    assert example(find("Qwen3"), "hello", theta_file=path).trace().result.equal(of.trace().result)
    with pytest.raises(ValueError, match=r"theta\.safetensors: theta: expected the parts of a GroupedMHAttentionTheta, got beta_k"):
        example(find("Llama"), "hello", theta_file=path)


def test_the_columns_of_a_growing_P_carry_the_tokens_so_far() -> None:
    trace = example(find("14"), "ab", settings=Settings(ell_gen=3)).trace()
    P = [step for step in trace.steps if step.line.number == 3]
    y = [trace.vocabulary[i] for i in trace.result]
    for i, step in enumerate(P):
        assert step.dims and list(step.axes[step.dims[-1]]) == ["bos", "a", "b", *y[:i]]


def test_an_error_inside_an_algorithm_comes_through() -> None:
    def broken(*_: object) -> torch.Tensor:
        raise ZeroDivisionError("inside line 5")

    with pytest.raises(ZeroDivisionError, match="inside line 5"):
        run(DTransformer, x, theta, layer_norm=broken)
    with pytest.raises(ValueError, match="len ran no formal algorithm"):
        run(len, x)


def test_your_own_function_is_traced_into() -> None:
    """run() takes any callable: the algorithms it calls are recorded."""
    trace = run(lambda: DTransformer(x, theta)[:, -1])
    assert trace.algorithm.name == "DTransformer" and numbers(trace)[-1] == 11


def test_a_loop_that_stops_early_is_traced_to_its_last_line() -> None:
    tokens = DInference([9], theta, 7, 1.0, rng(0)).tolist()
    trace = run(DInference, [9], theta, 7, 1.0, rng(0), stop=tokens[2])
    passes = tokens.index(tokens[2]) + 1
    assert numbers(trace) == [1, *[2, 3, 4, 5, 6] * passes, 8]
    assert trace.steps[-1].value.tolist() == tokens[:passes]


def test_an_example_has_the_special_tokens_of_its_theta(tmp_path: Path) -> None:
    path, name = tmp_path / "theta.safetensors", find("DTransformer")
    for special, tokens, written in (
        (None, [9, 0, 1, 10], ["a", "b", "2", "3", "4", "5", "6", "7", "mask", "bos", "eos"]),
        ((None, 0, 2), [0, 1, 3, 2], ["bos", "a", "eos", "b", "4", "5", "6", "7", "8", "9", "10"]),
        ((1, None, None), [0, 2], ["a", "mask", "b", "3", "4", "5", "6", "7", "8", "9", "10"]),
    ):
        save_theta(DTheta.init(**D, L=1, special=special, generator=rng(0)), path)
        by_text = example(name, "ab", theta_file=path)
        assert by_text.theta.special == special and by_text.vocabulary == written and by_text.call.args[0] == tokens
        assert [by_text.vocabulary[v] for v in tokens if by_text.vocabulary[v] in "ab"] == ["a", "b"]
        by_tokens = example(name, "", tokens=[3, 1], theta_file=path)
        assert len(by_tokens.vocabulary) == 11 and by_tokens.call.args[0] == [3, 1]
    assert example(name, "abcdefg123", theta_file=path).theta.N_V == 11, "ten characters and one special token"
    with pytest.raises(ValueError, match=r"11 different characters, but θ in .* has N_V = 11, room for 10 and the special tokens"):
        example(name, "abcdefg1234", theta_file=path)
