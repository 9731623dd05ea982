"""onnx: the graphs compute what the engine computes, for every departure; onnxruntime runs them at any batch and length, with a cache."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.testing import assert_close

import transalg
from tests.interop.runs import random_run
from tests.strategies import rng
from tests.tolerance import PROMISED
from transalg.hyper import ClassifierHyper, DHyper, EDHyper, EHyper, GatoHyper, Hyper
from transalg.interop.onnx import empty_cache
from transalg.interop.onnx_modules import DecoderGraph, EncoderGraph, SourceGraph, TargetGraph
from transalg.interop.save import export_run
from transalg.model import build
from transalg.verify.batches import Batch, draw
from transalg.verify.cases import DEPARTURES, randomised, small

UNITS = {
    f"{kind.__name__}-{name}": (kind, fixed)
    for kind, variants in DEPARTURES.items()
    for name, fixed in variants.items()
    if fixed.get("positions") != "relative" and kind is not GatoHyper  # refused, both
}


def random_model(hyper: Hyper) -> Any:
    return randomised(build(hyper, dtype=torch.float64), rng(0)).eval()


@pytest.mark.parametrize("name", UNITS)
@torch.no_grad()
def test_graphs_compute_what_the_engine_computes(name: str) -> None:
    kind, fixed = UNITS[name]
    hyper = small(kind, **fixed)
    model, batch = random_model(hyper), draw(hyper, rng(1), rows=3, longest=7)
    mask = (torch.arange(batch.x.shape[1]) < torch.tensor(batch.x_lengths)[:, None]).long()
    x = batch.x * mask
    if kind is DHyper:
        ours = model(x)
        logits, keys, values = DecoderGraph(model)(x[:, :3], torch.ones_like(x[:, :3]), *in_double(hyper, 3))
        assert_close(logits, ours[:, :3], rtol=0, atol=PROMISED)
        logits, *_ = DecoderGraph(model)(x[:, 3:], torch.ones_like(x), keys, values)
        assert_close(logits, ours[:, 3:], rtol=0, atol=PROMISED)
    elif kind is EDHyper:
        assert batch.z is not None and batch.z_lengths is not None
        z_mask = (torch.arange(batch.z.shape[1]) < torch.tensor(batch.z_lengths)[:, None]).long()
        z, ours = batch.z * z_mask, model(batch.z * z_mask, x, batch.z_lengths)
        Z = SourceGraph(model)(z, z_mask)
        logits, keys, values = TargetGraph(model)(x[:, :3], Z, z_mask, *in_double(hyper, 3))
        assert_close(logits, ours[:, :3], rtol=0, atol=PROMISED)
        logits, *_ = TargetGraph(model)(x[:, 3:], Z, z_mask, keys, values)
        assert_close(logits, ours[:, 3:], rtol=0, atol=PROMISED)
    else:
        segments = None if batch.segments is None else batch.segments * mask
        theirs = EncoderGraph(model)(x, mask, segments)
        if kind is EHyper and hyper.head == "none":
            theirs = torch.unflatten(model.logits(theirs.flatten(0, 1)), 0, x.shape)
        ours = model(x, batch.x_lengths, segments)
        inside = mask[:, :, None] if kind is EHyper else 1
        assert_close(theirs * inside, ours, rtol=0, atol=PROMISED)


def in_double(hyper: Any, batch: int) -> list[torch.Tensor]:
    return [part.double() for part in empty_cache(hyper, batch).values()]


@torch.no_grad()
def test_padding_on_the_left_changes_nothing() -> None:
    hyper = small(DHyper, positions="rotary", d_attn=6)
    model = random_model(hyper)
    x = Batch(torch.tensor([[3, 5, 7, 2]]), (4,)).x
    padded, mask = torch.tensor([[0, 0, 3, 5, 7, 2]]), torch.tensor([[0, 0, 1, 1, 1, 1]])
    logits, *_ = DecoderGraph(model)(padded, mask, *in_double(hyper, 1))
    assert_close(logits[:, 2:], model(x), rtol=0, atol=PROMISED)


def session(path: Path) -> Any:
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: pip install -e '.[test]'")
    pytest.importorskip("onnxscript", reason="onnxscript is not installed: pip install -e '.[test]'")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1
    return runtime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


@pytest.mark.slow
def test_onnxruntime_runs_a_decoder(tmp_path: Path) -> None:
    pytest.importorskip("onnxscript", reason="onnxscript is not installed: pip install -e '.[test]'")
    model = {"d_e": 12, "positions": "rotary", "norm": "RMSnorm", "activation": "SwiGLU", "bias": "none", "H_kv": 1, "L": 1}
    export_run(random_run(tmp_path / "run", "lm", **model), "onnx", tmp_path / "out")
    assert sorted(path.name for path in (tmp_path / "out").glob("*.onnx*")) == ["model.onnx"]
    run, graph = transalg.load(tmp_path / "run"), session(tmp_path / "out" / "model.onnx")
    N_V = run.model.hyper.N_V
    for B, ell in ((1, 1), (2, 29), (3, 7)):
        x = torch.randint(N_V, (B, ell), generator=rng(B))
        cache = {name: part.numpy() for name, part in empty_cache(run.model.hyper, B).items()}  # type: ignore[arg-type]
        logits, *_ = graph.run(None, {"input_ids": x.numpy(), "attention_mask": np.ones((B, ell), np.int64), **cache})
        with torch.no_grad():
            assert_close(torch.from_numpy(logits), run.model(x), rtol=0, atol=1e-4)
    ids, cache = run.prompt_ids("a cat"), {name: part.numpy() for name, part in empty_cache(run.model.hyper, 1).items()}  # type: ignore[arg-type]
    new, fed = list[int](), ids
    for _ in range(7):  # one token at a time, with the cache
        total = np.ones((1, len(ids) + len(new)), np.int64)
        logits, keys, values = graph.run(None, {"input_ids": np.array([fed]), "attention_mask": total, **cache})
        fed, cache = [int(logits[0, -1].argmax())], {"past_keys": keys, "past_values": values}
        new += fed
    eos = run.tokenizer.eos_token
    assert run.completions(["a cat"], tau=0, ell_gen=7)[0][0].ids == (new[: new.index(eos)] if eos in new else new)


@pytest.mark.slow
def test_onnxruntime_runs_a_classifier(tmp_path: Path) -> None:
    pytest.importorskip("onnxscript", reason="onnxscript is not installed: pip install -e '.[test]'")
    export_run(random_run(tmp_path / "run", "classify", L=1, pooling="mean", head="tanh"), "onnx", tmp_path / "out")
    run, graph = transalg.load(tmp_path / "run"), session(tmp_path / "out" / "model.onnx")
    rows = [run.encode(text, "text") for text in ("a cat sat", "the dog", "ran")]
    x = torch.tensor([row + [0] * (len(rows[0]) - len(row)) for row in rows])
    mask = np.array([[1] * len(row) + [0] * (len(rows[0]) - len(row)) for row in rows])
    (logits,) = graph.run(None, {"input_ids": x.numpy(), "attention_mask": mask})
    with torch.no_grad():
        assert_close(torch.from_numpy(logits), run.model(x, [len(row) for row in rows]), rtol=0, atol=1e-4)
    assert ClassifierHyper is type(run.model.hyper)


def test_what_cannot_be_a_graph(tmp_path: Path) -> None:
    random_run(tmp_path / "run", "lm", positions="relative")
    with pytest.raises(ValueError, match=re.escape("onnx does not know positions=relative (line 2)")):
        export_run(tmp_path / "run", "onnx", tmp_path / "out")
    assert not (tmp_path / "out").exists()
