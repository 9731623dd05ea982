"""transalg presets and transalg verify as a person meets them."""

import json
import re

import pytest
from rich.cells import cell_len

from transalg.hyper import PRESETS, DHyper, EDHyper, cost
from transalg.model import kernels
from transalg.verify.cases import Case, Verdict
from transalg.verify.laws import DECODING, EVERY

pytestmark = pytest.mark.slow


def test_presets_lists_all_with_parameters_and_departures(transalg) -> None:
    status, out, _ = transalg("presets")
    assert status == 0 and max(map(cell_len, out.splitlines())) <= 80
    for name, preset in PRESETS.items():
        row = re.search(rf"^  {re.escape(name)} +([\d,]+) +(\S+) ", out, re.M)
        assert row and row[1] == f"{cost.parameters(preset.hyper):,}" and row[2] == preset.published
    assert "Algorithm 10 (Rae et al. 2021), but norm=RMSnorm, positions=relative, tied" in out
    assert "dropout=0.3" in out and "gpt3-medium: 350 M leaves out W_p" in out


def test_presets_shows_one_with_its_difference_and_cost(transalg) -> None:
    status, out, _ = transalg("presets", "gpt2", "--context", "512", "--batch", "2")
    assert status == 0 and max(map(cell_len, out.splitlines())) <= 80
    assert re.search(r"^activation +GELU +tanh_GELU ", out, re.M) and re.search(r"^tied +False +True ", out, re.M)
    assert "124,439,808 parameters; published: 124M" in out
    assert "With 2 rows of 512 tokens, 4 bytes a number" in out
    assert re.search(r"to train: weights 498 MB, gradients 498 MB", out) and re.search(
        r"to decode: weights 498 MB, keys and values 75.5 MB", out
    )


def test_presets_as_json(transalg) -> None:
    _, out, _ = transalg("presets", "--json")
    assert json.loads(out)["gopher-280b"]["parameters"] == cost.parameters(PRESETS["gopher-280b"].hyper)
    _, out, _ = transalg("presets", "bert-base", "--json", "--bytes", "2", "--context", "100")
    shown = json.loads(out)
    assert shown["departures"]["mask_split"] == [0.8, 0.1, 0.1] and shown["sizes"]["d_f"] == 768
    assert shown["costs"]["bytes to train"]["weights"] == 2 * shown["parameters"] and "bytes to decode" not in shown["costs"]
    assert shown["costs"]["FLOPs per token, forward"] == cost.flops_per_token(PRESETS["bert-base"].hyper, 100)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("presets", "gpt4"), "there is no preset 'gpt4': did you mean gpt2"),
        (("presets", "gpt2", "--context", "1025"), "--context: expected a whole number from 1 to ℓ_max = 1,024, got 1025"),
        (("presets", "gpt2", "--batch", "0"), "--batch: expected a whole number from 1 to 1,000,000,000, got 0"),
        (("verify", "--only", "mamba"), "--only 'mamba': no architecture, variant or preset has a name that contains this"),
    ],
)
def test_refusals(transalg, arguments: tuple[str, ...], message: str) -> None:
    status, out, err = transalg(*arguments)
    assert status == 2 and out == "" and message in err


def test_verify_prints_a_row_for_everything(transalg, monkeypatch: pytest.MonkeyPatch) -> None:
    """How it prints; that every case holds is tested one by one in verify/test_verify.py."""

    def verdict(case: Case, seed: int) -> Verdict:
        laws = dict.fromkeys((*EVERY, *(DECODING if isinstance(case.hyper, DHyper | EDHyper) else ())), 2e-15)
        return Verdict(case, 3e-16, 4e-14, laws)

    monkeypatch.setattr("transalg.verify.cases.verify", verdict)
    status, out, _ = transalg("verify")
    assert status == 0 and max(map(cell_len, out.splitlines())) <= 80
    for name in PRESETS:
        assert re.search(rf"^(?:[DE]+Transformer|Gato) +{re.escape(name)} +\de-\d\d +\de-\d\d +(3 of 3|7 of 7) *$", out, re.M), name
    rows = re.findall(r"^(?:D|E|ED)Transformer|^Classifier|^Gato", out, re.M)
    assert f"{len(rows)} of {len(rows)} within 1e-10" in out and len(rows) >= 40


def test_verify_fails_on_a_wrong_engine(transalg, monkeypatch: pytest.MonkeyPatch) -> None:
    dense = kernels.dense
    monkeypatch.setattr(kernels, "dense", lambda q, k, v, **options: dense(q, k, v, **options | {"causal": False}))
    status, out, _ = transalg("verify", "--only", "gpt2-xl")
    assert status == 1 and "0 of 1 within" in out and re.search(r"not .*cache", out)
    status, out, _ = transalg("verify", "--only", "gpt2-xl", "--json")
    assert status == 1 and json.loads(out)["holds"] is False and json.loads(out)["errors"]["P"] > 1e-3
