"""An imported run is a run like any other; and what cannot be imported is refused in words, with nothing written."""

import io
import json
import pickle
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

import transalg
from tests.interop.peers import PEERS, saved
from tests.interop.test_vocabulary import bert_files, qwen_files
from tests.training.runs import config
from transalg import terminal
from transalg.cli import main
from transalg.cli.import_run import EXAMPLES
from transalg.cli.train import summary
from transalg.evaluation.measure import evaluate
from transalg.inference.run import Run
from transalg.interop.load import import_checkpoint
from transalg.tasks import TASKS, find
from transalg.training.start import train
from transalg.verify import trained

WORDS = "the cat sat on the mat\nthe dog ran\n"
VOCABULARY = 331  # tokens, fewer than rows


def tiny(name: str, folder: Path, files: Callable[[Path], None], **changes: Any) -> Path:
    """A random model of a family, with a tokenizer."""
    model = PEERS[name]()
    model.resize_token_embeddings(VOCABULARY)
    if hasattr(model, "final_logits_bias"):
        model.final_logits_bias = torch.zeros(1, VOCABULARY)
    model.save_pretrained(folder)
    files(folder)
    change(folder / "config.json", eos_token_id=None, **changes)
    return folder


def change(path: Path, **values: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


SOURCES = {
    "gpt2": ("gpt2", qwen_files),
    "llama": ("llama", qwen_files),
    "bert": ("bert", bert_files),
    "classes": ("bert classes", bert_files),
    "bare": ("bert bare", bert_files),
    "marian": ("marian", qwen_files),
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    folder = tmp_path_factory.mktemp("imported")
    result = {}
    for name, (peer, files) in SOURCES.items():
        source = tiny(peer, folder / f"{name} source", files, decoder_start_token_id=5, bad_words_ids=[[5]])
        import_checkpoint(str(source), folder / name)
        result[name] = transalg.load(folder / name)
    return result


def test_every_ability(runs: dict[str, Run]) -> None:
    for name in ("gpt2", "llama"):
        run = runs[name]
        assert run.task == "lm" and run.generate("the cat", ell_gen=5, tau=0, seed=0) == run.generate("the cat", ell_gen=5, tau=0)
        tokens = run.tokenizer.encode("the cat", ends=False)
        assert len(run.score("the cat").log_p) == len(tokens) - 1 and run.embed("the cat").shape == (run.model.hyper.d_e,)
        with pytest.raises(ValueError, match="bos_token: this vocabulary has none"):
            run.generate("")
    (mask,) = runs["bert"].fill("the <mask> sat", 3)
    assert len(mask) == 3 and runs["bert"].fill("the [MASK] sat", 3) == [mask]
    assert len(runs["bert"].score("the cat").log_p) == 2
    answer = runs["classes"].classify("the cat")
    assert set(answer.P) == {f"LABEL_{i}" for i in range(5)} and sum(answer.P.values()) == pytest.approx(1)
    assert runs["bare"].embed(["the cat", "a"], pooling="max").shape == (2, 15)
    marian = runs["marian"]
    assert marian.model.hyper.special_tokens.never == (5,)
    ids = marian.predictions(["the cat"], ell_gen=7)[0][0].ids
    assert 5 not in ids and marian.predict("the cat", beams=2, ell_gen=7) is not None
    assert marian.score("the", context="the cat").total < 0


def test_z_of_an_imported_translator_has_no_bos(runs: dict[str, Run]) -> None:
    marian = runs["marian"]
    inside = marian.tokenizer.encode("the cat", ends=False)
    assert marian.encode_all(["the cat"], "input", too_long="error", context=True) == [[*inside, 0]]
    assert marian.encode("the cat", "text") == [5, *inside, 0]


@pytest.mark.parametrize("name", SOURCES)
def test_verified_against_the_formal_algorithm(name: str, runs: dict[str, Run]) -> None:
    contexts = ["the dog"] if name == "marian" else []
    assert trained.verify(runs[name], ["the cat sat"], contexts).holds


@pytest.mark.parametrize("name", ["gpt2", "bert", "classes"])
def test_quantised_and_evaluated(name: str, runs: dict[str, Run], tmp_path: Path) -> None:
    run = transalg.load(runs[name].folder, quantize="int8")
    text = "".join(f"LABEL_{i % 5}\t{line}\n" for i, line in enumerate(WORDS.splitlines())) if name == "classes" else WORDS * 5
    (tmp_path / "text.txt").write_text(text)
    exact, rounded = (evaluate(each, str(tmp_path / "text.txt")).figures["loss"] for each in (runs[name], run))
    assert rounded == pytest.approx(exact, rel=0.05)
    with pytest.raises(ValueError, match="this run has no validation set; give --data"):
        evaluate(run)


def test_an_encoder_without_a_head_is_not_evaluated(runs: dict[str, Run], tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text(WORDS)
    with pytest.raises(ValueError, match="a model for mlm without a head cannot score; it can embed"):
        evaluate(runs["bare"], str(tmp_path / "text.txt"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "task"), [("llama", "lm"), ("bert", "mlm"), ("bare", "classify"), ("classes", "classify"), ("marian", "seq2seq")]
)
def test_fine_tuning_with_the_checkpoints_own_tokenizer(name: str, task: str, runs: dict[str, Run], tmp_path: Path) -> None:
    (tmp_path / "lines.txt").write_text(WORDS * 4)
    (tmp_path / "pairs.txt").write_text("the cat\tthe dog\n" * 9)
    labels = [f"LABEL_{i}" for i in range(5)] if name == "classes" else ["a", "b"]
    (tmp_path / "labels.txt").write_text("".join(f"{label}\tthe cat\n" for label in labels * 4))
    chosen = replace(config(task, tmp_path, steps=2), init=str(runs[name].folder), tokenizer="", model={})
    console = terminal.console(file=io.StringIO())
    summary(train(chosen, tmp_path / "tuned"), console)
    assert f"Next: transalg {find(task).abilities[0]} " in console.file.getvalue()  # type: ignore[attr-defined]
    tuned = transalg.load(tmp_path / "tuned")
    assert tuned.tokenizer.digest() == runs[name].tokenizer.digest() and tuned.model.hyper.N_V == VOCABULARY
    assert tuned.model.hyper.special == runs[name].model.hyper.special
    assert (tuned.config.train.optimizer, tuned.config.train.eta) == ("adamw", 1e-4)
    again = train(None, tmp_path / "tuned", resume=True, changes={"train": {"steps": 3}})
    assert again.state.step == 3
    for file in ("last.safetensors", "best.safetensors", "metrics.jsonl"):  # a kill came before the first checkpoint
        (tmp_path / "tuned" / file).unlink()
    assert train(None, tmp_path / "tuned", resume=True).state.step == 3


def test_an_imported_run_cannot_be_resumed(runs: dict[str, Run]) -> None:
    with pytest.raises(ValueError, match="an imported model has no data to train on; transalg train lm --init"):
        train(None, runs["llama"].folder, resume=True)


@pytest.mark.slow
def test_traced(runs: dict[str, Run], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["transalg", "trace", "9", "--run", str(runs["bert"].folder), "--prompt", "the <mask> sat"])
    main()
    assert "encode(x, s | θ)" in capsys.readouterr().out


# What is refused -------------------------------------------------------------------------------------------------------


@pytest.fixture
def llama(tmp_path: Path) -> Path:
    saved("llama", tmp_path / "theirs")
    return tmp_path / "theirs"


def refused(folder: Path, said: str, **options: Any) -> None:
    """A ValueError with these words, and nothing is left behind."""
    before = sorted(path.name for path in folder.parent.iterdir())
    with pytest.raises(ValueError, match=re.escape(said)):
        import_checkpoint(str(folder), folder.parent / "run", **{"tokenizer": "ids"} | options)
    assert sorted(path.name for path in folder.parent.iterdir()) == before


def with_tensors(folder: Path, alter: Callable[[dict[str, torch.Tensor]], None]) -> None:
    tensors = load_file(folder / "model.safetensors")
    alter(tensors)
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})


def test_names_that_are_missing_or_unknown(llama: Path) -> None:
    with_tensors(llama, lambda tensors: tensors.pop("model.norm.weight"))
    refused(llama, "model.safetensors: lacks a tensor that the model needs: model.norm.weight")
    with_tensors(llama, lambda tensors: tensors.update({"model.norm.weight": torch.ones(24).double(), "extra.weight": torch.ones(3)}))
    refused(llama, "model.safetensors: has a tensor that the model does not know: extra.weight")
    with_tensors(llama, lambda tensors: tensors.pop("extra.weight"))
    with_tensors(llama, lambda tensors: tensors.update({"model.layers.1.self_attn.rotary_emb.inv_freq": torch.ones(3)}))
    import_checkpoint(str(llama), llama.parent / "run", tokenizer="ids")


def test_shapes_that_do_not_fit(llama: Path) -> None:
    change(llama / "config.json", intermediate_size=31)
    refused(llama, "expected the shapes that config.json implies: model.layers.0.mlp.gate_proj.weight is 29×24, not 31×24")


def test_damaged_files(llama: Path) -> None:
    path = llama / "model.safetensors"
    whole = path.read_bytes()
    for damaged in (whole[:-7], whole[:100], b"", b"\xff" * 64, (2**40).to_bytes(8, "little") + whole[8:]):
        path.write_bytes(damaged)
        refused(llama, "model.safetensors: not a complete safetensors file")
    header = json.loads(whole[8 : 8 + int.from_bytes(whole[:8], "little")])
    header["model.norm.weight"]["shape"] = [2**40]
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + whole[8 + int.from_bytes(whole[:8], "little") :])
    refused(llama, "model.safetensors: not a complete safetensors file")
    path.unlink()
    refused(llama, "expected model.safetensors, or shards with model.safetensors.index.json, or pytorch_model.bin; got none of them")


