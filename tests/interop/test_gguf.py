"""gguf files: llama.cpp reads what we write and computes the same; what we read is what was written, whatever the kind of numbers."""

import json
import re
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import torch

import transalg
from tests.interop.peers import saved
from tests.interop.runs import random_run
from tests.interop.test_import import tiny
from tests.interop.test_vocabulary import llama_files, qwen_files
from tests.training.runs import WORDS
from transalg.interop.export import open_run
from transalg.interop.load import import_checkpoint
from transalg.interop.save import export_run

gguf = pytest.importorskip("gguf", reason="gguf is not installed: pip install -e '.[test]'")

RUNS: dict[str, dict[str, Any]] = {
    "llama": {"L": 2, "d_e": 32, "positions": "rotary", "norm": "RMSnorm", "activation": "SwiGLU", "bias": "none", "H_kv": 1, "tied": True},
    "llama biased": {"L": 1, "d_e": 12, "positions": "rotary", "norm": "RMSnorm", "activation": "SwiGLU", "bias": "qkv"},
    "gpt2": {"L": 2, "positions": "learned", "activation": "tanh_GELU", "tied": True},
    "neox": {"L": 2, "d_e": 12, "positions": "rotary", "tied": True},
    "neox parallel": {"L": 1, "d_e": 12, "positions": "rotary", "parallel": True},
}
SCALED = {"rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("gguf")
    for name, model in RUNS.items():
        random_run(folder / name, "lm", **model)
    for name, write in (("pieces", llama_files), ("byte pairs", qwen_files)):
        import_checkpoint(str(tiny("llama tied", folder / f"{name} source", write)), folder / name)
    return folder


NAMES = [*RUNS, "pieces", "byte pairs"]


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_what_is_read_back_is_what_was_written(name: str, runs: Path, tmp_path: Path) -> None:
    export_run(runs / name, "gguf", tmp_path / "out")
    import_checkpoint(str(tmp_path / "out" / "model.gguf"), tmp_path / "back")
    ours, back = open_run(runs / name), open_run(tmp_path / "back")
    assert all(part.float().equal(back.tensors[one]) for one, part in ours.tensors.items())
    assert set(back.tensors) - set(ours.tensors) <= {"W_u"}, "gptneox knows no tie"
    special, theirs = ours.hyper.special_tokens, back.hyper.special_tokens
    assert (theirs.bos, theirs.eos) == (special.bos, special.eos)
    for text in (*WORDS, "Ünd naïve"):
        if name in ("pieces", "byte pairs") or text in WORDS:
            assert back.tokenizer.encode(text, ends=False) == ours.tokenizer.encode(text, ends=False)
            assert back.tokenizer.decode(back.tokenizer.encode(text)) == ours.tokenizer.decode(ours.tokenizer.encode(text))


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "error"), [("F32", 0.0), ("F16", 1e-3), ("BF16", 1e-2), ("Q8_0", 1e-2), ("Q4_0", 0.15), ("Q4_1", 0.15)])
def test_every_kind_of_numbers_is_read(kind: str, error: float, runs: Path, tmp_path: Path) -> None:
    run = open_run(runs / "llama")
    path = rewritten(runs / "llama", tmp_path, kind)
    import_checkpoint(str(path), tmp_path / "back")
    for name, part in open_run(tmp_path / "back").tensors.items():
        assert float((part - run.tensors[name]).abs().max()) <= error * float(run.tensors[name].abs().max())


def rewritten(run: Path, folder: Path, kind: str) -> Path:
    """model.gguf of a run with its matrices in other numbers."""
    export_run(run, "gguf", folder / "out")
    reader = gguf.GGUFReader(folder / "out" / "model.gguf")
    writer = gguf.GGUFWriter(folder / "other.gguf", "llama")
    for name, field in reader.fields.items():
        if not name.startswith("GGUF.") and name != "general.architecture":
            inner = field.types[-1] if field.types[0] == gguf.GGUFValueType.ARRAY else None
            writer.add_key_value(name, field.contents(), field.types[0], inner)
    for tensor in reader.tensors:
        wanted = gguf.GGMLQuantizationType[kind if len(tensor.shape) == 2 and tensor.shape[0] % 32 == 0 else "F32"]
        writer.add_tensor(tensor.name, gguf.quants.quantize(tensor.data, wanted), raw_dtype=wanted)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return folder / "other.gguf"


