"""The command line as a person meets it: what it prints, and how it says no."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from rich.cells import cell_len
from safetensors.torch import load_file, save_file

from transalg.formal import DTheta, DTransformer
from transalg.trace.errata import ERRATA

pytestmark = pytest.mark.slow


def test_algorithm_lists_the_fifteen(transalg) -> None:
    status, out, _ = transalg("algorithm")
    assert status == 0
    listed = re.findall(r"^ +(\d+)  (\w+) ", out, re.M)
    assert [int(number) for number, _ in listed] == list(range(1, 16))
    assert listed[9][1] == "DTransformer" and "P ← DTransformer(x | θ)" in out
    assert max(map(cell_len, out.splitlines())) <= 80


@pytest.mark.parametrize("which", ["10", "DTransformer", "dtransformer"])
def test_algorithm_prints_its_source_with_the_papers_numbers(transalg, which: str) -> None:
    status, out, _ = transalg("algorithm", which)
    assert status == 0
    assert [int(n) for n in re.findall(r"^ ?(\d+) ", out, re.M)] == list(range(1, 12))
    assert "Mask(ell, l)" in out and "X ← X + MHAttention(X̃ | 𝒲_l, Mask[t,t′]=⟦t ≤ t′⟧)" in out
    assert max(map(cell_len, out.splitlines())) <= 80


def test_algorithm_shows_what_the_paper_defines_in_its_text(transalg) -> None:
    _, listed, _ = transalg("algorithm")
    for name in ("softmax", "ReLU", "GELU", "tempered", "unidirectional", "sinusoids", "tied"):
        assert re.search(rf"^{name} ", listed, re.M), name
        status, out, _ = transalg("algorithm", name)
        assert status == 0 and out.startswith(name) and f"def {name}(" in out
        assert max(map(cell_len, out.splitlines())) <= 80
    assert "Mask[t_z,t_x] = ⟦t_z ≤ t_x⟧" in listed
    _, out, _ = transalg("algorithm", "softmax")
    assert "softmax(A)[t_z, t_x] = exp A[t_z, t_x]" in out and "E = torch.exp(" in out and '"""' not in out
    _, out, _ = transalg("algorithm", "Mask")
    assert re.findall(r"^def (\w+)\(", out, re.M) == ["bidirectional", "unidirectional", "banded", "sparse"]


def test_algorithm_says_why(transalg) -> None:
    _, out, _ = transalg("algorithm", "4", "--why")
    assert "A token asks a question" in out and max(map(cell_len, out.splitlines())) <= 80
    assert "A token asks a question" not in transalg("algorithm", "4")[1]


def test_trace_says_why_once_and_what_a_line_reads(transalg) -> None:
    _, out, _ = transalg("trace", "10", "--text", "ab")
    assert out.count("Here tokens learn from each other") == 1 and out.count("from X\u00a016×4, X̃\u00a016×4") == 2
    _, out, _ = transalg("trace", "10", "--text", "ab", "--brief")
    assert "tokens learn" not in out and "from X" not in out


@pytest.mark.parametrize("number", [11, 12, 13])
def test_the_loss_goes_down_by_default(transalg, number: int) -> None:
    """Every step lowers the loss of what it was made for; the line before says the loss of each token."""
    _, out, _ = transalg("trace", str(number), "--json")
    steps = json.loads(out)["steps"]
    losses = [step for step in steps if step["symbol"] == "loss(θ)"]
    updates = [step for step in steps if step["symbol"] == "θ"]
    assert len(losses) == len(updates) == 3
    for loss, update in zip(losses, updates, strict=True):
        (terms,), (gradient, after) = loss["inner"], update["inner"]
        assert sum(terms["value"]) == pytest.approx(loss["value"]) and len(terms["axes"][0]) == len(terms["value"])
        assert gradient["value"]["norm"] > 0 and after["value"] < loss["value"]
    if number != 12:  # whose masks are others in each pass
        assert [loss["value"] for loss in losses[1:]] == [update["inner"][1]["value"] for update in updates[:-1]]
    _, out, _ = transalg("trace", str(number))
    assert "‖∇loss(θ)‖ = " in out and re.search(r"^ +\S+ +█+\S* \d", out, re.M) and "η = " in out


