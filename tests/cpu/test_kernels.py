"""Packed weights compute the same; weights in 8 bits are rounded as little as can be, and a row is what it is alone."""

import copy
import gc
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from tests.model.models import UNITS
from tests.strategies import rng
from tests.tolerance import tolerance
from transalg.cpu import fingerprint, linear, packing
from transalg.cpu.linear import BlockedLinear, Int8Linear, PackedLinear
from transalg.cpu.wrapped import Wrapped, kernels
from transalg.hyper import DHyper, EDHyper, Hyper
from transalg.inference import generate, pack, predict, quantize, search
from transalg.inference.one_pass import score
from transalg.model import Cache, DTransformer, EDTransformer, build
from transalg.model.attention import Attention
from transalg.model.layers import DecoderLayer, Layer
from transalg.model.mlp import MLPS
from transalg.model.norm import NORMS
from transalg.model.positions import POSITIONS
from transalg.verify.batches import draw
from transalg.verify.cases import randomised
from transalg.verify.laws import formal_log_probabilities

GPT = DHyper(N_V=101, ell_max=16, L=2, H=4, d_e=64, d_mlp=256, tied=True)
PAIRS = EDHyper(N_V=101, ell_max=16, L_enc=1, L_dec=2, H=4, d_e=64, d_mlp=256)


@pytest.mark.parametrize("hyper", UNITS.values(), ids=UNITS)
@pytest.mark.parametrize("rows", [1, None])
def test_a_packed_model_is_the_formal_algorithm(hyper: Hyper, rows: int | None) -> None:
    model = randomised(build(hyper), rng(2)).eval()
    packed = pack(model, rows, least=0)
    assert packed is not model and kernels(packed) and pack(packed) is packed
    assert not kernels(pack(model, rows)), "small matrices stay as they are"
    assert all(torch.equal(one, other) for one, other in zip(packed.theta().named().values(), model.theta().named().values(), strict=True))
    batch = draw(hyper, rng(3))
    with torch.no_grad():
        ours = batch.log_probabilities(packed)
    for log_P, theirs in zip(ours, formal_log_probabilities(hyper, batch, model.theta()), strict=True):
        torch.testing.assert_close(log_P.double(), theirs, rtol=0, atol=1e-4)


@pytest.mark.parametrize("rows", [1, 3, 301])
@pytest.mark.parametrize("form", [PackedLinear, BlockedLinear])
@pytest.mark.parametrize("m", [53, 48])
def test_every_form_multiplies_alike(form, m: int, rows: int) -> None:
    """W in full blocks and with rows left over, one row to multiply and several, with a bias and without."""
    W, X, b = torch.randn(m, 37, generator=rng(0)), torch.randn(rows, 37, generator=rng(1)), torch.randn(m, generator=rng(2))
    same = {"rtol": 0, "atol": tolerance(torch.float32, terms=37, size=3 * 37**0.5)}
    for bias in (None, b):
        other = form(W, bias)
        torch.testing.assert_close(other.multiply(X), torch.nn.functional.linear(X, W, bias), **same)
        for activation in (*(unit.activation for unit in MLPS.values()), torch.sin):  # sin stands for one that no kernel knows
            ours = other.activated(X, activation)
            torch.testing.assert_close(ours, activation(torch.nn.functional.linear(X, W, bias)), **same)
    assert torch.equal(other.matrix(), W) and torch.equal(other.rows(torch.tensor([5, 47])), W[[5, 47]])


def test_what_cannot_be_packed_stays_as_it_is() -> None:
    double = DTransformer(GPT, dtype=torch.float64)
    assert pack(double) is double and not kernels(pack(double, 1))
    small = quantize(DTransformer(GPT))
    assert pack(small) is small
    tiny = pack(DTransformer(GPT, dtype=torch.float64), 1)
    assert isinstance(tiny, Wrapped) and pack(tiny) is tiny and pack(tiny, 1) is tiny, "packed, though no matrix of it is"
    spread = DTransformer(GPT)
    spread.gamma.full_tensor = lambda: spread.gamma  # as parameters have it that are sharded over processes
    assert pack(spread, least=0) is spread and pack(spread, 1, least=0) is spread


