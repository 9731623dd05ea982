"""What is counted from hyperparameters alone is what the models have and do."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from tests.model.models import UNITS
from tests.strategies import rng
from transalg.hyper import PRESETS, ClassifierHyper, DHyper, EDHyper, GatoHyper, Hyper, cost
from transalg.hyper.embedding import patch_activations, patch_flops
from transalg.hyper.shapes import shapes
from transalg.model import Classifier, DTransformer, EDTransformer, Gato, build
from transalg.model.mask import MASKS
from transalg.verify.batches import draw_mixed
from transalg.verify.cases import DEPARTURES, MODELS, small

SIZES = {"N_V": 101, "ell_max": 256, "H": 4, "d_e": 64, "d_mlp": 256}
ALL = [small(kind, **departures) for kind, variants in DEPARTURES.items() for departures in variants.values()]


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_on_the_meta_device_has_as_many_parameters(name: str) -> None:
    """175 B numbers, and no memory."""
    hyper = PRESETS[name].hyper
    model = MODELS[type(hyper)](hyper, device="meta")
    assert sum(parameter.numel() for parameter in model.parameters()) == cost.parameters(hyper)


@pytest.mark.parametrize("hyper", ALL, ids=str)
def test_the_model_has_these_shapes(hyper) -> None:
    model = MODELS[type(hyper)](hyper, device="meta")
    assert {name: tuple(parameter.shape) for name, parameter in model.named_parameters()} == shapes(hyper)


@contextmanager
def counted() -> Iterator[FlopCounterMode]:
    """Torch counts the plain attention kernel, not the fused one of CPUs."""
    with sdpa_kernel(SDPBackend.MATH), torch.no_grad(), FlopCounterMode(display=False) as counter:
        yield counter


COUNTED = {name: hyper for name, hyper in UNITS.items() if "band" not in name}  # a band has its own kernel, and its own test below


@pytest.mark.parametrize("hyper", COUNTED.values(), ids=COUNTED)
def test_arithmetic_is_as_torch_counts_it(hyper: Hyper) -> None:
    """Torch counts causal attention in full, so the halves that causality hides are added."""
    ell, B = 7, 2
    ids: Any = torch.zeros(B, ell, dtype=torch.long)
    more = 0.0
    if isinstance(hyper, GatoHyper):
        ids = draw_mixed(hyper, ids, (ell,) * B, rng(0))
        more = len(ids.patches) * patch_flops(hyper) / (B * ell)
        assert more
    with counted() as counter:
        build(hyper).eval()(*[ids] * (2 if isinstance(hyper, EDHyper) else 1))
    masks = [hyper.mask(stack, l) for stack, count in hyper.stacks.items() for l in range(count)]
    hidden = sum(float((~MASKS[type(mask)].formal(mask, ell)).sum()) / ell for mask in masks)
    hidden = hyper.heads.flops(hidden) + (2 * hidden * hyper.H * hyper.d_attn if hyper.positions == "relative" else 0)
    assert counter.get_total_flops() / (B * ell) == pytest.approx(cost.flops_per_token(hyper, ell, B) + hidden + more, rel=1e-9)


def test_a_classifier_s_head_runs_on_one_token() -> None:
    hyper = ClassifierHyper(L=2, N_C=5, **SIZES)
    ids = torch.zeros(3, 16, dtype=torch.long)
    with counted() as counter:
        Classifier(hyper)(ids)
    assert counter.get_total_flops() / (3 * 16) == pytest.approx(cost.flops_per_token(hyper, 16), rel=1e-3)


def test_a_band_costs_its_width() -> None:
    """Twice the tokens cost a banded layer no more a token, a dense one twice the attention."""
    dense, banded = DHyper(L=2, **SIZES), DHyper(L=2, band=8, **SIZES)
    grown = [cost.flops_per_token(hyper, 256) - cost.flops_per_token(hyper, 128) for hyper in (dense, banded)]
    assert grown[1] == pytest.approx(grown[0] / 2, rel=0.01)  # one of its two layers is dense


def saved_bytes(model: torch.nn.Module, *ids: torch.Tensor) -> int:
    """Bytes that autograd saves beyond the parameters."""
    parameters = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    seen: dict[int, tuple[int, torch.Tensor]] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in parameters:
            seen[storage.data_ptr()] = storage.nbytes(), tensor
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        model.features(*ids)
    return sum(size for size, _ in seen.values())


SIZED = ("ell_max", "d_r", "d_attn", "d_rot", "H")  # which some cases take with them
DECODER_DEPARTURES = [{name: value for name, value in fixed.items() if name not in SIZED} for fixed in DEPARTURES[DHyper].values()]


@pytest.mark.parametrize("departures", [*DECODER_DEPARTURES, {"dropout": 0.1}, {"attention_dropout": 0.1}], ids=str)
def test_activations_of_a_decoder(departures: dict) -> None:
    hyper = DHyper(L=4, **SIZES, **departures | ({"band": 300} if "band" in departures else {}))
    ids = torch.zeros(2, 256, dtype=torch.long)
    assert saved_bytes(DTransformer(hyper), ids) == pytest.approx(cost.activations(hyper, 256) * ids.numel() * 4, rel=0.05)


@pytest.mark.parametrize("departures", [{}, {"norm_first": True}], ids=str)
def test_activations_of_an_encoder_decoder(departures: dict) -> None:
    hyper = EDHyper(L_enc=3, L_dec=5, **SIZES, **departures)
    ids = torch.zeros(2, 256, dtype=torch.long)
    assert saved_bytes(EDTransformer(hyper), ids, ids) == pytest.approx(cost.activations(hyper, 256) * ids.numel() * 4, rel=0.05)


def test_activations_of_image_patches() -> None:
    """What autograd saves grows with each patch by as much as is counted."""
    block = Gato(GatoHyper(L=1, **SIZES)).W_res
    saved = []
    for count in (1, 3):
        kept: dict[int, int] = {}

        def pack(tensor: torch.Tensor, kept: dict[int, int] = kept) -> torch.Tensor:
            kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            result = block(torch.zeros(count, 3, 16, 16))
        assert len(result) == count
        saved.append(sum(kept.values()) / 4)
    assert (saved[1] - saved[0]) / 2 == pytest.approx(patch_activations(GatoHyper(L=1, **SIZES)), rel=0.02)


def test_the_cache_takes_what_is_said() -> None:
    hyper = DHyper(L=3, **SIZES | {"d_attn": 5, "d_mid": 7})
    assert DTransformer(hyper).cache(3, ell=17).bytes == cost.cache_bytes(hyper, 17, 3)
    pair = EDHyper(L_enc=1, L_dec=2, **SIZES)
    assert EDTransformer(pair).cache(torch.zeros(3, 17, dtype=torch.long), ell=17).bytes == cost.cache_bytes(pair, 17, 3)


@pytest.mark.parametrize("hyper", [small(kind) for kind in DEPARTURES], ids=str)
def test_sharded_over_one_process_every_part_is_complete(hyper) -> None:
    one_process, unsharded = cost.sharded_train_bytes(hyper, 7, 3, 1), cost.train_bytes(hyper, 7, 3)
    assert all(one_process[name] == unsharded[name] for name in ("weights", "gradients", "AdamW's two moments", "logits"))
    halves = cost.sharded_train_bytes(hyper, 7, 3, 2)
    assert all(halves[name] == -(-one_process[name] // 2) for name in ("weights", "gradients", "AdamW's two moments"))
    assert halves["gathered layers"] == one_process["gathered layers"]
    assert cost.traffic_bytes(hyper, 1, sharded=True) == 0
    assert cost.traffic_bytes(hyper, 2, sharded=True) == round(1.5 * cost.parameters(hyper) * 4)
    assert cost.traffic_bytes(hyper, 2, sharded=False) == cost.parameters(hyper) * 4


def test_recomputing_keeps_as_much_as_is_counted() -> None:
    """Bytes that autograd saves, with layers recomputed and without."""
    hyper = DHyper(**SIZES | {"N_V": 11}, L=6)
    saved = {}
    for recompute in (False, True):
        model = DTransformer(hyper)
        model.checkpointing = recompute
        total = set()

        def pack(tensor, total=total):
            total.add((tensor.untyped_storage().data_ptr(), tensor.untyped_storage().nbytes()))
            return tensor

        parameters = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            model.features(torch.zeros(2, 256, dtype=torch.long))
        saved[recompute] = sum(size for place, size in total if place not in parameters) / (2 * 256 * 4)
    assert saved[True] < saved[False] / 8
    inputs = hyper.L * hyper.d_e
    assert inputs <= saved[True] <= 1.5 * inputs + 3 * hyper.d_e, "what goes into each layer"
