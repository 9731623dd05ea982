"""Every parameter has one optimiser; Muon is what it says, and torch's own up to that one's bfloat16; schedules go where they should."""

import copy
from itertools import pairwise

import pytest
import torch
from torch.testing import assert_close

from tests.strategies import rng
from tests.tolerance import tolerance
from transalg.hyper import ClassifierHyper, DHyper, EDHyper, EHyper
from transalg.model import MODELS
from transalg.optimisation.muon import COEFFICIENTS, Muon, hidden_matrices, orthogonalised
from transalg.optimisation.optimisers import OPTIMISERS, optimisers, scale_eta, set_eta
from transalg.optimisation.schedules import SCHEDULES, lr_factor
from transalg.tasks.losses import C_loss, D_loss
from transalg.verify.cases import small


@pytest.mark.parametrize("hyper", [DHyper, EHyper, ClassifierHyper, EDHyper])
@pytest.mark.parametrize("kind", OPTIMISERS)
def test_every_parameter_has_one_optimiser(hyper: type, kind: str) -> None:
    model = MODELS[hyper](small(hyper))
    owned = [id(p) for optimiser in optimisers(model, kind, 0.1) for group in optimiser.param_groups for p in group["params"]]
    assert sorted(owned) == sorted(id(p) for p in model.parameters())


def test_hidden_matrices_are_those_of_the_layers() -> None:
    matrices = hidden_matrices(MODELS[EDHyper](small(EDHyper)))
    assert {name.rpartition(".")[2] for name in matrices} == {"W_qkv", "W_q", "W_kv", "W_o", "W_mlp1", "W_mlp2", "W_mlp3", "W_mlp4"}
    assert matrices["dec.0.W_ed.W_kv"][1] == (6, 10) and matrices["enc.0.W.W_qkv"][1] == (6, 6, 10) and matrices["enc.0.W.W_o"][1] == (10,)
    assert all(sum(rows) == len(parameter) for parameter, rows in matrices.values())


def test_what_decays() -> None:
    model = MODELS[DHyper](small(DHyper))
    (adamw,) = optimisers(model, "adamw", 0.1, weight_decay=0.3)
    names = {id(parameter): name.rpartition(".")[2] for name, parameter in model.named_parameters()}
    decayed, undecayed = ({names[id(p)] for p in group["params"]} for group in adamw.param_groups)
    assert [group["weight_decay"] for group in adamw.param_groups] == [0.3, 0.0]
    assert decayed == {"W_qkv", "W_o", "W_mlp1", "W_mlp2", "W_u"}
    assert undecayed == {"W_e", "W_p", "b_qkv", "b_o", "b_mlp1", "b_mlp2", "gamma1", "beta1", "gamma2", "beta2", "gamma", "beta"}


EXACT = (*COEFFICIENTS, *[(1.875, -1.25, 0.375)] * 8)  # further steps of Newton–Schulz, until every singular value is 1


@pytest.mark.parametrize(("n", "m"), [(7, 7), (5, 13), (13, 5), (1, 3), (7, 9)])
def test_singular_values_come_near_1_and_vectors_stay(n: int, m: int) -> None:
    G = torch.randn(3, n, m, generator=rng(n), dtype=torch.float64)
    X = orthogonalised(G)
    U, S, Vh = torch.linalg.svd(G, full_matrices=False)
    inner = U.mT @ X @ Vh.mT
    values = inner.diagonal(dim1=1, dim2=2)
    assert_close(inner, torch.diag_embed(values), rtol=0, atol=tolerance(torch.float64, terms=13, depth=5, size=100))
    largest = (S**4).sum(dim=1, keepdim=True) ** 0.25  # what the matrix is divided by
    strong = 0.01 * largest < S  # three steps do not lift the very smallest
    assert ((values > 0.72) & (values < 1.28))[strong].all() and strong.float().mean() > 0.9
    assert_close(orthogonalised(G, EXACT), U @ Vh, rtol=0, atol=1e-6)


def test_the_coefficients_bring_an_interval_to_1_as_near_as_they_can() -> None:
    """Each polynomial is the nearest to 1 on what the one before leaves: its error has four extreme values of one size, in turn above and below."""
    low, high = 0.01, 1.0
    for a, b, c in COEFFICIENTS:
        x = torch.linspace(low, high, 100_001, dtype=torch.float64)
        error = a * x + b * x**3 + c * x**5 - 1
        size = float(error.abs().max())
        inside = error[1:-1][(error[1:-1] - error[:-2]) * (error[2:] - error[1:-1]) <= 0]
        extremes = [float(error[0]), *inside.tolist(), float(error[-1])]
        assert [each / size for each in extremes] == pytest.approx([-1, 1, -1, 1], abs=0.02)
        low, high = 1 - size, 1 + size
    assert low > 0.72 and high < 1.28