def test_p_and_q_are_shown_with_bars(transalg) -> None:
    _, out, _ = transalg("trace", "14", "--text", "abc", "--tau", "0.5", "--ell-gen", "1", "--json")
    p, y = (next(step for step in json.loads(out)["steps"] if step["line"] == line) for line in (4, 5))
    (q,) = y["inner"]
    squares = [one**2 for one in p["value"]]
    assert q["symbol"] == "q" and q["value"] == pytest.approx([one / sum(squares) for one in squares])
    assert y["operands"][0]["value"] == p["value"] and q["axes"] == p["axes"]
    for number in ("14", "15"):
        _, out, _ = transalg("trace", number, "--text", "abc", "--ell-gen", "1", "--tau", "0.5")
        bars = [len(bar) for bar in re.findall(r"^ +\S+ +(█+)\S* [\d.]+$", out, re.M)]
        assert bars[0] == 32 and bars.count(32) >= 2, "the longest bar of p, and of q"
        assert re.search(r"^ +q ∈ ℝ\^\{N_V\} = 6", out, re.M)


def test_errata(transalg) -> None:
    status, out, _ = transalg("errata")
    assert status == 0 and [int(n) for n in re.findall(r"^ ?(\d+) ", out, re.M)] == list(range(1, len(ERRATA) + 1))
    status, out, _ = transalg("errata", "3")
    assert status == 0 and "divides by √v" in out and "3 return ê = (e − m)/√(v + ε) ⊙ γ + β" in out
    assert max(map(cell_len, out.splitlines())) <= 80


@pytest.mark.parametrize("number", range(1, 16))
def test_trace_shows_every_algorithm(transalg, number: int) -> None:
    status, out, err = transalg("trace", str(number), "--text", "hello", "--depth", "1")
    assert status == 0, err
    assert out.startswith(f"Algorithm {number}  ")
    assert max(map(cell_len, out.splitlines())) <= 80


def test_sizes_are_not_broken_by_a_line(transalg) -> None:
    lines = transalg("trace", "Gato", "--depth", "1")[1].splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("L = "))
    first, second = lines[start : start + 2]
    assert first.endswith(",") and re.fullmatch(r"(\w+ = \d+, )+\w+ = \d+", f"{first} {second}") and max(map(cell_len, lines)) <= 80


def test_trace_shows_shapes_in_symbols_and_numbers(transalg) -> None:
    _, out, _ = transalg("trace", "10", "--text", "my text")
    assert "X ∈ ℝ^{d_e×ℓ} = 16×9" in out
    assert out.count("  4 for l = 1, 2, …, L do") == 2
    assert re.search(r"^ 11 return P = softmax\(W_u X\)", out, re.M)


@pytest.mark.parametrize("name", ["Llama", "Mistral", "Qwen2", "Qwen3", "Gemma", "GPTNeoX"])
def test_trace_shows_today_s_decoders(transalg, name: str) -> None:
    status, out, err = transalg("trace", name, "--text", "hello", "--depth", "2", "--layer", "1")
    assert status == 0, err
    assert out.startswith(f"Variant of Algorithm 10  P ← {name}(x | θ)") and "x = bos h e l l o eos" in out
    assert "X ∈ ℝ^{d_e×ℓ} = 16×7" in out and "P ∈ ℝ^{N_V×ℓ} = 7×7" in out and "S ∈ ℝ^{ℓ_z×ℓ_x} = 7×7" in out
    heads = "MHAttention" if name == "GPTNeoX" else "GroupedMHAttention"
    assert f"{name}, line 6, l = 1" in out and heads in out and max(map(len, out.splitlines())) <= 80
    assert ("H_kv = 1" in " ".join(out.split())) == (name != "GPTNeoX")


def test_trace_writes_a_page_of_a_system(transalg, tmp_path: Path) -> None:
    file = tmp_path / "llama.html"
    status, out, err = transalg("trace", "Llama", "--text", "hello", "--H", "4", "--H-kv", "2", "--depth", "2", "--html", str(file))
    assert status == 0, err
    assert "of Variant of Algorithm 10" in out and "RotaryAttention" in file.read_text(encoding="utf-8")


