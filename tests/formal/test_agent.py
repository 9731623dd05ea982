"""Gato's training, captions and control."""

from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch
from torch.func import grad
from torch.testing import assert_close

from tests.formal.test_gato import SIZES, gato, patch, sequence, theta_g
from tests.strategies import rng
from transalg.formal import DTheta, DTraining, DTransformer
from transalg.formal.agent import GatoControl, GatoInference, GatoPrompt, GatoTraining
from transalg.formal.gato import Gato, GatoTheta, at_random
from transalg.formal.modality import Token

train = partial(GatoTraining, Gato=gato)


def difference(one: GatoTheta, other: GatoTheta) -> float:
    named = other.named()
    return max(float((part - named[name]).abs().max()) for name, part in one.named().items())


def test_with_text_alone_and_no_prompts_it_is_algorithm_13() -> None:
    theta = theta_g()
    theta = replace(theta, W_p=torch.zeros_like(theta.W_p))
    sizes = {name: size for name, size in SIZES.items() if name in DTheta.symbols()}
    names = DTheta.init(**sizes).named()
    paper = DTheta.from_named({name: part for name, part in theta.named().items() if name in names} | {"W_p": theta.W_loc[:, :13]})
    xs = [[21, 4, 7, 1], [21, 0, 22]]
    ss = [[Token("text", v, t) for t, v in enumerate(x)] for x in xs]

    def fixed(s: list[Token], theta: GatoTheta) -> torch.Tensor:
        return gato(s, replace(theta, W_p=torch.zeros_like(theta.W_p)))

    ours, theirs = GatoTraining(ss, ["a", "b"], theta, 2, 0.01, 0.0, Gato=fixed), DTraining(xs, paper, 2, 0.01)
    for name, part in theirs.named().items():
        expected = ours.W_loc[:, :13] if name == "W_p" else ours.named()[name]
        assert_close(part, expected, rtol=0, atol=1e-13)
    assert difference(ours, theta) > 1e-3


def test_one_step_is_the_gradient_of_the_masked_log_loss() -> None:
    theta, s = theta_g(), sequence()
    s[-1] = replace(s[-1], m=2.5)
    places = at_random(s, 19, rng(5))

    def loss(theta: GatoTheta) -> torch.Tensor:
        P = gato(places, theta)
        return -(P[5, 5].log() + 2.5 * P[6, 6].log())  # of the two actions; the text stands first

    expected = theta - 0.1 * grad(loss)(theta)
    assert difference(train([s], ["a"], theta, 1, 0.1, 0.25, rng(5)), expected) <= 1e-14


def test_what_the_loss_does_not_look_at_changes_nothing_by_being_predicted() -> None:
    """With m = 0 on all but one target, the others may be any tokens as long as nothing reads them."""
    theta = theta_g()
    s = [Token("text", 3, 0), Token("act", 5), Token("obs", 8, 0), Token("text", 9, 1, m=0.0)]
    other = [*s[:2], Token("obs", 9, 0), Token("text", 2, 1, m=0.0)]
    one, two = (train([each], ["a"], theta, 1, 0.1, 0.0) for each in (s, other))
    assert difference(one, two) == 0 and difference(one, theta) > 1e-3
    assert difference(train([s[2:]], ["a"], theta, 1, 0.1, 0.0), theta) == 0, "nothing to predict, nothing to learn"


def test_a_prompt_is_the_end_of_another_episode_or_any_part_of_it() -> None:
    theta, s = theta_g(), [Token("text", 1, 0)] * 9
    episode = [Token("text", t, t) for t in range(11)]
    starts = [GatoPrompt(s, [episode], theta, rng(seed)) for seed in range(99)]
    assert all(len(u) == 4 for u in starts)
    firsts = [u[0].x for u in starts]
    assert set(firsts) == set(range(8)) and 0.4 < firsts.count(7) / 99 < 0.75  # ½ + ½ · ⅛
    assert len(GatoPrompt(s, [episode[:2]], theta, rng(0))) == 2
    assert GatoPrompt([Token("text", 1, 0)] * 13, [episode], theta, rng(0)) == []


def test_prompts_come_from_the_same_task_and_by_their_share() -> None:
    theta = theta_g()
    ss = [[Token("text", v, 0), Token("act", 5)] for v in (1, 2, 3)]
    seen: list[list[int]] = []

    def watched(s: Any, theta: GatoTheta) -> torch.Tensor:
        seen.append([each.x for each in s])
        return gato(s, theta)

    GatoTraining(ss, ["a", "a", "b"], theta, 6, 1e-9, 0.5, rng(0), Gato=watched)
    firsts = [x for x in seen if x[-2] == 1]
    assert {len(x) for x in firsts} == {2, 4} and all(x[:2] == [2, 5] for x in firsts if len(x) == 4)
    assert all(x == [3, 5] for x in seen if x[-2] == 3), "it has no other of its task"
    seen.clear()
    GatoTraining(ss[:2], ["a", "a"], theta, 1, 1e-9, 1.0, rng(0), Gato=watched)
    assert [len(x) for x in seen] == [4, 4]


