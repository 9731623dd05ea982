"""The engine's Gato is the formal one: values, gradients, batches, the cache, packed weights, losses, what is refused."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.func import grad
from torch.testing import assert_close

from tests.model.drawn import models
from tests.strategies import rng
from tests.tolerance import PROMISED, tolerance
from transalg.cpu import pack, quantize
from transalg.formal.gato import GatoTheta, Index
from transalg.formal.modality import loss_weight
from transalg.hyper import GatoHyper
from transalg.hyper.modalities import ACT, BINS, IMG, KINDS, OBS, PATCH, SEP, TEXT
from transalg.model import DTransformer, Gato, MixedBatch, build
from transalg.model import mixed as mixed_batches
from transalg.model.counterpart import formal_counterpart
from transalg.model.gato import ResNet
from transalg.model.mixed import distinct, middle_cells, random_cells
from transalg.tasks.losses import Gato_loss
from transalg.verify.batches import draw, draw_mixed
from transalg.verify.cases import randomised, small
from transalg.verify.laws import errors, invariances

HYPER = small(GatoHyper)


def make(**changes: Any) -> Gato:
    return randomised(build(HYPER.replace(**changes), dtype=torch.float64), rng(0)).eval()


def batch(seed: int = 1, rows: int = 5) -> MixedBatch:
    mixed = draw(HYPER, rng(seed), rows).mixed
    assert mixed is not None
    return mixed


def test_small_models_have_every_kind() -> None:
    kinds = {int(kind) for row, length in zip(batch().kind, batch().lengths, strict=True) for kind in row[:length]}
    assert kinds == set(range(len(KINDS)))


@settings(max_examples=6)
@given(data=st.data())
def test_any_combination_of_departures(data: st.DataObject) -> None:
    model, mixed, generator = data.draw(models(GatoHyper))
    assert max(errors(model, mixed, generator)) <= PROMISED


@settings(max_examples=4)
@given(data=st.data())
def test_invariances(data: st.DataObject) -> None:
    """Padding, batch, order, cache, prefill, reordered cache, one row token by token: with patches among the tokens."""
    model, mixed, generator = data.draw(models(GatoHyper))
    assert all(error <= PROMISED for error in invariances(model, mixed, generator).values())


def test_in_training_it_is_the_formal_one_at_the_same_places() -> None:
    model = make(dropout=0.0).train()
    drawn = batch().drawn(HYPER.N_grid, rng(7))
    assert drawn.cells is not None and not drawn.cells.equal(middle_cells(drawn.intervals, HYPER.N_grid))
    ours = draw(HYPER, rng(1))
    assert max(errors(model, replace(ours, mixed=drawn), rng(3))) <= PROMISED
    at_middle, at_random = (model(each) for each in (batch(), drawn))
    assert not torch.allclose(at_middle, at_random)


def test_places_are_those_of_the_formal_index() -> None:
    intervals = torch.rand(29, 2, 2, generator=rng(0)).sort(dim=-1).values.flatten(1)
    intervals[:3] = torch.tensor([[0, 1, 0, 1e-6], [0.5, 1, 0.999, 1], [0, 0.2, 0.2, 0.4]])
    for N in (1, 19, 128):
        middle, drawn = middle_cells(intervals, N), random_cells(intervals, N, rng(1))
        for (r, r_end, c, c_end), at, random in zip(intervals.tolist(), middle.tolist(), drawn.tolist(), strict=True):
            assert at == [Index(r, r_end, N), Index(c, c_end, N)]
            for i, ends in zip(random, ((r, r_end), (c, c_end)), strict=True):
                assert int(N * ends[0]) <= i <= N * ends[1]
    assert random_cells(intervals, 128, rng(1)).equal(random_cells(intervals, 128, rng(1)))
    many = random_cells(torch.tensor([[0.25, 0.5, 0.0, 1.0]]).expand(500, 4), 16, rng(0))
    assert set(many[:, 0].tolist()) == {4, 5, 6, 7} and set(many[:, 1].tolist()) == set(range(16))


def test_patches_that_are_alike_are_embedded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """And values and gradients are the formal ones, also for two that differ but have the same weighted sum."""
    model, ours = make(dropout=0.0), draw(HYPER, rng(1))
    mixed = batch()
    n = len(mixed.patches)
    assert n >= 5 and distinct(mixed.patches)[1] is None
    chosen = torch.arange(n) % 3
    repeated = replace(mixed, patches=mixed.patches[chosen])
    different, which = distinct(repeated.patches)
    assert which is not None and len(different) == 3 and torch.equal(different[which], repeated.patches)
    seen = []
    monkeypatch.setattr(ResNet, "forward", lambda self, patches, run=ResNet.forward: seen.append(len(patches)) or run(self, patches))
    assert max(errors(model, replace(ours, mixed=repeated), rng(3))) <= PROMISED and set(seen) == {3}
    wanted = repeated.patches.clone().requires_grad_()
    gradient, of_one = (
        torch.autograd.grad(model(replace(repeated, patches=patches))[0, :, 0].sum(), patches)[0]
        for patches in (
            wanted,
            (wanted.detach() + 1e-9 * torch.rand(wanted.shape, generator=rng(4), dtype=wanted.dtype)).clamp(-1, 1).requires_grad_(),
        )
    )
    assert_close(gradient, of_one, rtol=0, atol=1e-5, msg="each patch has a gradient of its own")
    monkeypatch.setattr(mixed_batches, "_sums", lambda bits: bits[:, 0] * 0)
    assert distinct(mixed.patches)[0] is mixed.patches and distinct(mixed.patches)[1] is None


def test_theta_goes_there_and_back() -> None:
    model = make(tied=True)
    theta = model.theta()
    assert isinstance(theta, GatoTheta) and theta.W_loc.shape == (10, 17) and theta.W_res.K_0.equal(model.W_res.K_0)
    again = Gato.from_theta(theta, tied=True, G=3)
    assert again.hyper == model.hyper and again(batch()).equal(model(batch()))
    with pytest.raises(ValueError, match="theta: expected a DTheta, got GatoTheta"):
        DTransformer.from_theta(theta)


def test_a_model_starts_with_vectors_of_one_size() -> None:
    """Of tokens and of patches, whatever the norm is; biases and β at 0, γ of the block at 1."""
    for init_std in (None, 0.02):
        model = Gato(GatoHyper(N_V=199, ell_max=8, L=1, H=1, d_e=64, d_mlp=8, norm="RMSnorm_1p", init_std=init_std), generator=rng(0))
        patches = model.W_res(2 * torch.rand(50, 3, 16, 16, generator=rng(1)) - 1)
        assert 0.2 < float((patches.std() / model.W_e.std()).detach()) < 5
        assert model.W_res.gamma1.eq(1).all() and model.gamma.eq(0).all() and model.W_res.b_z.eq(0).all()


# Losses ----------------------------------------------------------------------------------------------------------------


def test_values_that_are_near_start_with_vectors_that_are_near() -> None:
    plain, smooth = (build(HYPER.replace(N_V=7 + BINS + 1, d_e=62, init_smooth=width), generator=rng(0)) for width in (0.0, 16.0))
    before, after = plain.W_e.detach(), smooth.W_e.detach()
    assert before[:7].equal(after[:7]) and before[-1].equal(after[-1])  # text and the separator
    assert all(one.equal(other) for name, one in plain.named_parameters() for other in [smooth.get_parameter(name)] if name != "W_e")
    bins = after[7:-1]
    alike = [float(torch.cosine_similarity(bins[:-by], bins[by:]).mean()) for by in (1, 16, 128)]
    assert alike[0] > 0.99 and 0.6 < alike[1] < 0.9 and abs(alike[2]) < 0.2
    assert float(bins.std() / before.std()) == pytest.approx(1, abs=0.15)
    with pytest.raises(ValueError, match=r"init_smooth: expected a number in \[0, 1024\], got -1"):
        HYPER.replace(init_smooth=-1)


@pytest.mark.parametrize("chosen", [False, True])
def test_the_loss_is_that_of_the_formal_training(chosen: bool) -> None:
    """Σ over text and actions after the first token, or with any weights; values and gradients."""
    model, mixed = make(), batch()
    if chosen:
        m = (torch.rand(mixed.shape, generator=rng(2)) - 0.6).relu() * 7
        mixed = replace(mixed, loss=m * (mixed.kind != IMG))
    Gato_loss(model, mixed, weight=1.0).backward()
    gradient = model.theta_gradient()
    algorithm = formal_counterpart(model.hyper)

    def loss(theta: GatoTheta) -> torch.Tensor:
        total = theta.W_e.new_zeros(())
        for s in mixed.formal(HYPER.N_grid):
            P = algorithm(s, theta)
            total = total - sum((loss_weight(each) * P[each.x, t].log() for t, each in enumerate(s[1:])), theta.W_e.new_zeros(()))
        return total

    theta = model.theta()
    assert_close(Gato_loss(model, mixed, weight=1.0).double(), loss(theta), rtol=0, atol=PROMISED)
    for one, other in zip(gradient.named().values(), grad(loss)(theta).named().values(), strict=True):
        assert_close(one, other, rtol=0, atol=PROMISED)


def test_logits_are_made_where_the_loss_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    from transalg.tasks import losses

    rows: list[int] = []
    usual = losses.log_loss
    monkeypatch.setattr(losses, "log_loss", lambda X, *rest, **more: rows.append(len(X)) or usual(X, *rest, **more))
    mixed = batch()
    Gato_loss(make(), mixed)
    expected = sum(loss_weight(each) > 0 for s in mixed.formal(HYPER.N_grid) for each in s[1:])
    assert rows == [expected] and expected < sum(mixed.lengths)


def test_where_nothing_is_to_be_predicted_every_gradient_is_0() -> None:
    model, mixed = make(), batch()
    for one in (replace(mixed, loss=torch.zeros(mixed.shape)), MixedBatch.of_tokens(SEP, torch.tensor([[1]]))):
        model.zero_grad(set_to_none=True)
        loss = Gato_loss(model, one)
        loss.backward()
        assert loss == 0 and all(part.grad is not None and not part.grad.any() for part in model.parameters())


# Batches ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sequence:
    """As tokenization makes it."""

    kind: np.ndarray
    ids: np.ndarray
    index: np.ndarray
    patches: np.ndarray
    intervals: np.ndarray
    loss: np.ndarray


def sequence(kinds: list[int], seed: int = 0) -> Sequence:
    random = np.random.default_rng(seed)
    count, images = len(kinds), kinds.count(IMG)
    return Sequence(
        kind=np.array(kinds, np.uint8),
        ids=np.where(np.array(kinds) == IMG, 0, random.integers(23, size=count)),
        index=np.arange(count),
        patches=random.uniform(-1, 1, (images, 2, PATCH, PATCH)).astype(np.float32),
        intervals=np.tile(np.array([0, 0.5, 0.5, 1], np.float32), (images, 1)),
        loss=np.isin(kinds, (TEXT, ACT)) * np.arange(3, 3 + count, dtype=np.float32),
    )


def test_a_batch_of_sequences_says_what_each_says() -> None:
    model = make()
    sequences = [sequence([IMG, IMG, TEXT]), sequence([OBS, SEP, ACT, OBS], 1), sequence([TEXT, IMG, OBS, SEP, ACT], 2)]
    mixed = MixedBatch.of(sequences)
    assert mixed.lengths == (3, 4, 5) and len(mixed.patches) == 3 and mixed.ids.dtype == torch.long
    logits = model(mixed)
    for row, one in enumerate(sequences):
        alone = MixedBatch.of([one])
        assert_close(logits[row, : len(one.ids)], model(alone)[0], rtol=0, atol=1e-12)
        assert alone.weights()[0].tolist() == one.loss.tolist()
        assert len(one.patches) == 0 or np.array_equal(alone.patches.numpy(), one.patches)
    assert logits[0, 3:].eq(0).all()
    text = MixedBatch.of([sequence([TEXT, ACT])])
    assert len(text.patches) == 0 and model(text).shape == (1, 2, 23)


def test_selecting_and_cutting() -> None:
    mixed = batch()
    rows = mixed.select([3, 1, 3]).formal(11)
    whole = mixed.formal(11)
    for one, other in zip(rows, (whole[3], whole[1], whole[3]), strict=True):
        same(one, other)
    starts, counts_ = [min(1, length - 1) for length in mixed.lengths], [max(0, min(2, length - 1)) for length in mixed.lengths]
    for one, other, start, count in zip(mixed.narrow(starts, counts_).formal(11), whole, starts, counts_, strict=True):
        same(one, other[start : start + count])


def same(one: list, other: list) -> None:
    assert [(each.kappa, each.x, each.p) for each in one] == [(each.kappa, each.x, each.p) for each in other]
    for a, b in zip(one, other, strict=True):
        assert (a.patch is None) == (b.patch is None)
        assert a.patch is None or (a.patch.A.equal(b.patch.A) and a.patch.rows == b.patch.rows and a.patch.columns == b.patch.columns)


def test_what_does_not_count_may_be_anything() -> None:
    """IDs of patches, indices of separators and actions."""
    model, mixed = make(), batch()
    ids = mixed.ids.where(mixed.kind != IMG, 10**6)
    index = mixed.index.where(mixed.kind <= IMG, -7)
    assert model(replace(mixed, ids=ids, index=index)).equal(model(mixed))


def test_a_batch_moves_to_a_device() -> None:
    mixed = batch().drawn(11, rng(0)).to("meta")
    assert mixed.ids.is_meta and mixed.patches.is_meta and mixed.cells is not None and mixed.cells.is_meta


# Decoding --------------------------------------------------------------------------------------------------------------


def test_an_observation_with_an_image_goes_on_in_the_cache() -> None:
    """Prefill, some actions, a new observation with patches in it, an action: what one pass says of all of it."""
    model = make(ell_max=29)
    kinds = [TEXT, IMG, OBS, SEP, ACT, ACT, IMG, IMG, OBS, SEP, ACT]
    mixed = MixedBatch.of([sequence(kinds), sequence(kinds, 1)])
    expected = model(mixed)
    cache, logits = model.cache(2, 20), []
    for start, stop in ((0, 4), (4, 5), (5, 6), (6, 10), (10, 11)):
        logits.append(model.decode(mixed.narrow([start] * 2, [stop - start] * 2), cache))
    assert_close(torch.cat(logits, dim=1), expected, rtol=0, atol=1e-12)
    assert cache.lengths == [11, 11]
    last = model.decode(MixedBatch.of_tokens(ACT, torch.tensor([[3], [4]])), cache, last=True)
    assert last.shape == (2, 23)
    nothing = model.decode(mixed.narrow([0, 0], [0, 0]), cache, last=True)
    assert nothing.eq(0).all() and cache.lengths == [12, 12]


@pytest.mark.parametrize("changes", [{}, {"activation": "GEGLU", "positions": "rotary", "tied": True, "d_attn": 4}], ids=str)
def test_text_values_and_actions_take_the_fast_path(changes: dict, monkeypatch: pytest.MonkeyPatch) -> None:
    model = make(**changes)
    kinds = [IMG, TEXT, OBS, SEP, ACT, ACT]
    mixed = MixedBatch.of([sequence(kinds)])
    expected = model(mixed)[0]
    for wrapped, close in ((pack(model, 1), tolerance(torch.float64, terms=13, depth=4, size=10)), (quantize(model), 1.0)):
        cache = wrapped.cache(1)
        first = wrapped.decode(mixed.narrow([0], [1]), cache)[0]
        assert wrapped.single_token is not None
        fast, taken = wrapped.single_token, []
        wrapped.single_token = lambda ids, cache, fast=fast, taken=taken: taken.append(ids) or fast(ids, cache)
        rest = [wrapped.decode(mixed.narrow([t], [1]), cache, last=True) for t in range(1, len(kinds))]
        assert len(taken) == 5
        assert_close(torch.cat([first, *rest]), expected, rtol=0, atol=close)
        stray = replace(mixed.narrow([1], [1]), patches=mixed.patches, intervals=mixed.intervals)
        with pytest.raises(ValueError, match="patches: expected one for each of the 0 patches"):
            wrapped.decode(stray, wrapped.cache(1))
        for wrong in ((TEXT, 23, 0), (TEXT, 1, 17), (5, 1, 0), (ACT, -1, 0)):
            one = MixedBatch.of_tokens(wrong[0], torch.tensor([[wrong[1]]]), torch.tensor([[wrong[2]]]))
            with pytest.raises(ValueError, match=r"(ids|index|kind): expected"):
                wrapped.decode(one, wrapped.cache(1))


def test_relative_positions_decode_without_the_fast_path() -> None:
    model = make(positions="relative")
    assert pack(model, 1).single_token is None


# What is refused -------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda one: replace(one, patches=one.patches * float("nan")), r"patches: expected pixels in \[−1, 1\], got nan"),
        (lambda one: replace(one, patches=one.patches * 255), r"patches: expected pixels in \[−1, 1\]"),
        (lambda one: replace(one, patches=one.patches[:, :, :15]), r"patches: expected real numbers, C = 2 channels of 16×16 pixels"),
        (lambda one: replace(one, patches=one.patches[:, :1]), "patches: expected real numbers, C = 2 channels"),
        (lambda one: replace(one, patches=one.patches[1:]), r"patches: expected one for each of the \d+ patches among the tokens"),
        (lambda one: replace(one, intervals=one.intervals[:, :3]), r"intervals: expected r, r′, c, c′ of each"),
        (lambda one: replace(one, intervals=one.intervals.flip(1)), "intervals: expected 0 ≤ r < r′ ≤ 1"),
        (lambda one: replace(one, intervals=one.intervals * float("nan")), "intervals: expected 0 ≤ r"),
        (lambda one: replace(one, kind=one.kind + 1), "kind: expected IDs from 0 to number of kinds−1 with number of kinds = 5, got 5"),
        (lambda one: replace(one, ids=one.ids + 23), "ids: expected IDs from 0 to N_V−1 with N_V = 23"),
        (lambda one: replace(one, index=one.index + 17), "index: expected IDs from 0 to N_loc−1 with N_loc = 17"),
        (lambda one: replace(one, ids=one.ids.double()), "ids: expected token IDs, whole numbers"),
        (lambda one: replace(one, index=one.index[:, 1:]), "index: expected an element for every token"),
        (lambda one: replace(one, lengths=one.lengths[1:]), "lengths: expected a length for each of the 5 rows"),
        (
            lambda one: replace(one, loss=torch.ones(one.shape)),
            "loss: expected 0 at image patches, which have no token ID to predict, got 1",
        ),
        (lambda one: replace(one, loss=torch.full(one.shape, -0.5)), r"loss: expected weights in \[0, ∞\), got -0.5"),
        (lambda one: replace(one, loss=torch.full(one.shape, torch.nan)), r"loss: expected weights in \[0, ∞\), got NaN"),
        (
            lambda one: replace(one, cells=torch.full((len(one.patches), 2), 11)),
            "cells: expected IDs from 0 to N_grid−1 with N_grid = 11, got 11",
        ),
        (lambda one: one.ids, "batch: expected a MixedBatch, got Tensor"),
    ],
)
def test_a_batch_that_cannot_be_embedded_is_refused(wrong: Any, message: str) -> None:
    model = make()
    with pytest.raises(ValueError, match=message):
        model(wrong(batch()))


def test_further_refusals() -> None:
    with pytest.raises(ValueError, match="sequences: expected at least one, got none"):
        MixedBatch.of([])
    with pytest.raises(ValueError, match="index: expected the index of every token of text"):
        MixedBatch.of_tokens(TEXT, torch.tensor([[1]]))
    with pytest.raises(ValueError, match="lengths: expected those of the batch itself, got others"):
        make().decode(MixedBatch.of_tokens(ACT, torch.tensor([[1]])), make().cache(1), [1])
    with pytest.raises(ValueError, match="G: expected a divisor of C_r = 6, got 4"):
        HYPER.replace(G=4)
    with pytest.raises(ValueError, match="sigma: expected 1 or 2 or 4 or 8, got 3"):
        HYPER.replace(sigma=3)


def test_full_batches_are_drawn_too() -> None:
    mixed = draw_mixed(HYPER, batch().ids, (7,) * 5, rng(0))
    assert len(mixed.patches) == int((mixed.kind == IMG).sum())
