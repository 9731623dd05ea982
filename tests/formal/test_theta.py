"""θ: shapes that agree, a pytree with arithmetic, hyperparameters read off the shapes."""

from dataclasses import FrozenInstanceError, dataclass, fields, replace
from math import prod

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from jaxtyping import Float
from torch.testing import assert_close
from torch.utils import _pytree as pytree

from tests.strategies import KINDS, fill, rng, sizes, thetas
from transalg.formal import DTheta, DTransformer, EDTheta, ETheta, MHAttentionTheta
from transalg.formal.systems import BERTTheta
from transalg.formal.tree import Theta

D = {"N_V": 11, "ell_max": 7, "H": 2, "d_e": 6, "d_mlp": 13}


def test_fields_are_those_of_the_paper() -> None:
    names = {
        kind.__name__: [field.name for field in fields(kind) if field.name not in ("special", "statistics")]
        for kind in (DTheta, ETheta, EDTheta)
    }
    assert names == {
        "DTheta": ["W_e", "W_p", "layers", "gamma", "beta", "W_u"],
        "ETheta": ["W_e", "W_p", "layers", "W_f", "b_f", "gamma", "beta", "W_u"],
        "EDTheta": ["W_e", "W_p", "enc", "dec", "W_u"],
    }
    theta = EDTheta.init(**D, L_enc=1, L_dec=1)
    layer = ["W", "gamma1", "beta1", "gamma2", "beta2", "W_mlp1", "b_mlp1", "W_mlp2", "b_mlp2"]
    decoder = [
        "W_dec",
        "W_ed",
        "gamma3",
        "beta3",
        "gamma4",
        "beta4",
        "gamma5",
        "beta5",
        "W_mlp3",
        "b_mlp3",
        "W_mlp4",
        "b_mlp4",
    ]
    assert [field.name for field in fields(theta.enc[0])] == layer
    assert [field.name for field in fields(theta.dec[0])] == decoder
    assert [field.name for field in fields(theta.dec[0].W_ed)] == [
        "W_q",
        "b_q",
        "W_k",
        "b_k",
        "W_v",
        "b_v",
        "W_o",
        "b_o",
    ]


@given(
    sizes(
        "N_V",
        "ell_max",
        "d_e",
        "d_mlp",
        "d_attn",
        "d_mid",
        "d_f",
        "N_C",
        H=st.integers(1, 3),
        L=st.integers(1, 3),
    )
)
def test_hyperparameters_are_read_off_the_shapes(d: dict[str, int]) -> None:
    for kind, extra in KINDS.items():
        sizes = {symbol: size for symbol, size in d.items() if symbol not in ("d_f", "N_C", "L")} | {symbol: d[symbol] for symbol in extra}
        sizes |= {"L_enc": d["L"], "L_dec": d["L"] + 1} if kind is EDTheta else {"L": d["L"]}
        theta = kind.init(**sizes)  # type: ignore[attr-defined]
        assert theta.sizes() == sizes
    W = DTheta.init(**{k: v for k, v in d.items() if k not in ("d_f", "N_C")}).layers[0].W
    assert (
        W.W_q.shape == (d["H"], d["d_attn"], d["d_e"])
        and W.W_v.shape == (d["H"], d["d_mid"], d["d_e"])
        and W.W_o.shape == (d["d_e"], d["H"] * d["d_mid"])
    )


def test_d_attn_and_d_mid_are_d_e_over_H_unless_given() -> None:
    assert DTheta.init(**D, L=1).sizes() | {"d_attn": 3, "d_mid": 3} == DTheta.init(**D, L=1).sizes()
    assert DTheta.init(**D, L=1, d_mid=5).sizes()["d_mid"] == 5
    with pytest.raises(ValueError, match=r"H: expected a divisor of d_e = 7.*got 2"):
        DTheta.init(**(D | {"d_e": 7}), L=1)
    assert DTheta.init(**(D | {"d_e": 7}), L=1, d_attn=2, d_mid=3).sizes()["d_attn"] == 2


@pytest.mark.parametrize("size", [0, -1, 2.5, None])
def test_sizes_are_positive_whole_numbers(size: object) -> None:
    with pytest.raises(ValueError, match="d_mlp: expected a positive integer, got"):
        DTheta.init(**(D | {"d_mlp": size}), L=1)