def test_muon_is_momentum_made_orthogonal() -> None:
    """Three steps against its definition, with the singular vectors of torch."""
    W = torch.nn.Parameter(torch.randn(17, 31, generator=rng(0), dtype=torch.float64))
    muon = Muon([(W, (17,))], lr=0.1, weight_decay=0.2, momentum=0.9, coefficients=EXACT)
    expected, M = W.detach().clone(), torch.zeros_like(W)
    for i in range(3):
        W.grad = torch.randn(W.shape, generator=rng(100 + i), dtype=torch.float64)
        M = 0.9 * M + W.grad
        U, _, Vh = torch.linalg.svd(W.grad + 0.9 * M, full_matrices=False)
        expected = (1 - 0.1 * 0.2) * expected - 0.1 * 0.2 * 31**0.5 * U @ Vh
        muon.step()
    assert_close(W.detach(), expected, rtol=0, atol=1e-6)


def test_muon_goes_where_torch_s_goes() -> None:
    """Two matrices, three steps. torch's has other coefficients, and computes in bfloat16: the two moves are near each other, not equal."""
    start = [torch.randn(n, m, generator=rng(n)) for n, m in ((17, 31), (31, 17))]
    ours, theirs = ([torch.nn.Parameter(W.clone()) for W in start] for _ in range(2))
    muon = Muon([(W, (len(W),)) for W in ours], lr=0.1, weight_decay=0.2, momentum=0.9)
    torchs = torch.optim.Muon(theirs, lr=0.1, weight_decay=0.2, momentum=0.9, nesterov=True, adjust_lr_fn="match_rms_adamw")
    for i in range(3):
        for W, V in zip(ours, theirs, strict=True):
            gradient = torch.randn(W.shape, generator=rng(100 + i))
            W.grad, V.grad = gradient.clone(), gradient.clone()
        muon.step()
        torchs.step()
    for W, V, before in zip(ours, theirs, start, strict=True):
        # Nesterov's mean in torch is (1 − μ)G + μM with M a running mean, which has the same direction
        assert (W - V).norm() < 0.3 * (V - before).norm()


def test_fused_matrices_are_orthogonalised_apart() -> None:
    W = torch.nn.Parameter(torch.zeros(8, 5))
    W.grad = torch.randn(8, 5, generator=rng(0))
    apart = [torch.nn.Parameter(torch.zeros(rows, 5)) for rows in (3, 5)]
    for part, gradient in zip(apart, W.grad.split((3, 5)), strict=True):
        part.grad = gradient.clone()
    Muon([(W, (3, 5))], lr=0.1).step()
    for part in apart:
        Muon([(part, (len(part),))], lr=0.1).step()
    assert_close(W.detach(), torch.cat([part.detach() for part in apart]))


@pytest.mark.parametrize("kind", OPTIMISERS)
def test_training_lowers_the_loss(kind: str) -> None:
    model = MODELS[DHyper](small(DHyper), generator=rng(0))
    x = torch.randint(20, (8, 7), generator=rng(1))
    both = optimisers(model, kind, {"muon": 0.02, "adamw": 0.02, "sgd": 0.3}[kind])
    losses = []
    for _ in range(30):
        loss = D_loss(model, x)
        losses.append(float(loss.detach()))
        loss.backward()
        for optimiser in both:
            optimiser.step()
            optimiser.zero_grad()
    assert losses[-1] < 0.6 * losses[0]


def test_a_state_resumes_bit_for_bit() -> None:
    def run(model, both, steps: int) -> None:
        for i in range(steps):
            D_loss(model, torch.randint(20, (4, 7), generator=rng(i))).backward()
            for optimiser in both:
                optimiser.step()
                optimiser.zero_grad()

    uninterrupted = MODELS[DHyper](small(DHyper), generator=rng(0))
    both = optimisers(uninterrupted, "muon", 0.02)
    run(uninterrupted, both, 2)
    again = MODELS[DHyper](small(DHyper), generator=rng(5))
    again.load_state_dict(uninterrupted.state_dict())
    resumed = optimisers(again, "muon", 0.02)
    for optimiser, saved in zip(resumed, both, strict=True):
        optimiser.load_state_dict(copy.deepcopy(saved.state_dict()))
    run(uninterrupted, both, 3)
    run(again, resumed, 3)
    assert all(a.equal(b) for a, b in zip(uninterrupted.parameters(), again.parameters(), strict=True))


def test_an_unknown_optimiser() -> None:
    with pytest.raises(ValueError, match=r"optimizer: expected muon, adamw, sgd, got 'lion'"):
        optimisers(MODELS[DHyper](small(DHyper)), "lion", 0.1)


