"""Runs as others read them: transformers loads what we write, without our package, and computes the same; what we read back is what we wrote."""

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.testing import assert_close

import transalg
from tests.interop.runs import random_run
from tests.interop.test_import import SOURCES, tiny
from tests.training.runs import config, files
from transalg.cli import main
from transalg.interop.export import open_run
from transalg.interop.load import import_checkpoint
from transalg.interop.save import export_run
from transalg.training.start import train

transformers = pytest.importorskip("transformers", reason="the peer transformers is not installed: pip install -e '.[test]'")

RUNS: dict[str, tuple[str, dict[str, Any]]] = {  # runs of ours that transformers has a class for
    "lm": ("lm", {"L": 2, "positions": "rotary", "d_e": 12, "tied": True}),
    "gpt2": ("lm", {"L": 2, "positions": "learned", "tied": True, "activation": "tanh_GELU"}),
    "llama": ("lm", {"L": 2, "d_e": 12, "positions": "rotary", "norm": "RMSnorm", "activation": "SwiGLU", "bias": "none"}),
    "mlm": (
        "mlm",
        {"positions": "learned", "norm_first": False, "segments": 2, "embedding_norm": True, "output_bias": True, "tied": True},
    ),
    "seq2seq": ("seq2seq", {"norm_first": True, "positions": "learned", "tied": True}),
    "pegasus": ("seq2seq", {"norm_first": True, "positions": "split_sinusoids", "tied": True}),
    "marian": ("seq2seq", {"norm_first": False, "positions": "split_sinusoids", "output_bias": True, "scaled": True, "tied": True}),
}
CLASSES = {
    "lm": "GPTNeoXForCausalLM",
    "gpt2": "GPT2LMHeadModel",
    "llama": "LlamaForCausalLM",
    "mlm": "BertForMaskedLM",
    "seq2seq": "BlenderbotForConditionalGeneration",
    "pegasus": "PegasusForConditionalGeneration",
    "marian": "MarianMTModel",
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Random runs, and imported ones."""
    folder = tmp_path_factory.mktemp("export")
    for name, (task, model) in RUNS.items():
        random_run(folder / name, task, **model)
    for name, (peer, write) in SOURCES.items():
        import_checkpoint(str(tiny(peer, folder / f"{name} source", write, decoder_start_token_id=5)), folder / f"imported {name}")
    return folder


NAMES = [*RUNS, *(f"imported {name}" for name in SOURCES)]


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_what_is_read_back_is_what_was_written(name: str, runs: Path, tmp_path: Path) -> None:
    architecture = export_run(runs / name, "huggingface", tmp_path / "hf")
    assert architecture == CLASSES.get(name, architecture)
    import_checkpoint(str(tmp_path / "hf"), tmp_path / "back")
    ours, back = open_run(runs / name), open_run(tmp_path / "back")
    assert ours.tensors.keys() == back.tensors.keys() and all(part.equal(back.tensors[one]) for one, part in ours.tensors.items())
    special = ours.hyper.special_tokens
    assert (back.hyper.special_tokens.bos, back.hyper.special_tokens.eos) == (special.bos, special.eos)
    assert back.metadata.labels == ours.metadata.labels and back.metadata.embedding == ours.metadata.embedding
    for text in ("the cat sat", "a dog", ""):
        assert back.tokenizer.encode(text) == ours.tokenizer.encode(text)
    export_run(tmp_path / "back", "huggingface", tmp_path / "again")
    for file in ("model.safetensors", "config.json"):
        assert (tmp_path / "again" / file).read_bytes() == (tmp_path / "hf" / file).read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_transformers_loads_it_and_computes_the_same(name: str, runs: Path, tmp_path: Path) -> None:
    export_run(runs / name, "huggingface", tmp_path / "hf")
    run = transalg.load(runs / name)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "hf", local_files_only=True)
    kind = {"lm": "CausalLM", "mlm": "MaskedLM", "seq2seq": "Seq2SeqLM", "classify": "SequenceClassification"}[run.task]
    bare = name == "imported bare"
    auto = transformers.AutoModel if bare else getattr(transformers, f"AutoModelFor{kind}")
    peer = auto.from_pretrained(tmp_path / "hf", local_files_only=True).eval()
    texts = ["the cat sat", "a dog"]
    if run.tokenizer.special_tokens.eos is not None:
        batch = tokenizer(texts, padding=True, return_tensors="pt")
        assert batch["attention_mask"].sum(1).tolist() == [len(tokenizer(text)["input_ids"]) for text in texts]
    for text in texts:
        ids = tokenizer(text, return_tensors="pt")["input_ids"]
        expected = run.encode(text, "text", eos=run.task != "lm", context=run.task == "seq2seq")
        assert ids[0].tolist() == expected
        with torch.no_grad():
            if run.task == "seq2seq":
                x = torch.tensor([run.encode("tac", "text")])
                assert_close(run.model(ids, x), peer(input_ids=ids, decoder_input_ids=x).logits, rtol=0, atol=1e-4)
            elif bare:
                assert_close(run.model.encode(ids)[0][None], peer(ids).last_hidden_state, rtol=0, atol=1e-4)
            else:
                assert_close(run.model(ids), peer(ids).logits, rtol=0, atol=1e-4)
        if run.task in ("lm", "seq2seq"):
            ell = 5
            written = peer.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=ell, do_sample=False, num_beams=1)
            new = written[0, ids.shape[1] if run.task == "lm" else 1 :].tolist()
            ours = run.completions([text], tau=0, ell_gen=ell) if run.task == "lm" else run.predictions([text], ell_gen=ell)
            eos = run.tokenizer.special_tokens.eos
            assert ours[0][0].ids == (new[: new.index(eos)] if eos in new else new)
            assert tokenizer.decode(ours[0][0].ids, skip_special_tokens=True) == run.tokenizer.decode(ours[0][0].ids)


@pytest.mark.parametrize(
    ("task", "model", "said"),
    [
        ("lm", {"positions": "relative"}, "huggingface does not know positions=relative (line 2)"),
        ("lm", {"positions": "learned", "band": 3}, "band=3 (line 6)"),
        ("mlm", {"positions": "learned", "norm_first": True}, "norm_first=True (line 5–8)"),
        ("classify", {"pooling": "mean"}, "pooling=mean (line 12)"),
        ("seq2seq", {"norm": "RMSnorm"}, "norm=RMSnorm (line 6, 8, 15, 17, 19)"),
    ],
)
def test_what_transformers_does_not_know(task: str, model: dict[str, Any], said: str, tmp_path: Path) -> None:
    random_run(tmp_path / "run", task, **model)
    before = sorted(path.name for path in tmp_path.iterdir())
    with pytest.raises(ValueError, match=re.escape(said)):
        export_run(tmp_path / "run", "huggingface", tmp_path / "hf")
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_what_the_closest_architecture_has(tmp_path: Path) -> None:
    random_run(tmp_path / "run", "seq2seq", positions="rotary")
    with pytest.raises(ValueError, match=r"positions=rotary \(line 2, 11\).*; the closest that it knows is \w+, which has positions=\w+$"):
        export_run(tmp_path / "run", "huggingface", tmp_path / "hf")


@pytest.mark.slow
def test_the_model_card(tmp_path: Path) -> None:
    model = {"d_e": 12, "positions": "rotary", "norm": "RMSnorm", "activation": "SwiGLU", "bias": "none"}
    train(config("lm", files(tmp_path), model, steps=2, eval_every=2), tmp_path / "run")
    export_run(tmp_path / "run", "huggingface", tmp_path / "hf")
    card = (tmp_path / "hf" / "README.md").read_text()
    assert (
        "pipeline_tag: text-generation" in card and "Trained on lines.txt. This is the model of step 2, with a validation loss of" in card
    )
    assert "| 5, 7, 10 | `norm` | RMSnorm | " in card and "```diff" in card and str(tmp_path) not in card
    assert "Imported from" not in card


@pytest.mark.slow
def test_the_card_of_what_is_no_published_system_has_no_other_ones_lines(tmp_path: Path) -> None:
    """Sub-layers one after the other are not GPT-NeoX's."""
    for parallel in (False, True):
        model = {"d_e": 12, "positions": "rotary", "parallel": parallel}
        train(config("lm", files(tmp_path), model, steps=2, eval_every=2), tmp_path / f"run-{parallel}")
        export_run(tmp_path / f"run-{parallel}", "huggingface", tmp_path / f"hf-{parallel}")
        card = (tmp_path / f"hf-{parallel}" / "README.md").read_text()
        assert "| 2 | `positions` | rotary | " in card and ("```diff" in card) == parallel


@pytest.mark.slow
def test_the_command(runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["export", str(runs / "lm"), "--format", "huggingface", "--out", str(tmp_path / "hf")]
    monkeypatch.setattr(sys, "argv", ["transalg", *flags])
    main()
    assert "GPTNeoXForCausalLM; README.md, config.json" in capsys.readouterr().out
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 2 and "exists already; --overwrite replaces it" in capsys.readouterr().err
    assert json.loads((tmp_path / "hf" / "config.json").read_text())["use_parallel_residual"] is False


def test_a_run_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="expected the folder of a run, there is none"):
        export_run(tmp_path / "none", "huggingface", tmp_path / "hf")
    with pytest.raises(ValueError, match="--format: expected huggingface, gguf, ctranslate2, onnx"):
        export_run(tmp_path / "none", "pickle", tmp_path / "hf")
    assert not (tmp_path / "hf").exists()