HOSTILE = [
    ({"hidden_size": "24"}, 'hidden_size: expected a whole number from 1 to 2,147,483,647, got "24"'),
    ({"hidden_size": -24}, "hidden_size: expected a whole number from 1 to 2,147,483,647, got -24"),
    ({"num_hidden_layers": 10**12}, "num_hidden_layers: expected a whole number from 1 to 2,147,483,647, got 1000000000000"),
    ({"num_hidden_layers": None}, "num_hidden_layers: expected a whole number from 1 to 2,147,483,647, got nothing"),
    ({"num_attention_heads": 5, "head_dim": None}, "H_kv: expected a divisor of H = 5"),
    ({"rms_norm_eps": "1e-6"}, 'rms_norm_eps: expected a number, got "1e-6"'),
    ({"rms_norm_eps": float("nan")}, "rms_norm_eps: expected a number, got NaN"),
    ({"rope_parameters": [1]}, "rope_parameters: expected a table, got [1]"),
    ({"rope_parameters": {"rope_type": "yarn", "rope_theta": 1.0}}, 'rope_type: expected default or linear or llama3, got "yarn"'),
    ({"hidden_act": "mish"}, "hidden_act: expected gelu or"),
    ({"attention_bias": True}, "attention_bias, mlp_bias: expected both or none"),
    ({"num_hidden_layers": 10**9}, "num_hidden_layers: expected at most 10,000 layers, got 1000000000"),
    ({"hidden_size": 10**9}, "config.json: d_e: expected a whole number from 1 to 1,000,000, got 1000000000"),
    ({"hidden_size": 240_000}, "expected the shapes that config.json implies: model.embed_tokens.weight is 97×24, not 97×240000"),
    ({"architectures": [[[[[]] * 99]]]}, "architectures: expected one of LlamaForCausalLM, got [[[[]"),
    ({"model_type": "mamba"}, "model_type: expected one of gpt2, bert, marian"),
    ({"architectures": ["LlamaForSequenceClassification"]}, "architectures: expected one of LlamaForCausalLM, got"),
    ({"tie_word_embeddings": "no"}, 'tie_word_embeddings: expected true or false, got "no"'),
    ({"tie_word_embeddings": True}, "lm_head.weight: expected the same as model.embed_tokens.weight"),
    ({"eos_token_id": "end"}, 'eos_token_id: expected a token ID, or a list of them, got "end"'),
]