def test_init_takes_the_sizes_that_the_declarations_name() -> None:
    assert set(DTheta.symbols()) == {"N_V", "ell_max", "L", "H", "d_e", "d_mlp", "d_attn", "d_mid"}
    assert set(EDTheta.symbols()) == {"N_V", "ell_max", "L_enc", "L_dec", "H", "d_e", "d_mlp", "d_attn", "d_mid"}
    theta = BERTTheta.init(**D, L=1, d_f=5, N_S=3, generator=rng(0))
    assert theta.sizes()["N_S"] == 3 and (theta.gamma_e == 1).all() and (theta.b_u == 0).all() and theta.W_s.any()
    with pytest.raises(ValueError, match="d_f: expected this size for a ETheta, got none"):
        ETheta.init(**D, L=1)
    with pytest.raises(ValueError, match="d_f: expected a size of DTheta, d_e, N_V, ell_max, L, H, d_attn, d_mid, d_mlp, got another"):
        DTheta.init(**D, L=1, d_f=5)


def test_a_layer_gives_its_mlp() -> None:
    theta = EDTheta.init(**D, L_enc=1, L_dec=1, generator=rng(0))
    one, other = theta.enc[0], theta.dec[0]
    assert one.mlp.W_mlp1 is one.W_mlp1 and one.mlp.b_mlp2 is one.b_mlp2
    assert other.mlp.W_mlp1 is other.W_mlp3 and other.mlp.b_mlp1 is other.b_mlp3
    assert other.mlp.W_mlp2 is other.W_mlp4 and other.mlp.b_mlp2 is other.b_mlp4


def test_heads_with_parts_that_headless_has_are_refused() -> None:
    """A 𝒲 with further parts says what its heads are; it never falls back to the paper's."""

    @dataclass(frozen=True, eq=False, repr=False)
    class Unfinished(MHAttentionTheta):
        extra: Float[torch.Tensor, "H d_attn"]

    W = DTheta.init(**D, L=1).layers[0].W
    with pytest.raises(TypeError, match="unexpected keyword argument 'extra'"):
        _ = Unfinished(**vars(W), extra=W.b_q).W_qkv


def test_init_is_random_and_repeatable() -> None:
    one, same, other = (DTheta.init(**D, L=2, generator=rng(seed)) for seed in (0, 0, 1))
    assert all(a.equal(b) for a, b in zip(one.named().values(), same.named().values(), strict=True))
    assert not one.W_u.equal(other.W_u) and not one.layers[0].W.W_q.equal(one.layers[1].W.W_q)
    assert (one.gamma == 1).all() and (one.layers[0].W.b_q == 0).all()
    big = DTheta.init(N_V=1009, ell_max=97, L=1, H=1, d_e=101, d_mlp=211, generator=rng(0))
    for W, d in ((big.W_e, 101), (big.W_p, 101), (big.W_u, 101), (big.layers[0].W_mlp2, 211)):
        assert W.var() * d == pytest.approx(1, rel=0.05)
    assert DTheta.init(**D, L=1).W_e.dtype == torch.float64
    assert DTheta.init(**D, L=1, dtype=torch.float32).W_e.dtype == torch.float32


def test_arithmetic_is_part_by_part() -> None:
    a, b = (fill(EDTheta.init(**D, L_enc=1, L_dec=2), seed) for seed in (0, 1))
    c = (a - 0.5 * b) + a
    assert type(c) is EDTheta
    for name, part in c.named().items():
        assert_close(part, 2 * a.named()[name] - 0.5 * b.named()[name])


def test_gradients_come_as_a_theta() -> None:
    theta = fill(DTheta.init(**D, L=2), 0)
    gradient = torch.func.grad(lambda theta: DTransformer([1, 2, 3], theta)[5, 2].log())(theta)
    assert type(gradient) is DTheta
    assert {name: part.shape for name, part in gradient.named().items()} == {name: part.shape for name, part in theta.named().items()}
    step = 1e-6
    for name, part in theta.named().items():  # one entry of every part against the difference quotient
        at = tuple(0 for _ in part.shape)
        moved = []
        for sign in (1, -1):
            other = part.clone()
            other[at] += sign * step
            moved.append(DTransformer([1, 2, 3], DTheta.from_named(theta.named() | {name: other}))[5, 2].log())
        assert_close((moved[0] - moved[1]) / (2 * step), gradient.named()[name][at], rtol=1e-5, atol=1e-7)


def test_theta_is_frozen() -> None:
    theta = DTheta.init(**D, L=1)
    with pytest.raises(FrozenInstanceError):
        theta.W_e = theta.W_e  # type: ignore[misc]