DECODERS = {name: hyper for name, hyper in UNITS.items() if type(hyper) in (DHyper, EDHyper)}


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("alike", [True, False])
@pytest.mark.parametrize("hyper", DECODERS.values(), ids=DECODERS)
def test_one_token_of_one_row_takes_the_fast_path_or_the_usual_one(hyper: Hyper, alike: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same logits for every unit; where the fast path is taken, not through the layers; the same refusals."""
    hyper = replace(hyper, d_attn=6, d_mid=6 if alike else 5)
    model = randomised(build(hyper, dtype=torch.float64), rng(2)).eval()
    short = pack(model, 1)
    taken = short.single_token is not None
    assert taken == (quantize(model).single_token is not None)
    assert taken or set(hyper.departures()) - {"d_attn", "d_mid"}, "the paper's models take it"
    assert not (taken and hyper.positions == "relative"), "which it does not know"
    pairs, ell = isinstance(model, EDTransformer), hyper.ell_max
    z, x = torch.tensor([[3, 1]]), torch.randint(hyper.N_V, (1, ell), generator=rng(4))
    expected = (model(z, x) if pairs else model(x)).detach()
    for kind in (Layer, DecoderLayer) if taken else ():
        monkeypatch.setattr(kind, "decode", None)

    def new(ell: int) -> Cache:
        return short.cache(z, ell=ell) if pairs else short.cache(1, ell=ell)

    cache = new(ell)
    logits = [short.decode(x[:, t : t + 1], cache) for t in range(ell - 1)] + [short.decode(x[:, -1:], cache, last=True)[:, None]]
    torch.testing.assert_close(
        torch.cat(logits, dim=1), expected, rtol=0, atol=tolerance(torch.float64, terms=hyper.d_mlp, depth=4, size=10)
    )
    assert cache.lengths == [ell]
    with pytest.raises(ValueError, match=rf"cache.*at most {ell} tokens"):
        short.decode(x[:, :1], cache)
    for wrong in (-1, hyper.N_V):
        with pytest.raises(ValueError, match=r"ids.*IDs from 0"):
            short.decode(torch.tensor([[wrong]]), new(2))
    with pytest.raises(ValueError, match=r"ids.*whole numbers"):
        short.decode(x[:, :1].double(), new(2))
    with pytest.raises(ValueError, match=r"cache.*one that this model made"):
        short.decode(x[:, :1], None)


def test_packing_does_not_depend_on_torch_s_defaults() -> None:
    model = DTransformer(GPT, generator=rng(0), dtype=torch.float32)
    torch.set_default_dtype(torch.float64)
    try:
        form = pack(model, 1, least=0)
        assert form.decode(torch.tensor([[5]]), form.cache(1)).dtype == torch.float32
    finally:
        torch.set_default_dtype(torch.float32)


def test_a_copy_of_a_cache_shares_nothing_and_copies_no_model() -> None:
    short = pack(DTransformer(GPT, generator=rng(0), dtype=torch.float64), 1)
    cache = short.cache(1)
    short.decode(torch.tensor([[5]]), cache)
    other = copy.deepcopy(cache)
    assert other.model() is short and other.lengths == [1]
    ours, theirs = (short.decode(torch.tensor([[id]]), each, last=True) for id, each in ((7, cache), (7, other)))
    assert torch.equal(ours, theirs)
    short.decode(torch.tensor([[8]]), other)
    assert cache.lengths == [2] and not torch.equal(cache.keys[:, :, :, 2], other.keys[:, :, :, 2])


def test_a_copy_of_a_packed_model_is_on_its_own() -> None:
    short = pack(DTransformer(GPT, generator=rng(0), dtype=torch.float64), 1)
    other = copy.deepcopy(short)
    assert short.single_token is not None and other.single_token is None
    with torch.no_grad():
        other.layers[0].W_mlp1.zero_()
    ours, theirs = (form.decode(torch.tensor([[5]]), form.cache(1), last=True) for form in (short, other))
    assert not torch.allclose(ours, theirs)


@pytest.mark.parametrize("rows", [1, 2, 33])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_product_in_8_bits_is_exact(rows: int, dtype: torch.dtype) -> None:
    """What needs no rounding is not changed, the largest numbers included; float64, for which there is no kernel, is computed as plainly."""
    n = torch.randint(-63, 64, (53, 129), generator=rng(0))
    x = torch.randint(-127, 129, (rows, 129), generator=rng(1))
    n[:3], x[0] = 63, 128
    n[3:6, 0], x[:, 0] = -63, -127
    n[6] = 0
    s, r = torch.rand(53, 1, generator=rng(2), dtype=dtype) + 0.1, torch.rand(rows, 1, generator=rng(3), dtype=dtype) + 0.1
    n[7:, 1], x[:, 1] = 63, 128
    W, X, b = (s * n).to(dtype), (r * x).to(dtype), torch.randn(53, generator=rng(4), dtype=dtype)
    small = Int8Linear(W)
    assert (small.packed is None) == (dtype == torch.float64)
    torch.testing.assert_close(small.matrix(), W, rtol=1e-6, atol=0)
    for bias in (None, b):
        expected = X.double() @ W.double().T + (0 if bias is None else bias)
        assert ((Int8Linear(W, bias).multiply(X).double() - expected).abs() < 0.2 * r * s.T).all(), (
            "as if by whole numbers, of sums up to 2 million"
        )
    torch.testing.assert_close(Int8Linear(W, b).multiply(torch.zeros(2, 129, dtype=dtype)), b.expand(2, -1))


@pytest.mark.parametrize("size", [1e-4, 1.0, 30.0])
def test_a_product_in_8_bits_is_the_same_alone(size: float) -> None:
    """The same whole numbers: one more or less would change a sum by twenty of these tolerances at least."""
    W, X = torch.randn(53, 129, generator=rng(0)), size * torch.randn(301, 129, generator=rng(1))
    X[::3] = X[::3].abs()
    X[1::3] += X[1::3].amax(dim=1, keepdim=True) / 2
    small, plain = Int8Linear(W), Int8Linear(W.double())
    together = small.multiply(X)
    steps = (X.amax(dim=1, keepdim=True).clamp(min=0) - X.amin(dim=1, keepdim=True).clamp(max=0)).clamp(min=6.1e-5 * 255) / 255
    bound = 0.05 * steps * small.s
    assert ((together - torch.cat([small.multiply(row[None]) for row in X])).abs() < bound).all()
    assert ((together - plain.multiply(X.double())).abs() < bound).all()


def test_rounding_is_to_the_nearest_step() -> None:
    W = torch.randn(13, 37, generator=rng(0))
    W[5] = 0
    for table in (True, False):
        small = Int8Linear(W, table=table)
        assert small.numbers().abs().amax(dim=1).tolist() == [63] * 5 + [0] + [63] * 7
        assert ((small.matrix() - W).abs() <= small.s[:, None] / 2 + 1e-6).all()
        ids = torch.tensor([[3, 5], [12, 3]])
        torch.testing.assert_close(small.rows(ids), small.matrix()[ids])


def test_a_model_in_8_bits_says_nearly_the_same() -> None:
    for kind, hyper in ((DTransformer, GPT), (EDTransformer, PAIRS)):
        model = kind(hyper, generator=rng(0)).eval()
        small, batch = quantize(model), draw(hyper, rng(1))
        assert len(kernels(small)) == (9 if kind is DTransformer else 19)
        with torch.no_grad():
            ours, theirs = batch.log_probabilities(small), batch.log_probabilities(model)
        difference = max(float((one.exp() - other.exp()).abs().sum(dim=0).max() / 2) for one, other in zip(ours, theirs, strict=True))
        assert 1e-4 < difference < 0.05, "total variation"
        assert all(torch.isfinite(part).all() for part in small.theta().named().values())


def test_a_row_in_8_bits_is_what_it_is_alone() -> None:
    """Its tokens in float64; in float32 what is rounded to 8 bits may be rounded the other way, which changes P̂ a little."""
    prompts = [[1], [2, 3, 4], [5, 6]]
    model, pairs = (
        quantize(kind(hyper, generator=rng(0), dtype=torch.float64).eval()) for kind, hyper in ((DTransformer, GPT), (EDTransformer, PAIRS))
    )
    together = generate(model, prompts, ell_gen=12, generator=rng(1))
    assert together == [generate(model, [prompt], ell_gen=12, generator=rng(1))[0] for prompt in prompts]
    assert predict(pairs, prompts, beams=3) == [predict(pairs, [prompt], beams=3)[0] for prompt in prompts]
    small, rows = quantize(DTransformer(GPT, generator=rng(0)).eval()), [[1, *text] for text in together]
    for row, ours in zip(rows, score([small], rows), strict=True):
        assert ours == pytest.approx(score([small], [row])[0], rel=0, abs=0.01)


def test_memory_and_what_is_shared() -> None:
    model = DTransformer(GPT).eval()
    small = quantize(model)
    taken = sum(part.nbytes for part in (*kernels(small).values(), *small.parameters()))
    assert taken < 0.36 * sum(part.nbytes for part in model.parameters()), "the table of embeddings exists twice"
    assert small.gamma.data_ptr() == model.gamma.data_ptr() and isinstance(model.layers[0].W.W_qkv, torch.nn.Parameter)
    assert {name for name, _ in model.named_parameters()} == {name for name, _ in DTransformer(GPT).named_parameters()}
    assert isinstance(pack(model, least=0).layers[0].W.kernels["W_qkv"], PackedLinear)


@torch.no_grad()
def margin(model: torch.nn.Module, prompts: list[list[int]], texts: list[list[int]], beams: int) -> float:
    """By how much the best token was better than the second, at the least; of a search, by how much the best text was."""
    gaps = []
    for prompt, text in zip(prompts, texts, strict=True):
        if beams > 1:
            first, second = search(model, [prompt], beams=beams, n_best=2, ell_gen=12)[0]
            gaps.append(first.score - second.score)
        else:
            pairs = isinstance(model, EDTransformer)
            ids = torch.tensor([[model.hyper.bos_token, *text] if pairs else [*prompt, *text]])
            logits = model(torch.tensor([prompt]), ids)[0] if pairs else model(ids)[0, len(prompt) - 1 :]
            gaps.append(-float(logits.topk(2).values.diff().max()))
    return min(gaps)


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("kind", ["generate", "sample", "search"])
def test_long_texts_are_written_by_packed_models(kind: str, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """For as many rows as there are, the same tokens; and weights that changed since the last call count."""
    model: torch.nn.Module = (
        DTransformer(GPT, generator=rng(0)).eval() if kind == "generate" else EDTransformer(PAIRS, generator=rng(0)).eval()
    )
    given, seen, beams = [[1, 2], [3], [4, 5, 6]][:count], [], 5 if kind == "search" else 1

    def write(tokens: int) -> list[list[int]]:
        if kind == "generate":
            return generate(model, given, ell_gen=tokens, tau=0)
        return predict(model, given, ell_gen=tokens, beams=beams)

    def spy(model: torch.nn.Module, rows: int) -> torch.nn.Module:
        seen.append((rows, form := pack(model, rows, least=0)))
        return form

    plain = write(12)
    sure = tolerance(torch.float32, terms=GPT.d_mlp, depth=GPT.L)
    assert margin(model, given, plain, beams) > sure, "rounding decides nothing"
    monkeypatch.setattr(packing, "pack", spy)
    assert write(2) and not seen, "too little to pack a model for"
    monkeypatch.setattr(packing, "WORTH", 12)
    assert write(12) == plain
    ((rows, form),) = seen
    assert rows == count * beams
    assert isinstance(next(iter(kernels(form).values())), BlockedLinear if rows == 1 else PackedLinear)
    for parameter in model.parameters():
        parameter.data.neg_()
    changed = write(12)
    assert margin(model, given, changed, beams) > sure
    monkeypatch.setattr(packing, "WORTH", 10**9)
    assert changed == write(12) != plain


@pytest.mark.parametrize("rows", [1, None])
def test_what_was_made_of_a_matrix_is_kept_while_it_is_the_same(rows: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every change counts, also those that autograd does not see: of one number, of the order of rows or of columns; and of what is not copied."""
    model, made, ids = DTransformer(GPT, generator=rng(0)).eval(), [], torch.tensor([[3, 5]])

    def spy(make: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
        return lambda W: made.append(W.shape) or make(W)

    for name in ("_blocked", "_packed"):
        monkeypatch.setattr(linear, name, spy(getattr(linear, name)))

    def made_again() -> int:
        made.clear()
        form = pack(model, rows, least=0)
        for one in (ids, ids[:, 1:]):
            ours, plain = (each.decode(one, each.cache(1)) for each in (form, model))
            torch.testing.assert_close(ours, plain, rtol=0, atol=1e-4)
        return len(made)

    copies = 9  # in two layers all four matrices, and W_e
    assert made_again() == copies and made_again() == 0
    assert pack(model, rows, least=0).kernels["W_e"] is not pack(model, rows, least=0).kernels["W_e"], (
        "what depends on more than W is not kept"
    )
    W = model.layers[1].W_mlp1.data
    for change in (
        lambda: W[7, 5:6].mul_(3),
        lambda: W[3, :3].add_(torch.tensor([1.0, -2.0, 1.0])),  # orthogonal to 1, 2, 3, … and to any r that is evenly spaced
        lambda: W.copy_(W.flip(0)),
        lambda: W.copy_(W.flip(1)),
        lambda: setattr(model.layers[1].W_mlp1, "data", 2 * W),
    ):
        change()
        assert made_again() == 1 and made_again() == 0
    for alive in (model.layers[1].b_mlp1, model.layers[0].gamma1):
        alive.data.add_(0.1)
        assert made_again() == 0
    model.layers[1].W_mlp1 = torch.nn.Parameter(3 * W)
    assert made_again() == 1
    assert made_again() == 0 and pack(model, 2 if rows == 1 else 1, least=0) and made_again() == copies, "one thing for each"
    entries = len(fingerprint._MADE)
    del model, W, alive
    gc.collect()
    assert len(fingerprint._MADE) <= entries - copies, "no longer than the matrix lives"


def test_bad_input() -> None:
    with pytest.raises(ValueError, match="quantize: expected int8, got int4"):
        quantize(DTransformer(GPT), "int4")


def test_a_fingerprint_shows_every_change_that_torch_counts() -> None:
    """Also one so small that no product shows it; and a change that goes around torch, unless it is less than rounding."""
    W = torch.randn(5, 7, generator=rng(0))
    W[0, 0] = 2.0**30  # beside which nothing else of its row counts
    before = fingerprint.Fingerprint.take(W)
    assert before.same(fingerprint.Fingerprint.take(W))
    W[0, 1] = torch.nextafter(W[0, 1], W.new_tensor(9.0))
    after = fingerprint.Fingerprint.take(W)
    assert after.product.equal(before.product) and not before.same(after)
    W.data[2] = W.data[2].flip(0)
    assert not after.same(fingerprint.Fingerprint.take(W))
    with torch.inference_mode():
        inside = torch.ones(3, 2)
    assert fingerprint.Fingerprint.take(inside).same(fingerprint.Fingerprint.take(inside))


def test_a_unit_that_the_fast_path_does_not_know_takes_the_usual_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever unit it is: positions, norm, MLP, mask, heads."""

    class Other(type(POSITIONS["learned"])):
        pass

    class OtherMLP(type(MLPS["GELU"])):
        pass

    plain = DHyper(N_V=23, ell_max=7, L=1, H=2, d_e=10, d_mlp=13)
    monkeypatch.setitem(POSITIONS, "learned", Other())
    assert pack(DTransformer(plain, dtype=torch.float64), 1).single_token is None
    monkeypatch.undo()
    unit = MLPS["GELU"]
    monkeypatch.setitem(MLPS, "GELU", OtherMLP(unit.activation, unit.formal_activation))
    assert pack(DTransformer(plain, dtype=torch.float64), 1).single_token is None
    monkeypatch.undo()
    norm = NORMS["layer_norm"]
    monkeypatch.setitem(NORMS, "layer_norm", replace(norm, compute=lambda X, gamma, beta, eps: norm.compute(X, gamma, beta, eps)))
    assert pack(DTransformer(plain, dtype=torch.float64), 1).single_token is None
    monkeypatch.undo()
    assert pack(DTransformer(plain, dtype=torch.float64), 1).single_token is not None


def test_a_model_or_an_attention_of_a_derived_class_takes_the_usual_path() -> None:
    """What it computes may be anything."""

    class Capped(DTransformer):
        def logits(self, X: Tensor) -> Tensor:
            return super().logits(X).tanh()

    class Doubled(Attention):
        def _out(self, Y: Tensor) -> Tensor:
            return 2 * super()._out(Y)

    capped = randomised(Capped(GPT, dtype=torch.float64), rng(0)).eval()
    doubled = randomised(DTransformer(GPT, dtype=torch.float64), rng(0)).eval()
    doubled.layers[1].W.__class__ = Doubled
    for model in (capped, doubled):
        short, ids = pack(model, 1), torch.tensor([[3, 5, 7]])
        assert short.single_token is None
        cache = short.cache(1)
        logits = torch.cat([short.decode(ids[:, t : t + 1], cache) for t in range(3)], dim=1)
        torch.testing.assert_close(logits, model(ids).detach(), rtol=0, atol=tolerance(torch.float64, terms=256, depth=4, size=10))


@pytest.mark.parametrize("rows", [1, 4])
def test_a_packed_copy_whose_weights_have_changed_is_refused(rows: int) -> None:
    """Some of its kernels would have the old weights, some the new ones."""
    model = DTransformer(GPT, generator=rng(0)).eval()
    packed, ids = pack(model, rows, least=0), torch.tensor([[3]] * rows)
    before = packed.decode(ids, packed.cache(rows))
    with torch.no_grad():
        model.layers[0].W_mlp1.mul_(2)
    with pytest.raises(ValueError, match="model: its weights have changed since it was packed; pack it again"):
        packed.decode(ids, packed.cache(rows))
    again = pack(model, rows, least=0)
    assert not torch.allclose(again.decode(ids, again.cache(rows)), before)


def test_a_quantised_model_has_its_unembedding() -> None:
    for hyper in (GPT, replace(GPT, tied=False)):
        model = DTransformer(hyper, generator=rng(0)).eval()
        small = quantize(model)
        torch.testing.assert_close(small.unembedding, model.unembedding, rtol=0, atol=float(model.unembedding.detach().abs().max()) / 63)
        assert pack(model, least=0).unembedding.equal(model.unembedding)
