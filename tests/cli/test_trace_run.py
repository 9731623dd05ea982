"""transalg trace --run: the trained model's own function, its vocabulary, its heads."""

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.cells import cell_len
from torch.testing import assert_close

from tests.tolerance import PROMISED
from tests.trace.test_page import data_of, values
from tests.training.runs import files, options
from transalg.cli import main
from transalg.cli.generate import Generate
from transalg.cli.predict import Predict
from transalg.inference.run import Run

pytestmark = pytest.mark.slow

RUNS: dict[str, tuple[str, dict[str, Any]]] = {
    "lm": ("lm", {"L": 2, "positions": "learned"}),
    "mlm": ("mlm", {"positions": "learned"}),
    "seq2seq": ("seq2seq", {"L_enc": 2, "positions": "learned"}),
    "classify": ("classify", {}),
    "gopher": ("lm", {"L": 2, "positions": "relative", "norm": "RMSnorm", "activation": "tanh_GELU", "eps": 0.001}),
    "gpt1": ("lm", {"L": 2, "positions": "learned", "norm_first": False, "band": 3, "scaled": True, "d_attn": 3, "d_mid": 7}),
    "llama": (
        "lm",
        {"L": 2, "positions": "rotary", "H_kv": 1, "activation": "SwiGLU", "norm": "RMSnorm", "bias": "none", "d_attn": 6, "d_mid": 5},
    ),
    "qwen3": (
        "lm",
        {"L": 2, "positions": "rotary", "d_rot": 4, "qk_norm": True, "activation": "GEGLU", "bias": "qkv", "d_attn": 6, "d_mid": 5},
    ),
    "bert": ("mlm", {"positions": "learned", "embedding_norm": True, "output_bias": True, "segments": 2, "tied": True}),
    "prenorm": ("seq2seq", {"norm_first": True, "positions": "sinusoids", "activation": "GELU"}),
    "bertclass": ("classify", {"embedding_norm": True, "norm_first": True, "d_f": 7}),
}
CALLS = {  # the algorithm of a task, and what to type for it
    "lm": ("10", ["--prompt", "a cat on"]),
    "mlm": ("9", ["--prompt", "a <mask>at"]),
    "seq2seq": ("8", ["--context", "a cat", "--prompt", "tac"]),
    "classify": ("9", ["--prompt", "the zebra cat"]),
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of three steps for each, by the command."""
    folder = files(tmp_path_factory.mktemp("trace"))
    for name, (task, model) in RUNS.items():
        settings = options(task, folder, model, steps=3) | ({"tokenizer": "word"} if task == "classify" else {})
        flags = [f"--{key.replace('_', '-')}={value}" for key, value in settings.items() if key not in ("task", "model", "train")]
        flags += [f"--{table}.{key.replace('_', '-')}={value}" for table in ("model", "train") for key, value in settings[table].items()]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "argv", ["transalg", "train", task, "--out", str(folder / name), *flags])
            main()
    return folder


def engine(run: Path, *sequences: list[int]) -> torch.Tensor:
    """P of the run's model on these tokens, in float64: N_V × ℓ, or N_C."""
    with torch.no_grad():
        logits = Run.load(run).model.double()(*(torch.tensor([ids]) for ids in sequences))[0]
    P = torch.softmax(logits, dim=-1)
    return P if P.ndim == 1 else P.T


def traced(transalg: Any, *arguments: object) -> dict[str, Any]:
    status, out, err = transalg("trace", *map(str, arguments), "--json")
    assert status == 0, err
    return json.loads(out)


def last(data: dict[str, Any], symbol: str = "P") -> torch.Tensor:
    return torch.tensor([step["value"] for step in data["steps"] if step["symbol"] == symbol][-1], dtype=torch.float64)


@pytest.mark.parametrize("name", RUNS)
def test_the_traced_P_is_the_models_own(name: str, runs: Path, transalg: Any) -> None:
    task = RUNS[name][0]
    number, typed = CALLS[task]
    data = traced(transalg, number, "--run", runs / name, *typed)
    sequences = [data["inputs"][symbol] for symbol in ("z", "x") if symbol in data["inputs"]]
    P = last(data, "p" if task == "classify" else "P")
    assert_close(P, engine(runs / name, *sequences), rtol=0, atol=PROMISED)
    step = data["steps"][-1]
    assert step["axes"][0] == (["cat", "other"] if task == "classify" else data["vocabulary"])
    for departure in RUNS[name][1].keys() & {"band", "scaled", "norm", "activation", "positions", "eps", "embedding_norm"}:
        departs = RUNS[name][1][departure] != "learned"
        assert (departure in data["inputs"]["θ"]) == departs, "what departs from the numbered lines is said"


def test_the_tokens_are_the_tokenizers(runs: Path, transalg: Any) -> None:
    def written(data: dict[str, Any], symbol: str) -> str:
        return " ".join(data["vocabulary"][v] for v in data["inputs"][symbol])

    assert written(traced(transalg, 10, "--run", runs / "lm", "--prompt", "at a"), "x") == "bos a t   a"
    assert written(traced(transalg, 10, "--run", runs / "lm", "--text", "at"), "x") == "bos a t"
    assert written(traced(transalg, 13, "--run", runs / "lm", "--prompt", "at"), "x_1") == "bos a t eos"
    assert written(traced(transalg, 9, "--run", runs / "mlm", "--prompt", "<mask>t"), "x") == "bos mask t eos"
    assert written(traced(transalg, 9, "--run", runs / "classify", "--prompt", "the zebra cat"), "x") == "bos the <unk> cat eos"
    both = traced(transalg, 8, "--run", runs / "seq2seq", "--context", "at", "--prompt", "t")
    assert (written(both, "z"), written(both, "x")) == ("bos a t eos", "bos t")
    assert any(["bos", "a", "t", "eos"] in (step.get("axes") or []) for step in both["steps"])
    assert traced(transalg, 10, "--run", runs / "lm", "--tokens", "3 1")["inputs"]["x"] == [3, 1]


@pytest.mark.parametrize("name", ["lm", "gopher", "gpt1", "llama", "qwen3"])
def test_algorithm_14_continues_the_prompt(name: str, runs: Path, transalg: Any) -> None:
    data = traced(transalg, 14, "--run", runs / name, "--prompt", "a cat", "--tau", "0", "--ell-gen", "3")
    x = data["inputs"]["x"]
    for P, y in zip(
        [step["value"] for step in data["steps"] if step["symbol"] == "P"],
        [step["value"] for step in data["steps"] if step["line"] == 5],
        strict=True,
    ):
        expected = engine(runs / name, x)
        assert_close(torch.tensor(P, dtype=torch.float64), expected, rtol=0, atol=PROMISED)
        assert y == int(expected[:, -1].argmax())
        x = [*x, y]
    assert data["steps"][-1]["value"] == x[len(data["inputs"]["x"]) :]


def test_a_prompt_longer_than_the_model_is_for_algorithm_14(runs: Path, transalg: Any) -> None:
    data = traced(transalg, 14, "--run", runs / "lm", "--prompt", "cat " * 9, "--ell-gen", "1")
    assert_close(last(data), engine(runs / "lm", data["inputs"]["x"][-29:]), rtol=0, atol=PROMISED)


@pytest.mark.parametrize("name", ["seq2seq", "prenorm"])
@pytest.mark.parametrize("option", ["--context", "--prompt"])
def test_algorithm_15_reads_z(name: str, option: str, runs: Path, transalg: Any) -> None:
    data = traced(transalg, 15, "--run", runs / name, option, "a cat", "--tau", "0", "--ell-gen", "2")
    x = data["steps"][-1]["value"]
    assert_close(last(data), engine(runs / name, data["inputs"]["z"], x[:-1]), rtol=0, atol=PROMISED)


def test_without_options_it_decodes_like_generate_and_predict(runs: Path, transalg: Any) -> None:
    """Their τ; predictions end at eos_token or ℓ_max, and texts at eos_token."""
    assert traced(transalg, 14, "--run", runs / "lm", "--prompt", "a cat")["inputs"]["τ"] == f"{Generate.tau:g}"
    data = traced(transalg, 15, "--run", runs / "seq2seq", "--context", "a cat")
    assert data["inputs"]["τ"] == f"{Predict.tau:g}" == "0"
    run = Run.load(runs / "seq2seq")
    x, eos = data["steps"][-1]["value"], run.model.theta().eos_token
    assert x[-1] == eos or len(x) == run.model.hyper.ell_max + 1
    assert run.tokenizer.decode([v for v in x[1:] if v != eos]) == run.predict("a cat")
    assert traced(transalg, 15, "--run", runs / "seq2seq", "--context", "a cat", "--tau", "0.5")["inputs"]["τ"] == "0.5"


def test_the_default_eta_descends_on_a_run(runs: Path, transalg: Any) -> None:
    data = traced(transalg, 13, "--run", runs / "lm", "--prompt", "a cat")
    losses = [step["value"] for step in data["steps"] if step["symbol"] == "loss(θ)"]
    assert len(losses) == 3 and losses == sorted(losses, reverse=True)


@pytest.mark.parametrize(
    ("name", "number", "symbols"),
    [
        ("lm", 13, ["x_1"]),
        ("gpt1", 13, ["x_1"]),
        ("llama", 13, ["x_1"]),
        ("bert", 12, ["x_1"]),
        ("prenorm", 11, ["z_1", "x_1"]),
        ("seq2seq", 11, ["z_1", "x_1"]),
    ],
)
def test_training_starts_from_the_run(name: str, number: int, symbols: list[str], runs: Path, transalg: Any, tmp_path: Path) -> None:
    """P(θ) before the first step is the model's, and the step changes θ."""
    typed = ["--prompt", "a cat", *(["--context", "tac"] if "z_1" in symbols else [])]
    before, after = tmp_path / "before.safetensors", tmp_path / "after.safetensors"
    data = traced(transalg, number, "--run", runs / name, *typed, "--p-mask", "0.9", "--N-epochs", 1, "--save-theta", after)
    sequences = [data["inputs"][symbol] for symbol in symbols]
    if number == 12:
        sequences = [[step["value"] for step in data["steps"] if step["line"] == 5][-1]]  # x̃, with its masks
        assert len(data["vocabulary"]) - 3 in sequences[0]
    assert_close(last(data, "P(θ)"), engine(runs / name, *sequences), rtol=0, atol=PROMISED)
    theta, trained = ([step["value"] for step in data["steps"] if step["symbol"] == "θ"][-1], data["steps"][-1]["value"])
    traced(transalg, 1, "--run", runs / name, *typed[:2], "--save-theta", before)
    from safetensors.torch import load_file

    assert theta == trained and not load_file(before)["W_e"].equal(load_file(after)["W_e"])


@pytest.mark.parametrize("name", RUNS)
def test_components_run_on_the_runs_parameters(name: str, runs: Path, transalg: Any) -> None:
    run = Run.load(runs / name)
    theta, hyper = run.model.theta(), run.model.hyper
    typed = ["--run", runs / name, "--prompt", "cat"]
    data = traced(transalg, 1, *typed)
    scale = hyper.d_e**0.5 if hyper.scaled else 1
    assert_close(torch.tensor(data["steps"][-1]["value"]).double(), scale * theta.W_e[:, data["inputs"]["v"][0]])
    refused = {"gopher": (2, 3), "llama": (2, 3), "qwen3": (2, 3), "classify": (7,), "bertclass": (7,), "bert": (7,)}.get(name, ())
    for number in range(2, 8):
        status, out, err = transalg("trace", str(number), *map(str, typed))
        assert status == (2 if number in refused else 0), err
        assert ("does not fit this model" in err) == (number in refused)
    _, out, _ = transalg("trace", "6", *map(str, typed))
    assert ("RMSnorm" in out) == (hyper.norm == "RMSnorm")
    _, out, _ = transalg("trace", "5", *map(str, typed), "--depth", "1")
    assert ("RelativeAttention" in out) == (hyper.positions == "relative")
    assert ("RotaryAttention" in out) == (name == "llama") and ("NormedAttention" in out) == (name == "qwen3")
    assert ("⟦t_z ≤ t_x⟧" in out) == (run.task == "lm"), "encoders attend to everything"


REFUSED: dict[str, tuple[str, list[str]]] = {
    "Algorithm 8 does not fit a model for lm; Algorithms 1–7, 10, 13, 14 do": ("lm", ["8", "--prompt", "a"]),
    "Algorithm 10 does not fit a model for seq2seq; Algorithms 1–7, 8, 11, 15 do": ("seq2seq", ["10", "--prompt", "a"]),
    "Algorithm 12 does not fit a model for classify; Algorithms 1–6, 9 do": ("classify", ["12", "--prompt", "a"]),
    "Algorithm 15 does not fit a model for mlm; Algorithms 1–7, 9, 12 do": ("mlm", ["15", "--prompt", "a"]),
    "Algorithm 2 does not fit this model for lm: it has no W_p": ("gopher", ["2", "--prompt", "a"]),
    "Algorithm 2 does not fit this model for lm: it has no W_p, for its positions are rotary": ("llama", ["2", "--prompt", "a"]),
    "Algorithm 3 does not fit this model for lm: it has no heads as Algorithm 3 has them": ("llama", ["3", "--prompt", "a"]),
    "Llama is no algorithm of the paper: expected a number from 1 to 15 or its name; without --run": ("llama", ["Llama", "--prompt", "a"]),
    "--prompt: the vocabulary of --run does not have é ⏎": ("lm", ["10", "--prompt", "é\na"]),
    "--text: the vocabulary of --run does not have ! ?": ("lm", ["10", "--text", "a!?"]),
    "--context: the vocabulary of --run does not have !": ("seq2seq", ["8", "--prompt", "a", "--context", "!"]),
    "--prompt: the vocabulary of --run does not have <": ("lm", ["10", "--prompt", "<mask>"]),
    "--prompt: expected at most ell_max = 29 tokens with bos, got 31": ("lm", ["10", "--prompt", "a" * 30]),
    "--context: expected at most ell_max = 29 tokens with bos and eos, got 42": ("seq2seq", ["15", "--context", "a" * 40]),
    "--prompt: expected a text for the model of --run, got nothing": ("lm", ["10"]),
    "--context: expected z, the text that the model reads, got nothing": ("seq2seq", ["8", "--prompt", "a"]),
    "--prompt: Algorithm 15 writes x itself": ("seq2seq", ["15", "--prompt", "a", "--context", "a"]),
    "--prompt: the same as --text, expected one of them, got both": ("lm", ["10", "--prompt", "a", "--text", "a"]),
    "--tokens: x as token IDs instead of a text": ("lm", ["10", "--prompt", "a", "--tokens", "1"]),
    "x: expected token IDs in V": ("lm", ["10", "--tokens", "999"]),
    "--theta: --run has a θ of its own": ("lm", ["10", "--prompt", "a", "--theta", "theta.safetensors"]),
    "sizes of a random θ; those of --run are its own": ("lm", ["10", "--prompt", "a", "--d-e", "8"]),
    "--lines: expected lines of Variant of Algorithm 10, 1 to 7, got 8": ("gpt1", ["10", "--prompt", "a", "--lines", "8"]),
    "expected the folder of a run, there is none": ("nowhere", ["10", "--prompt", "a"]),
    "there is no trained model in this folder": (".", ["10", "--prompt", "a"]),
}


@pytest.mark.parametrize("message", REFUSED)
def test_a_mistake_gets_a_line_and_status_2(message: str, runs: Path, transalg: Any) -> None:
    name, typed = REFUSED[message]
    status, out, err = transalg("trace", *typed, "--run", str(runs / name))
    assert status == 2 and out == "" and message in err and "Traceback" not in err
    assert err.startswith("transalg: ") and err.count("\n") == 1


@pytest.mark.parametrize("name", RUNS)
def test_the_page_has_the_weights_of_every_head(name: str, runs: Path, transalg: Any, tmp_path: Path) -> None:
    """Without --depth: for every layer and head a matrix with tokens on both axes whose columns add up to 1; no norms of single tokens."""
    number, typed = CALLS[RUNS[name][0]]
    file = tmp_path / "trace.html"
    assert transalg("trace", number, "--run", str(runs / name), *typed, "--html", str(file))[0] == 0
    data = data_of(file.read_text(encoding="utf-8"))
    sequences = {symbol: [data["vocabulary"][v] for v in data["inputs"][symbol]] for symbol in ("z", "x") if symbol in data["inputs"]}
    x, z = sequences["x"], sequences.get("z", sequences["x"])
    axes = []
    for step in data["steps"]:
        assert "norm" not in step["algorithm"].lower().replace("normedattention", "").replace("pre_norm", "").replace(
            "post_norm", ""
        ).replace("prenorm", "")
        for inner in step["inner"]:
            weights = values(inner)
            assert_close(weights.sum(dim=0), torch.ones(weights.shape[1]))
            axes.append((step["passes"]["h"], *inner["axes"]))
    layers = [(x, x)] * RUNS[name][1].get("L", 1)
    if "z" in sequences:
        layers = [(z, z)] * RUNS[name][1].get("L_enc", 1) + [(x, x), (z, x)]
    assert axes == [(h, *along) for along in layers for h in (1, 2)]


def test_the_terminal_says_what_is_most_probable(runs: Path, transalg: Any) -> None:
    status, out, _ = transalg("trace", "10", "--run", str(runs / "lm"), "--prompt", "a cat ")
    assert status == 0 and max(map(cell_len, out.splitlines())) <= 80
    data = traced(transalg, 10, "--run", runs / "lm", "--prompt", "a cat ")
    best = data["vocabulary"][int(last(data)[:, -1].argmax())]
    said = re.findall(r"^ +␣ → (\S+) 0\.\d+, ", out, re.M)
    assert said == [best.replace(" ", "␣")] and "x = bos a ␣ c a t ␣ " in out
    _, out, _ = transalg("trace", "9", "--run", str(runs / "mlm"), "--prompt", "a <mask>a<mask>")
    assert len(re.findall(r"^ +mask → ", out, re.M)) == 2
    _, out, _ = transalg("trace", "9", "--run", str(runs / "classify"), "--prompt", "a cat")
    assert len(re.findall(r"^ +(?:cat|other) +█.* 0\.\d+$", out, re.M)) == 2


def test_layers_and_lines_narrow_it(runs: Path, transalg: Any, tmp_path: Path) -> None:
    file = tmp_path / "trace.html"
    typed = ["--run", str(runs / "lm"), "--prompt", "a", "--layer", "2", "--lines", "6", "--html", str(file)]
    assert transalg("trace", "10", *typed)[0] == 0
    steps = data_of(file.read_text(encoding="utf-8"))["steps"]
    assert [step["passes"] for step in steps if step["depth"] == 0] == [{"l": 2}] and sum(bool(step["inner"]) for step in steps) == 2
    assert transalg("trace", "10", *typed, "--depth", "0")[0] == 0
    assert len(data_of(file.read_text(encoding="utf-8"))["steps"]) == 1, "--depth counts more"