def test_trace_narrows(transalg) -> None:
    _, out, _ = transalg("trace", "10", "--text", "my text", "--layer", "2", "--lines", "5-6,11", "--depth", "2")
    assert re.findall(r"^ +(\d+) (?!.*∈ ℝ).*(?:X̃\[:,t\] ←|X ← X|return P)", out, re.M) == ["5", "6", "11"]
    assert "Algorithm 10, line 6, l = 2 → Algorithm 5, line 1, h = 2 → Algorithm 4" in " ".join(out.split())


def test_trace_as_json(transalg) -> None:
    status, out, _ = transalg("trace", "10", "--text", "hi", "--json")
    data = json.loads(out)
    assert status == 0 and data["steps"][-1]["symbol"] == "P"
    assert data["steps"][-1]["shape"] == [len(data["vocabulary"]), 4]


def test_trace_on_a_given_theta(transalg, tmp_path: Path) -> None:
    """θ saved by one trace and given to another is the same θ, and the formal algorithm agrees."""
    file = str(tmp_path / "theta.safetensors")
    _, first, _ = transalg("trace", "10", "--text", "hello", "--seed", "5", "--save-theta", file, "--json")
    _, again, _ = transalg("trace", "10", "--text", "hello", "--theta", file, "--json")
    assert json.loads(first)["steps"] == json.loads(again)["steps"]
    theta = DTheta.from_named(load_file(file))
    _, out, _ = transalg("trace", "10", "--tokens", "5 0 1", "--theta", file, "--json")
    P = json.loads(out)["steps"][-1]["value"]
    assert P[2][1] == pytest.approx(float(DTransformer([5, 0, 1], theta)[2, 1]), rel=1e-4)


def test_trace_writes_a_page(transalg, tmp_path: Path) -> None:
    file = tmp_path / "trace.html"
    status, out, _ = transalg("trace", "12", "--text", "hello", "--html", str(file))
    assert status == 0 and str(file) in out.replace("\n", "")
    assert "ETraining" in file.read_text(encoding="utf-8")


def test_sampling_options_reach_the_algorithm(transalg) -> None:
    _, out, _ = transalg("trace", "14", "--text", "ab", "--ell-gen", "3", "--tau", "0", "--json")
    tokens = [step["value"] for step in json.loads(out)["steps"] if step["line"] == 5]
    assert len(tokens) == 3
    _, again, _ = transalg("trace", "14", "--text", "ab", "--ell-gen", "3", "--tau", "0", "--json")
    assert again == out