def test_what_cannot_be_read(tmp_path: Path) -> None:
    saved("llama", tmp_path / "theirs")
    change = json.loads((tmp_path / "theirs" / "config.json").read_text())
    assert change["model_type"] == "llama"
    import_checkpoint(str(tmp_path / "theirs"), tmp_path / "run", tokenizer="ids")
    with pytest.raises(
        ValueError, match="gguf knows vocabularies of byte pairs, of pieces and of characters; the tokenizer of this run is a WordLevel"
    ):
        export_run(tmp_path / "run", "gguf", tmp_path / "out")
    assert not (tmp_path / "out").exists()
    path = tmp_path / "a.gguf"
    writer = gguf.GGUFWriter(path, "mamba")
    for write in (writer.write_header_to_file, writer.write_kv_data_to_file, writer.write_tensors_to_file):
        write()
    writer.close()
    refused(path, "general.architecture: expected llama or gpt2 or gptneox, got 'mamba': it is not supported")
    whole = path.read_bytes()
    for damaged in (b"", b"nothing", whole[:9], b"GGUF" + b"\xff" * 20):
        path.write_bytes(damaged)
        refused(path, "a.gguf: ")
    path.write_bytes(whole.replace(b"general.arch", b"\xffeneral.arch"))
    refused(path, "a.gguf: not a complete gguf file: its parts do not fit together")
    (tmp_path / "a.txt").write_text("text")
    refused(tmp_path / "a.txt", "expected a folder that transformers saved, a .gguf file, or a .bin file of llama2.c")


def refused(path: Path, said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        import_checkpoint(str(path), path.parent / "other")
    assert not (path.parent / "other").exists()


@pytest.mark.slow
def test_what_llama_cpp_does_not_know(tmp_path: Path) -> None:
    random_run(tmp_path / "run", "lm", positions="relative", norm="RMSnorm")
    with pytest.raises(ValueError, match=re.escape("positions=relative (line 2)")):
        export_run(tmp_path / "run", "gguf", tmp_path / "out")
    with pytest.raises(ValueError, match="--numbers: expected f32, f16, q8_0 for gguf, got 'q2'"):
        export_run(tmp_path / "run", "gguf", tmp_path / "out", numbers="q2")


# llama.cpp -------------------------------------------------------------------------------------------------------------


def server(path: Path) -> Any:
    """llama.cpp's server in this process, with keys and values in float32 and without flash attention."""
    llama = pytest.importorskip("xllamacpp", reason="llama.cpp as a wheel is not installed: pip install -e '.[test]'")
    options = llama.CommonParams()
    options.model.path, options.n_ctx, options.n_parallel, options.warmup, options.verbosity = str(path), 29, 1, False, -1
    options.cache_type_k = options.cache_type_v = llama.ggml_type.GGML_TYPE_F32
    options.flash_attn_type, options.fit_params = llama.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED, False
    options.cpuparams.n_threads = 1
    return llama.Server(options)


def completion(served: Any, **request: Any) -> dict[str, Any]:
    body = json.dumps({"temperature": 0.0, "cache_prompt": False} | request).encode()
    asked = urllib.request.Request(f"{served.listening_address}/completion", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(asked) as answer:
        result: dict[str, Any] = json.loads(answer.read())
    return result


EXACT, TABLE = 1e-5, 2e-2  # where ggml has a GELU, it is a table in half precision


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_llama_cpp_gives_the_same_log_probabilities_and_greedy_text(name: str, runs: Path, tmp_path: Path) -> None:
    export_run(runs / name, "gguf", tmp_path / "out")
    run, served = transalg.load(runs / name), server(tmp_path / "out" / "model.gguf")
    ids = run.prompt_ids("a cat sat")
    answer = completion(served, prompt=ids, n_predict=1, n_probs=run.model.hyper.N_V)
    theirs = {one["id"]: one["logprob"] for one in answer["completion_probabilities"][0]["top_logprobs"]}
    with torch.no_grad():
        ours = run.model(torch.tensor([ids]))[0, -1].log_softmax(-1)
    assert len(theirs) == run.model.hyper.N_V
    assert max(abs(float(ours[one]) - log_p) for one, log_p in theirs.items()) <= (TABLE if name.startswith(("gpt2", "neox")) else EXACT)
    text = run.generate("a cat sat", tau=0, ell_gen=7)
    assert completion(served, prompt="a cat sat", n_predict=7)["content"] == text


@pytest.mark.slow
def test_llama_3s_scaling_is_a_table_of_factors(tmp_path: Path) -> None:
    from tests.interop import peers

    model = peers._made("Llama", "ForCausalLM", peers.WIDE, rope_parameters=SCALED | {"original_max_position_embeddings": 8192})
    model.resize_token_embeddings(331)
    model.save_pretrained(tmp_path / "theirs")
    qwen_files(tmp_path / "theirs")
    import_checkpoint(str(tmp_path / "theirs"), tmp_path / "run")
    export_run(tmp_path / "run", "gguf", tmp_path / "out")
    import_checkpoint(str(tmp_path / "out" / "model.gguf"), tmp_path / "back")
    assert open_run(tmp_path / "back").hyper.rotary_scaling == (8.0, 1.0, 4.0, 8192.0)