# Schedules -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_schedule_warms_up_and_ends_where_it_should(schedule: str) -> None:
    rates = [lr_factor(step, 100, schedule=schedule, warmup=10, final=0.1) for step in range(100)]
    assert rates[:10] == pytest.approx([(step + 1) / 11 for step in range(10)])
    assert max(rates) == rates[10] == 1 and rates[-1] == pytest.approx(1 if schedule == "constant" else 0.1)
    assert all(later <= earlier for earlier, later in pairwise(rates[10:]))
    middle = {"cosine": 0.55, "linear": 0.55, "constant": 1.0, "trapezoid": 1.0}[schedule]
    assert rates[54] == pytest.approx(middle, abs=0.02)
    assert lr_factor(200, 100, schedule=schedule, warmup=10) == rates[-1]  # past the end it stays


def test_a_cosine_is_one() -> None:
    assert lr_factor(25, 101, final=0.0) == pytest.approx((1 + 2**-0.5) / 2)


def test_an_unknown_schedule() -> None:
    with pytest.raises(ValueError, match=r"schedule: expected linear, cosine, constant, trapezoid, got 'step'"):
        lr_factor(0, 1, schedule="step")


@pytest.mark.parametrize("shape", [(3, 5, 13), (3, 13, 5), (3, 7, 11), (3, 7, 7), (2, 1, 5)])
def test_wide_matrices_take_the_same_steps_by_a_shorter_way(shape: tuple[int, ...]) -> None:
    G = torch.randn(shape, generator=rng(0), dtype=torch.float64)
    X = G.mT if shape[1] > shape[2] else G
    X = X / (X @ X.mT).flatten(1).norm(dim=1).sqrt()[:, None, None]
    for a, b, c in COEFFICIENTS:
        A = X @ X.mT
        X = a * X + (b * A + c * A @ A) @ X
    assert_close(orthogonalised(G), X.mT if shape[1] > shape[2] else X, rtol=0, atol=tolerance(torch.float64, terms=13, depth=5, size=100))
    close = orthogonalised(G.float()).double()
    assert_close(close, orthogonalised(G), rtol=0, atol=tolerance(torch.float32, terms=13, depth=5, size=100))


@pytest.mark.parametrize("kind", OPTIMISERS)
@pytest.mark.parametrize("whole", [("W_c", "b_c"), ("W_c", "layers.0.W.W_qkv", "layers.0.b_mlp2")])
def test_fine_tuning_moves_some_parameters_more_than_the_rest(kind: str, whole: tuple[str, ...]) -> None:
    """With factor 0 nothing but these moves, the head or one of the matrices of a layer; with 1 nothing changes."""
    x, c = torch.randint(20, (8, 7), generator=rng(1)), torch.arange(8) % 4
    x[:, 0] = small(ClassifierHyper).bos_token
    moved = {}
    for factor in (0.0, 0.1, 1.0):
        model = MODELS[ClassifierHyper](small(ClassifierHyper), generator=rng(0))
        before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
        both = optimisers(model, kind, 0.1)
        assert set(whole) <= set(before)
        scale_eta(both, factor, [parameter for name, parameter in model.named_parameters() if name not in whole])
        set_eta(both, 0.1)
        owned = [id(p) for optimiser in both for group in optimiser.param_groups for p in group["params"]]
        assert sorted(owned) == sorted(id(p) for p in model.parameters())
        C_loss(model, x, c).backward()
        for optimiser in both:
            optimiser.step()
        moved[factor] = {name: float((parameter.detach() - before[name]).norm()) for name, parameter in model.named_parameters()}
    for name in moved[1.0]:
        if name in whole:
            assert moved[0.0][name] == moved[0.1][name] == moved[1.0][name] > 0
        else:
            assert moved[0.0][name] == 0 and moved[0.1][name] == pytest.approx(0.1 * moved[1.0][name], rel=1e-3, abs=1e-7)


def test_muon_computes_in_bfloat16_where_training_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """The update stays near UVᵀ, and what training in float32 computes stays in float32."""
    G = torch.randn(2, 17, 43, generator=rng(5))
    exact, rounded = orthogonalised(G), orthogonalised(G, bfloat16=True)
    assert exact.dtype == rounded.dtype == torch.float32
    assert 1e-4 < (exact - rounded).norm() / exact.norm() < 0.3  # of bfloat16's 8 bits, through three polynomials
    values = torch.linalg.svdvals(rounded)
    assert values.min() > 0.6 and values.max() < 1.5  # 0.73 and 1.27 in exact arithmetic
    seen: list[bool] = []
    monkeypatch.setattr("transalg.optimisation.muon.orthogonalised", lambda G, *_, bfloat16: seen.append(bfloat16) or G)
    for bfloat16 in (True, False):
        model = MODELS[DHyper](small(DHyper))
        for parameter in model.parameters():
            parameter.grad = torch.ones_like(parameter)
        for optimiser in optimisers(model, "muon", 0.1, bfloat16=bfloat16):
            optimiser.step()
    assert True in seen and False in seen and seen == sorted(seen, reverse=True)