REFUSED = {
    "there is no algorithm '99': expected a number from 1 to 15, or a name": ("algorithm", "99"),
    "there is no algorithm 'qwxyz': expected a number from 1 to 15, or a name": ("trace", "qwxyz"),
    "did you mean Attention": ("trace", "Atention"),
    "did you mean softmax?": ("algorithm", "sofmax"),
    "there is no erratum '99': expected a number from 1 to 21": ("errata", "99"),
    "RMSnorm is no algorithm of the paper": ("trace", "RMSnorm"),
    "theta: expected H_kv to divide H = 2, got 3": ("trace", "Llama", "--H-kv", "3"),
    "--w: expected a whole number from 1 to 1,000,000, got 0": ("trace", "Mistral", "--w", "0"),
    "d_rot: expected an even number": ("trace", "Qwen3", "--d-e", "2"),
    "nowhere.safetensors: expected a safetensors file of θ": (
        "trace",
        "10",
        "--theta",
        "nowhere.safetensors",
    ),
    "--lines: expected whole numbers like \"5-8\", got 'a-b'": ("trace", "10", "--lines", "a-b"),
    "--lines: expected lines of Algorithm 10, 1 to 11, got 12": ("trace", "10", "--lines", "12"),
    "--depth: expected 0 or more, got -1": ("trace", "10", "--depth", "-1"),
    "--layer: expected 1 to 2, and lines in the loop over layers, got 7": (
        "trace",
        "10",
        "--layer",
        "7",
        "--lines",
        "6",
    ),
    "--layer: expected 1 to 2, and lines in the loop over layers, got 0": ("trace", "10", "--layer", "0"),
    "--layer: Algorithm 14 has no loop over layers down to --depth 0": ("trace", "14", "--layer", "1"),
    "--lines: expected whole numbers like": ("trace", "10", "--lines", "8-5"),
    "--lines: expected whole numbers like \"5-8\", got '1-9999999999'": ("trace", "10", "--lines", "1-9999999999"),
    "--lines: line 9 of Algorithm 10 is an end": ("trace", "10", "--lines", "9"),
    "--tokens: expected IDs up to 9999": ("trace", "10", "--tokens", "123456"),
    "--context: expected whole numbers": ("trace", "8", "--tokens", "1 2", "--context", "ab"),
    "--tokens: expected whole numbers": ("trace", "10", "--tokens", "1 x"),
    "x: expected at least one token": ("trace", "10", "--tokens", ""),
    "H: expected a divisor of d_e = 16": ("trace", "10", "--H", "3"),
    "--d-e: expected a whole number from 1 to 1,000, got 0": ("trace", "10", "--d-e", "0"),
    "tau: expected a number in [0, ∞], got -1.0": ("trace", "14", "--tau", "-1"),
    "--p-mask: expected a number in (0, 1), got 2.0": ("trace", "12", "--p-mask", "2"),
    "no/such/trace.html: expected a file in a folder that exists": (
        "trace",
        "10",
        "--html",
        "no/such/trace.html",
    ),
    "expected a file in a folder that exists": ("trace", "10", "--html", "."),
    "--train.lr: there is no such option; did you mean --train.eta?": ("train", "lm", "--train.lr", "3"),
    "--learning-rate: there is no such option; did you mean --train.eta?": ("train", "lm", "--learning-rate=3"),
    "--model.d_model: there is no such option; did you mean --model.d-e?": ("train", "lm", "--model.d_model", "3"),
    "--train.dropout: there is no such option; did you mean --model.dropout?": ("train", "lm", "--train.dropout", "0"),
    "--batch-size: there is no such option; did you mean --train.batch-size?": ("train", "--batch-size", "3", "lm"),
    "--temperature: there is no such option; did you mean --tau?": ("generate", "runs/x", "--temperature", "0"),
    "--num-beams: there is no such option; did you mean --beams?": ("evaluate", "runs/x", "--num-beams", "3"),
}


@pytest.mark.parametrize("message", REFUSED)
def test_a_mistake_gets_a_line_and_status_2(transalg, message: str) -> None:
    status, out, err = transalg(*REFUSED[message])
    assert status == 2 and out == ""
    assert message in err.replace("\n", " ") and "Traceback" not in err
    assert err.startswith("transalg: ")


def test_a_theta_that_does_not_fit_is_named(transalg, tmp_path: Path) -> None:
    damaged, other, small, encoder = (tmp_path / f"{name}.safetensors" for name in ("damaged", "other", "small", "encoder"))
    damaged.write_bytes(b"not a tensor in sight")
    theta = DTheta.init(N_V=5, ell_max=7, L=1, H=1, d_e=2, d_mlp=3)
    save_file({"W_e": theta.W_e.contiguous()}, other)
    save_file({name: part.contiguous() for name, part in theta.named().items()}, small)
    save_file(
        {name: part.contiguous() for name, part in (theta.named() | {"W_f": theta.W_u.clone()}).items()},
        encoder,
    )
    for file, message in (
        (damaged, "expected a safetensors file of θ"),
        (other, "expected W_p among the parts of a DTheta"),
        (encoder, "which it does not have"),
        (small, "the text has 3 different characters"),
    ):
        status, _, err = transalg("trace", "10", "--text", "abc", "--theta", str(file))
        assert status == 2 and message in err.replace("\n", " ") and file.name in err


def test_nothing_is_written_when_it_fails(transalg, tmp_path: Path) -> None:
    page, theta = tmp_path / "page.html", tmp_path / "theta.safetensors"
    transalg("trace", "14", "--tau", "-1", "--html", str(page), "--save-theta", str(theta))
    assert not page.exists() and not theta.exists()


def test_bad_options_are_refused_by_the_parser() -> None:
    for arguments in (["trace"], ["nope"], ["trace", "10", "--nope"], ["trace", "10", "--seed", "x"]):
        done = subprocess.run([sys.executable, "-m", "transalg", *arguments], capture_output=True, text=True, check=False)
        assert done.returncode == 2 and "Traceback" not in done.stderr