@pytest.mark.parametrize(("values", "said"), HOSTILE, ids=lambda value: str(value)[:40])
def test_wrong_and_hostile_settings(values: dict[str, Any], said: str, llama: Path) -> None:
    (llama / "generation_config.json").unlink()
    change(llama / "config.json", **values)
    refused(llama, said)


DEEP = "[" * 10**5
FILES = [  # of a folder that is otherwise right: a name, what is in it, what is said
    ("llama", "tokenizer.json", "", "tokenizer.json: not a tokenizer.json: Expecting value"),
    ("llama", "tokenizer.json", DEEP, "tokenizer.json: not a tokenizer.json: its values lie too deep in one another"),
    (
        "llama",
        "tokenizer.json",
        '{"model": {"type": "BPE", "vocab": {"a": 99999999}, "merges": []}}',
        "but the model has N_V = 331: they do not fit",
    ),
    ("llama", "tokenizer.json", '{"model": {"type": "BPE", "vocab": {"a": -1}, "merges": []}}', "not a tokenizer.json: invalid value"),
    (
        "llama",
        "tokenizer.json",
        '{"model": {"type": "BPE", "vocab": {}, "merges": []}}',
        "tokenizer.json: model.vocab: expected tokens, got none",
    ),
    ("llama", "tokenizer_config.json", "[1]", "tokenizer_config.json: expected a table, got [1]"),
    ("llama", "tokenizer_config.json", '{"add_bos_token": "yes"}', 'add_bos_token: expected true or false, got "yes"'),
    ("llama", "generation_config.json", '{"eos_token_id": [1, "2"]}', "generation_config.json: eos_token_id: expected a token ID"),
    ("bare", "vocab.txt", b"\xff\xfe\x00", "vocab.txt: expected a token in every line, in UTF-8, got other bytes"),
    ("bare", "vocab.txt", "the\ncat\n", "vocab.txt: expected a line [UNK], the token of unknown words, got none"),
    ("bare", "vocab.txt", "[UNK]\n" + "a\n" * 332, "the tokenizer has 333 tokens, but the model has N_V = 331: they do not fit"),
    ("bare", "modules.json", DEEP, "modules.json: not JSON: its values lie too deep in one another"),
    ("bare", "modules.json", '[{"type": "x.Dense", "path": ""}]', "got Dense: this module is not supported"),
    ("bare", "modules.json", '[{"type": "x.Pooling", "path": "../../etc"}]', "etc/config.json: cannot be read"),
    ("shards", "model.safetensors.index.json", DEEP, "index.json: not JSON"),
    ("shards", "model.safetensors.index.json", '{"weight_map": {"a": 1}}', "weight_map: expected the file of every tensor"),
    (
        "shards",
        "model.safetensors.index.json",
        '{"weight_map": {"a": "/etc/passwd"}}',
        "expected files in the same folder, got '/etc/passwd'",
    ),
    ("shards", "model.safetensors.index.json", '{"weight_map": {"a": ".."}}', "expected files in the same folder, got '..'"),
    ("shards", "model.safetensors.index.json", '{"weight_map": {"a": ""}}', "expected files in the same folder, got ''"),
]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Folders that could be imported."""
    folder = tmp_path_factory.mktemp("whole")
    made = {"llama": tiny("llama", folder / "llama", qwen_files), "bare": tiny("bert bare", folder / "bare", bert_files)}
    return made | {"shards": made["llama"]}


@pytest.mark.parametrize(("name", "file", "text", "said"), FILES, ids=lambda value: str(value)[:30])
def test_wrong_and_hostile_files(
    name: str, file: str, text: str | bytes, said: str, whole: dict[str, Path], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """The command ends with status 2 and one line or two, and leaves nothing."""
    shutil.copytree(whole[name], tmp_path / "theirs")
    if name == "shards":
        (tmp_path / "theirs" / "model.safetensors").unlink()
    if file == "vocab.txt":
        (tmp_path / "theirs" / "tokenizer.json").unlink(missing_ok=True)
    (tmp_path / "theirs" / file).write_bytes(text if isinstance(text, bytes) else text.encode())
    monkeypatch.setattr(sys, "argv", ["transalg", "import", str(tmp_path / "theirs"), "--out", str(tmp_path / "run")])
    with pytest.raises(SystemExit) as stop:
        main()
    error = capsys.readouterr().err
    assert stop.value.code == 2 and said in " ".join(error.split()) and len(error) < 700
    assert [path.name for path in tmp_path.iterdir()] == ["theirs"]


def test_the_command_ends_with_one_to_type_next(
    whole: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["transalg", "import", str(whole["llama"]), "--out", str(tmp_path / "run")])
    main()
    (command,) = re.findall(r"^Next: transalg (.*)$", capsys.readouterr().out, re.MULTILINE)
    verb, folder, option, text = shlex.split(command)
    assert verb in EXAMPLES and folder == str(tmp_path / "run") and option.startswith("--") and " " in text
    imported = [task for task in TASKS.values() if task.records != "episodes"]
    assert {ability for task in imported for ability in task.abilities} - {"score"} <= EXAMPLES.keys()


def test_a_config_that_is_no_table(llama: Path) -> None:
    for text, said in (("{", "not JSON"), ("[1]", "expected a table, got [1]"), ("[" * 10**5, "not JSON")):
        (llama / "config.json").write_text(text)
        refused(llama, said)
    (llama / "config.json").unlink()
    refused(llama, "expected a folder with config.json, as transformers saves it; there is none")


@pytest.mark.parametrize(
    ("name", "values", "said"),
    [
        ("gpt2", {"scale_attn_weights": False}, "scale_attn_weights: expected true, for scores are divided by √d_attn; got false"),
        ("gpt2", {"scale_attn_by_inverse_layer_idx": True}, "scale_attn_by_inverse_layer_idx: expected false"),
        ("gpt2", {"add_cross_attention": True}, "add_cross_attention: expected false"),
        ("bert", {"position_embedding_type": "relative_key"}, 'position_embedding_type: expected "absolute"'),
        ("bert", {"is_decoder": True}, "is_decoder: expected false"),
        ("bert classes", {"problem_type": "regression"}, 'problem_type: expected "single_label_classification", for a text has one class'),
        ("marian", {"decoder_ffn_dim": 31}, "decoder_ffn_dim: expected 29, as in the encoder; got 31"),
        ("marian", {"share_encoder_decoder_embeddings": False}, "share_encoder_decoder_embeddings: expected true"),
    ],
)
def test_what_an_architecture_does_not_know(name: str, values: dict[str, Any], said: str, tmp_path: Path) -> None:
    saved(name, tmp_path / "theirs")
    change(tmp_path / "theirs" / "config.json", **values)
    refused(tmp_path / "theirs", said)


def test_shards(llama: Path) -> None:
    tensors = load_file(llama / "model.safetensors")
    (llama / "model.safetensors").unlink()
    files = {"a.safetensors": {}, "b.safetensors": {}}
    for i, (name, tensor) in enumerate(tensors.items()):
        files["ab"[i % 2] + ".safetensors"][name] = tensor
    for file, some in files.items():
        save_file(some, llama / file)
    weight_map = {name: file for file, some in files.items() for name in some}
    index = llama / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": weight_map | {"model.norm.weight": "../a.safetensors"}}))
    refused(llama, "weight_map: expected files in the same folder, got '../a.safetensors'")
    index.write_text(json.dumps({"weight_map": weight_map | {"other": "a.safetensors"}}))
    refused(llama, "other: expected it in a.safetensors, which has no such tensor")
    index.write_text(json.dumps({"weight_map": weight_map}))
    import_checkpoint(str(llama), llama.parent / "run", tokenizer="ids")
    assert transalg.load(llama.parent / "run").model.layers[0].gamma1.equal(tensors["model.layers.0.input_layernorm.weight"])
    (llama / "b.safetensors").unlink()
    refused(llama, "b.safetensors: not a complete safetensors file", overwrite=True)


def test_pickles(llama: Path) -> None:
    tensors = load_file(llama / "model.safetensors")
    (llama / "model.safetensors").unlink()
    torch.save(tensors, llama / "pytorch_model.bin")
    refused(llama, "pytorch_model.bin: a pickle, which can contain more than tensors; --allow-pickle reads it, and takes tensors alone")
    (llama / "pytorch_model.bin").write_bytes(pickle.dumps(print))
    refused(llama, "pytorch_model.bin: not a pickle of tensors alone", allow_pickle=True)
    torch.save(tensors, llama / "pytorch_model.bin")
    import_checkpoint(str(llama), llama.parent / "run", tokenizer="ids", allow_pickle=True)


def test_a_folder_that_exists_is_not_replaced_unless_told(llama: Path) -> None:
    (llama.parent / "run").mkdir()
    (llama.parent / "run" / "mine").write_text("mine")
    refused(llama, "run: exists already; --overwrite replaces it")
    import_checkpoint(str(llama), llama.parent / "run", tokenizer="ids", overwrite=True)
    assert not (llama.parent / "run" / "mine").exists() and transalg.load(llama.parent / "run").task == "lm"


def test_a_name_of_the_hub_without_a_connection(tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match="nobody/nothing: there is no such file or folder, and the Hugging Face Hub cannot be asked for it"
    ):
        import_checkpoint("nobody/nothing", tmp_path / "run")
    with pytest.raises(ValueError, match="a name of the Hugging Face Hub is OWNER/MODEL"):
        import_checkpoint("some/where/else", tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_name_of_the_hub(llama: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pickles are downloaded only where there are no safetensors."""
    hub = pytest.importorskip("huggingface_hub", reason="huggingface_hub is not installed: pip install -e '.[test]'")
    asked = list[list[str]]()

    def downloaded(name: str, allow_patterns: list[str]) -> str:
        assert name == "owner/model"
        asked.append(allow_patterns)
        return str(llama)

    monkeypatch.setattr(hub, "snapshot_download", downloaded)
    import_checkpoint("owner/model", llama.parent / "run", tokenizer="ids")
    assert len(asked) == 1 and not any(".bin" in pattern for pattern in asked[0])
    (llama / "model.safetensors").rename(llama / "pytorch_model.bin")
    with pytest.raises(ValueError, match="--allow-pickle"):
        import_checkpoint("owner/model", llama.parent / "other", tokenizer="ids")
    assert len(asked) == 3 and "pytorch_model*.bin" in asked[2]