def test_an_image_is_a_prompt_of_algorithm_14() -> None:
    theta = theta_g()
    prompt = [Token("img", p=0, patch=patch(1)), Token("img", p=1, patch=patch(2))]
    y = GatoInference(prompt, theta, 4, 0.0, Gato=gato)
    s = prompt
    for i in range(4):  # the most probable token, with the next index
        assert int(y[i]) == int(gato(s, theta)[:, -1].argmax())
        s = [*s, Token("text", int(y[i]), 2 + i)]
    indices: list[list[int]] = []
    GatoInference(prompt, theta, 4, 0.0, Gato=lambda s, theta: indices.append([each.p for each in s]) or gato(s, theta))
    assert indices[-1] == [0, 1, 2, 3, 4]
    other = GatoInference([replace(prompt[0], patch=patch(7)), prompt[1]], theta, 4, 1.0, rng(0), Gato=gato)
    assert len(other) == 4 and len(GatoInference(prompt, theta, 9, 0.0, stop=int(y[0]), Gato=gato)) == 1
    long = [Token("text", 1, 0)] * 20
    assert GatoInference(long, theta, 1, 0.0, Gato=gato).equal(GatoInference(long[-13:], theta, 1, 0.0, Gato=gato))


class Counter:
    """Shows how often it was acted on, and ends after three times."""

    def __init__(self, actions: tuple[tuple[int, ...], ...] = ((1, 2), (4, 5, 6))) -> None:
        self.actions, self.taken = actions, []  # type: ignore[var-annotated]

    def reset(self) -> list[Token]:
        return [Token("obs", 10, 0), Token("img", p=1, patch=patch(len(self.taken)))]

    def step(self, a: list[int]) -> list[Token] | None:
        self.taken.append(a)
        return None if len(self.taken) == 3 else self.reset()


def test_control_writes_observations_separators_and_actions() -> None:
    theta, env = theta_g(), Counter()
    prompt = [Token("text", 3, 0)]
    s = GatoControl(env, prompt, theta, 0.0, 22, Gato=gato)
    assert [each.kappa for each in s] == ["text", *["obs", "img", "sep", "act", "act"] * 3]
    assert all(each.x == 22 for each in s if each.kappa == "sep")
    actions = [each.x for each in s if each.kappa == "act"]
    assert [actions[i : i + 2] for i in (0, 2, 4)] == env.taken
    for t, each in enumerate(s):  # of its range the most probable, given what stands before it and not the action itself
        if each.kappa == "act":
            allowed = env.actions[1 if s[t - 1].kappa == "act" else 0]
            P = gato(s[:t][-13:], theta)[:, -1]
            assert each.x == max(allowed, key=lambda v: float(P[v]))


def test_samples_of_actions_stay_in_their_range_and_vary() -> None:
    theta = theta_g()
    episodes = [GatoControl(Counter(((0, 21),)), [], theta, 1.0, 22, rng(seed), Gato=gato) for seed in range(8)]
    taken = [[each.x for each in s if each.kappa == "act"] for s in episodes]
    assert {v for each in taken for v in each} == {0, 21}
    assert GatoControl(Counter(((0, 21),)), [], theta, 1.0, 22, rng(3), Gato=gato)[3].x == taken[3][0]


@pytest.mark.usefixtures("unchecked")
def test_bad_input() -> None:
    theta = theta_g()
    with pytest.raises(ValueError, match="env: expected an environment with reset, step and actions, got int"):
        GatoControl(5, [], theta, 1.0, 22, Gato=gato)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="env: expected actions"):
        GatoControl(Counter(()), [], theta, 1.0, 22, Gato=gato)
    with pytest.raises(ValueError, match="env: 𝒜_1: expected one of 0, …, N_V−1 with N_V = 23, got 23"):
        GatoControl(Counter(((1, 23),)), [], theta, 1.0, 22, Gato=gato)
    with pytest.raises(ValueError, match="sep: expected one of 0"):
        GatoControl(Counter(), [], theta, 1.0, 23, Gato=gato)
    with pytest.raises(ValueError, match="E: expected at least one episode, got none"):
        GatoPrompt([Token("text", 1, 0)], [], theta)
    with pytest.raises(ValueError, match=r"p_prompt: expected a number in \[0, 1\], got 1.5"):
        train([sequence()], ["a"], theta, 1, 0.1, 1.5)
    with pytest.raises(ValueError, match="tasks: expected N_data = 1 of them, got 2"):
        train([sequence()], ["a", "b"], theta, 1, 0.1)
    with pytest.raises(ValueError, match="theta: expected a GatoTheta"):
        Gato(sequence(), DTheta.init(N_V=23, ell_max=5, L=1, H=1, d_e=2, d_mlp=3), G=2)  # type: ignore[arg-type]
    assert DTransformer is not Gato