def test_version() -> None:
    done = subprocess.run([sys.executable, "-m", "transalg", "--version"], capture_output=True, text=True, check=True)
    assert re.fullmatch(r"transalg \d+\.\d+\.\d+\n", done.stdout)


def test_trace_says_what_it_runs_on(transalg) -> None:
    _, out, _ = transalg("trace", "14", "--text", "a b", "--ell-gen", "1")
    assert "x = bos a ␣ b   (IDs 4 1 0 2)" in out
    assert re.search(r"y = \d   \((?:\w+|␣)\)", out)
    _, out, _ = transalg("trace", "4", "--text", "ab")
    assert "Mask[t_z,t_x] = ⟦t_z ≤ t_x⟧" in out
    _, out, _ = transalg("trace", "4", "--text", "ab", "--context", "c")
    assert "Mask ≡ 1" in out and "Z = those of bos c eos" in out
    _, out, _ = transalg("trace", "8", "--tokens", "1 2", "--context", "3 0 1")
    assert "z = 3 0 1   (IDs 3 0 1)" in out


def test_attention_weights_are_shown(transalg) -> None:
    _, out, _ = transalg("trace", "4", "--text", "ab", "--json")
    *_, last = json.loads(out)["steps"]
    (inner,) = last["inner"]
    A = inner["value"]
    assert inner["dims"] == ["ℓ_z", "ℓ_x"] and inner["symbol"] == "softmax(S / √d_attn)"
    assert [sum(column) for column in zip(*A, strict=True)] == pytest.approx([1] * 4, abs=1e-4)
    assert all(A[z][x] == 0 for z in range(4) for x in range(z))


def test_positions_count_from_1_as_in_the_paper(transalg) -> None:
    _, out, _ = transalg("trace", "12", "--text", "ab", "--p-mask", "0.999999")
    assert "T̃ = {2, 3}" in out


def test_trained_theta_is_what_is_saved(transalg, tmp_path: Path) -> None:
    """Train with Algorithm 13, prompt with Algorithm 14: --save-theta hands θ̂ on."""
    before, after = (str(tmp_path / name) for name in ("before.safetensors", "after.safetensors"))
    transalg("trace", "10", "--text", "abab", "--save-theta", before)
    transalg("trace", "13", "--text", "abab", "--N-epochs", "3", "--save-theta", after)
    assert not load_file(before)["W_u"].equal(load_file(after)["W_u"])
    status, _, err = transalg("trace", "14", "--text", "ab", "--ell-gen", "2", "--theta", after)
    assert status == 0, err


def test_a_reader_that_stops_reading_is_no_error() -> None:
    done = subprocess.run(
        f"{sys.executable} -m transalg trace 10 --text hello --depth 2 | head -1",
        shell=True,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.startswith("Algorithm 10") and done.stderr == ""


def test_a_departure_from_the_paper_names_its_erratum(transalg) -> None:
    _, out, _ = transalg("trace", "15", "--text", "ab", "--lines", "2")
    assert "y ← 0  (erratum 10)" in out and "y = −1" in out
    _, out, _ = transalg("algorithm", "15")
    assert "y ← 0  (erratum 10)" in out


def test_json_has_every_digit(transalg, tmp_path: Path) -> None:
    file = str(tmp_path / "theta.safetensors")
    _, out, _ = transalg("trace", "10", "--text", "hi", "--json", "--save-theta", file)
    data = json.loads(out)
    assert data["steps"][-1]["value"] == DTransformer(data["inputs"]["x"], DTheta.from_named(load_file(file))).tolist()


@pytest.mark.parametrize("option", ["--html", "--save-theta"])
def test_a_file_that_cannot_be_written_is_named(transalg, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option: str) -> None:
    """As on a full disk: one line, status 2, and what was there before is still there."""
    from safetensors import SafetensorError

    from transalg.trace import example

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device") if option == "--html" else SafetensorError("No space left on device")

    target = tmp_path / "old"
    target.write_bytes(b"old")
    monkeypatch.setattr(*((os, "fsync") if option == "--html" else (example, "save_file")), full)
    status, out, err = transalg("trace", "10", "--text", "hi", option, str(target))
    assert (status, out) == (2, "") and "old: cannot be written: No space left on device" in err
    assert target.read_bytes() == b"old" and list(tmp_path.iterdir()) == [target]