def test_half_precision_becomes_single(llama: Path) -> None:
    with_tensors(llama, lambda tensors: tensors.update({name: tensor.bfloat16() for name, tensor in tensors.items()}))
    import_checkpoint(str(llama), llama.parent / "run", tokenizer="ids")
    model, tensors = transalg.load(llama.parent / "run").model, load_file(llama / "model.safetensors")
    assert model.dtype == torch.float32 and model.W_e.equal(tensors["model.embed_tokens.weight"].float())


def test_the_command(llama: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["transalg", "import", str(llama), "--out", str(llama.parent / "run"), "--tokenizer", "ids"])
    main()
    assert "a model for lm, " in capsys.readouterr().out
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 2 and "exists already" in capsys.readouterr().err


@pytest.mark.slow
def test_a_tensor_is_in_memory_while_it_is_written(tmp_path: Path) -> None:
    """At most 1.3 times the size of the file, in a process of its own."""
    from transalg.hyper import preset
    from transalg.interop.llama import LLAMA
    from transalg.interop.names import their_shapes

    hyper = preset("smollm2-135m", L=8, N_V=11, d_e=576)
    tensors = {name: torch.zeros(shape) for name, shape in their_shapes(hyper, LLAMA.sources).items()}
    (tmp_path / "theirs").mkdir()
    save_file(tensors, tmp_path / "theirs" / "model.safetensors")
    settings = LLAMA.config(hyper) | {"model_type": "llama", "architectures": ["LlamaForCausalLM"]}  # type: ignore[arg-type]
    (tmp_path / "theirs" / "config.json").write_text(json.dumps(settings))
    done = subprocess.run([sys.executable, "-c", MEASURE, str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    size = (tmp_path / "theirs" / "model.safetensors").stat().st_size
    assert size > 10**8 and int(done.stdout) <= 1.3 * size


MEASURE = """
import resource, sys
from pathlib import Path
from transalg.interop.load import import_checkpoint
folder = Path(sys.argv[1])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
import_checkpoint(str(folder / "theirs"), folder / "run", tokenizer="ids")
print(1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before))
"""
