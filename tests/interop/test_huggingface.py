"""Models that transformers wrote: imported, they give the same logits, hidden states and gradients."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

import transalg
from tests.interop.peers import N_V, PEERS, saved
from tests.parity.compare import InDouble
from tests.tolerance import PROMISED
from transalg.inference.run import Run
from transalg.interop.families import family_of
from transalg.interop.load import import_checkpoint
from transalg.interop.names import joined
from transalg.interop.settings import Settings
from transalg.model import Classifier, EDTransformer, ETransformer

B, ELL = 2, 13


def imported(folder: Path, out: Path) -> Run:
    import_checkpoint(str(folder), out, tokenizer="ids")
    return transalg.load(out)


def ids(seed: int, ell: int = ELL) -> Tensor:
    return torch.randint(N_V, (B, ell), generator=torch.Generator().manual_seed(seed))


def inputs(model: torch.nn.Module) -> tuple[tuple[Tensor, ...], dict[str, Tensor]]:
    """For ours, and for theirs."""
    x, z = ids(0), ids(1, 7)
    if isinstance(model, EDTransformer):
        return (z, x), {"input_ids": z, "decoder_input_ids": x, "attention_mask": torch.ones_like(z)}
    if isinstance(model, ETransformer | Classifier):
        segments = torch.arange(ELL).expand(B, -1) % model.hyper.segments
        return (x, None, segments), {"input_ids": x, "token_type_ids": segments, "attention_mask": torch.ones_like(x)}  # type: ignore[return-value]
    return (x,), {"input_ids": x}


def hidden(model: Any, arguments: tuple[Any, ...]) -> list[Tensor]:
    """What goes into every layer of ours, and what comes out of the last."""
    layers = model.in_order("dec" if isinstance(model, EDTransformer) else "layers")
    seen: list[Tensor] = []
    hooks = [layer.register_forward_pre_hook(lambda module, given: seen.append(given[0])) for layer in layers]
    last = model.encode(*arguments)[0] if isinstance(model, ETransformer | Classifier) else model.features(*arguments)[0]
    for hook in hooks:
        hook.remove()
    return [X.view(B, -1, X.shape[1]) for X in (*seen, last)]


@pytest.mark.parametrize("name", PEERS)
def test_logits_hidden_states_and_gradients(name: str, tmp_path: Path) -> None:
    peer = saved(name, tmp_path / "theirs")
    run = imported(tmp_path / "theirs", tmp_path / "ours")
    model = run.model
    assert model.dtype == torch.float64
    ours, theirs = inputs(model)
    with InDouble():
        output = peer(**theirs, output_hidden_states=True)
    states = output.decoder_hidden_states if isinstance(model, EDTransformer) else output.hidden_states
    for one, other in zip(hidden(model, ours), states, strict=True):
        assert_close(one, other, rtol=0, atol=PROMISED)
    if name == "bert bare":
        return
    logits = model(*ours)
    assert_close(logits, output.logits, rtol=0, atol=PROMISED)
    weights = torch.randn(logits.shape, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    for part in (logits, output.logits):
        (part.log_softmax(-1) * weights).sum().backward()
    compare_gradients(model, peer)


def compare_gradients(model: Any, peer: Any) -> None:
    config = Settings(peer.config.to_dict())
    config = Settings(dict(config.values) | {"architectures": [type(peer).__name__]})
    named = dict(peer.named_parameters()) | dict(peer.named_buffers())
    family = family_of(config)

    def gradient(name: str) -> Tensor:
        name = next(one for one in (name, *family.aliases.get(name, ())) if one in named)
        total = named[name].grad
        for copy, original in family.repeated.items():  # one table of ours is two of theirs
            total = total + named[copy].grad if original == name else total
        return torch.zeros_like(named[name]) if total is None else total

    for name, theirs in joined(model.hyper, family.sources, gradient):
        if name != "b_u" or peer.config.model_type == "bert":  # elsewhere it is a buffer, which is not trained
            assert_close(model.get_parameter(name).grad, theirs, rtol=0, atol=PROMISED, msg=lambda text, name=name: f"{name}: {text}")


def test_float32_is_close(tmp_path: Path) -> None:
    from tests.interop.peers import peer

    theirs = peer("llama").float()
    theirs.save_pretrained(tmp_path / "theirs")
    run = imported(tmp_path / "theirs", tmp_path / "ours")
    assert run.model.dtype == torch.float32
    x = ids(0)
    with torch.no_grad():
        assert_close(run.model(x), theirs(x).logits, rtol=0, atol=1e-4)
