"""CTranslate2 loads what we write, and its Generator, Translator and Encoder compute the same."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import transalg
from tests.interop.runs import random_run
from tests.interop.test_import import tiny
from tests.interop.test_vocabulary import bert_files, qwen_files
from transalg.inference.run import Run
from transalg.interop.load import import_checkpoint
from transalg.interop.save import export_run

ct2 = pytest.importorskip("ctranslate2", reason="ctranslate2 is not installed: pip install -e '.[test]'")

ROTARY = {"positions": "rotary", "d_e": 12}
RUNS: dict[str, tuple[str, dict[str, Any]]] = {
    "gpt2": ("lm", {"activation": "tanh_GELU", "tied": True}),
    "as in the paper": ("lm", {}),
    "llama": ("lm", ROTARY | {"norm": "RMSnorm", "activation": "SwiGLU", "bias": "none", "H_kv": 1, "rotary_scaling": (2.0,)}),
    "gemma": ("lm", ROTARY | {"norm": "RMSnorm_1p", "activation": "tanh_GEGLU", "bias": "none", "scaled": True, "tied": True}),
    "qwen3": ("lm", ROTARY | {"norm": "RMSnorm", "activation": "SwiGLU", "bias": "qkv", "qk_norm": True, "d_attn": 8, "d_mid": 8}),
    "neox": ("lm", ROTARY | {"parallel": True, "d_rot": 4}),
    "shared": ("lm", {"shared": 2, "positions": "sinusoids"}),
    "seq2seq": ("seq2seq", {"norm_first": True, "tied": True}),
    "marian": ("seq2seq", {"positions": "split_sinusoids", "activation": "SiLU", "scaled": True, "tied": True, "output_bias": True}),
}


def exported(folder: Path, out: Path, **options: Any) -> tuple[Run, list[str]]:
    export_run(folder, "ctranslate2", out, **options)
    run = transalg.load(folder)
    return run, [run.tokenizer.core.id_to_token(one) or f"<unused {one}>" for one in range(run.model.hyper.N_V)]


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, (task, _) in RUNS.items() if task == "lm"])
def test_the_generator(name: str, tmp_path: Path) -> None:
    task, model = RUNS[name]
    run, names = exported(random_run(tmp_path / "run", task, **model), tmp_path / "out")
    peer = ct2.Generator(str(tmp_path / "out"), device="cpu", compute_type="float32", intra_threads=1)
    ids = run.prompt_ids("a cat sat")
    theirs = np.array(peer.forward_batch([[names[one] for one in ids]]))
    with torch.no_grad():
        ours = run.model(torch.tensor([ids])).numpy()
    assert np.abs(theirs - ours).max() <= 2e-5 * np.abs(ours).max()
    (answer,) = peer.generate_batch([[names[one] for one in ids]], max_length=7, sampling_topk=1, include_prompt_in_result=False)
    assert answer.sequences_ids[0] == run.completions(["a cat sat"], tau=0, ell_gen=7)[0][0].ids


@pytest.mark.slow
@pytest.mark.parametrize("name", ["seq2seq", "marian", "imported"])
def test_the_translator(name: str, tmp_path: Path) -> None:
    if name == "imported":
        source = tiny("marian", tmp_path / "source", qwen_files, decoder_start_token_id=5)
        import_checkpoint(str(source), tmp_path / "run")
    else:
        random_run(tmp_path / "run", RUNS[name][0], **RUNS[name][1])
    run, names = exported(tmp_path / "run", tmp_path / "out")
    peer = ct2.Translator(str(tmp_path / "out"), device="cpu", compute_type="float32", intra_threads=1)
    (z,) = run.encode_all(["a cat sat"], "input", too_long="error", context=True)
    (answer,) = peer.translate_batch([[names[one] for one in z]], beam_size=1, max_decoding_length=7, min_decoding_length=0)
    ours = run.predictions(["a cat sat"], ell_gen=7)[0][0].ids
    assert answer.hypotheses[0] == [names[one] for one in ours]


@pytest.mark.slow
def test_the_encoder(tmp_path: Path) -> None:
    import_checkpoint(str(tiny("bert bare", tmp_path / "source", bert_files)), tmp_path / "run")
    run, names = exported(tmp_path / "run", tmp_path / "out")
    peer = ct2.Encoder(str(tmp_path / "out"), device="cpu", compute_type="float32", intra_threads=1)
    ids = run.encode("the cat", "text")
    theirs = np.array(peer.forward_batch([[names[one] for one in ids]], token_type_ids=[[0] * len(ids)]).last_hidden_state)
    with torch.no_grad():
        ours = run.model.encode(torch.tensor([ids]))[0].numpy()
    assert np.abs(theirs[0] - ours).max() <= 1e-5


@pytest.mark.slow
def test_eight_bits(tmp_path: Path) -> None:
    export_run(random_run(tmp_path / "run", "lm", d_e=64, d_mlp=128, tied=True), "ctranslate2", tmp_path / "out", numbers="int8")
    export_run(tmp_path / "run", "ctranslate2", tmp_path / "float")
    sizes = [(tmp_path / name / "model.bin").stat().st_size for name in ("out", "float")]
    assert sizes[0] < 0.5 * sizes[1]


@pytest.mark.parametrize(
    ("task", "model", "said"),
    [
        ("lm", {"positions": "relative"}, "ctranslate2 does not know positions=relative (line 2)"),
        ("lm", {"norm_first": False}, "norm_first=False (line 5–8)"),
        ("lm", {"band": 3}, "band_pattern=01 (line 6)"),
        ("lm", {"d_mid": 7}, "d_mid=7 (line 6)"),
        ("mlm", {}, "head=projection (line 10, 11)"),
        ("classify", {}, "ctranslate2 has no architecture for a model of Algorithm 9 of this kind"),
    ],
)
def test_what_ctranslate2_does_not_know(task: str, model: dict[str, Any], said: str, tmp_path: Path) -> None:
    random_run(tmp_path / "run", task, **model)
    with pytest.raises(ValueError, match=re.escape(said)):
        export_run(tmp_path / "run", "ctranslate2", tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