@pytest.mark.parametrize("kind", KINDS)
def test_names_go_out_and_come_back(kind: type[Theta]) -> None:
    depth = {"L_enc": 2, "L_dec": 3} if kind is EDTheta else {"L": 3}
    extra = dict(zip(KINDS[kind], (17, 19), strict=False))
    theta = kind.init(**D, **depth, **extra)  # type: ignore[attr-defined]
    back = kind.from_named(theta.named())
    assert pytree.tree_structure(back) == pytree.tree_structure(theta)
    assert all(a is b for a, b in zip(pytree.tree_leaves(back), pytree.tree_leaves(theta), strict=True))
    missing = {name: part for name, part in theta.named().items() if not name.endswith("W_o")}
    with pytest.raises(ValueError, match="theta: expected W_o among the parts"):
        kind.from_named(missing)


@given(st.sampled_from([DTheta, ETheta, EDTheta]), st.data())
def test_any_wrong_size_is_found_and_named(kind: type[Theta], data: st.DataObject) -> None:
    """One dimension of one part grown by one: unless the dimension stands in no other part, θ refuses."""
    theta = data.draw(thetas(kind))
    name = data.draw(st.sampled_from(sorted(theta.named())))
    part = theta.named()[name]
    dim = data.draw(st.integers(0, part.ndim - 1))
    shape = [size + (i == dim) for i, size in enumerate(part.shape)]
    named = theta.named() | {name: torch.zeros(shape, dtype=torch.float64)}
    if name == "W_p" and dim == 1:  # ℓ_max stands in W_p alone
        assert kind.from_named(named).sizes()["ell_max"] == theta.sizes()["ell_max"] + 1
        return
    with pytest.raises(ValueError, match=r"theta: expected \S+ = \d+ in \S+ ∈ ℝ\^\{.*\}.*, got \d+"):
        kind.from_named(named)


def test_the_message_says_which_parts_disagree() -> None:
    theta = DTheta.init(**D, L=2)
    with pytest.raises(ValueError, match=r"theta: expected d_e = 6 in W_p ∈ ℝ\^\{d_e×ell_max\}, as in W_e, got 5"):
        replace(theta, W_p=torch.zeros(5, 7, dtype=torch.float64))
    with pytest.raises(ValueError, match=r"theta: expected gamma ∈ ℝ\^\{d_e\}, got the shape \(2, 3\)"):
        replace(theta, gamma=torch.zeros(2, 3))
    with pytest.raises(ValueError, match=r"theta: expected W_u .*, got list"):
        replace(theta, W_u=[[1.0]])


def test_parameter_count() -> None:
    # W_e and W_u 11·6 each, W_p 6·7, γ and β 6 each; a layer: 4 norms of 6, MLP 2·13·6 + 13 + 6, attention 2 heads of 3:
    # 3 projections of 2·3·6 + 2·3, W_o 6·6 + 6.
    layer = 24 + (2 * 13 * 6 + 19) + 3 * (36 + 6) + 42
    assert sum(prod(part.shape) for part in DTheta.init(**D, L=2).named().values()) == 2 * 66 + 42 + 12 + 2 * layer


def test_a_theta_shows_its_sizes() -> None:
    assert repr(DTheta.init(**D, L=2)).startswith("DTheta(L=2, d_e=6, N_V=11, ell_max=7, H=2, d_attn=3, d_mid=3, d_mlp=13: ")
    assert repr(pytree.tree_map(lambda part: None, DTheta.init(**D, L=2))) == "DTheta(…)"


def test_paths_of_the_pytree_are_the_names() -> None:
    theta = EDTheta.init(**D, L_enc=1, L_dec=1)
    paths = [
        pytree.keystr(path).removeprefix(".").replace("[", ".").replace("]", "") for path, _ in pytree.tree_flatten_with_path(theta)[0]
    ]
    assert paths == list(theta.named())


def test_an_ensemble_has_a_gradient_for_each_member() -> None:
    """torch.func.vmap over θ, with grad inside: the value checks step aside."""
    members = [fill(DTheta.init(**D, L=1), seed) for seed in range(3)]
    stacked = pytree.tree_map(lambda *parts: torch.stack(parts), *members)
    loss = lambda theta: -DTransformer(torch.tensor([9, 1, 2]), theta)[1, 0].log()  # noqa: E731
    together = torch.func.vmap(torch.func.grad(loss))(stacked)
    for i, member in enumerate(members):
        for name, part in torch.func.grad(loss)(member).named().items():
            assert_close(_part(together, name)[i], part)


def _part(theta: object, name: str) -> torch.Tensor:
    for key in name.split("."):
        theta = theta[int(key)] if key.isdigit() else getattr(theta, key)  # type: ignore[index]
    return theta  # type: ignore[return-value]
