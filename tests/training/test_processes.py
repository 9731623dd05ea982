"""The losses with many processes: gradients are the mean over them, whether replicated or sharded."""

import os
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as multiprocessing
from safetensors.torch import load_file, save_file
from torch.distributed.device_mesh import init_device_mesh
from torch.nn.parallel import DistributedDataParallel
from torch.testing import assert_close

from tests.strategies import rng
from tests.tolerance import tolerance
from transalg.hyper import DHyper, EDHyper
from transalg.model import DTransformer, EDTransformer
from transalg.model.sharding import shard
from transalg.tasks import find
from transalg.tasks.losses import D_loss, Objective
from transalg.training.processes import World
from transalg.verify.cases import small

pytestmark = pytest.mark.slow

IDS = torch.randint(20, (2, 3, 7), generator=rng(1))  # for each of two processes, three rows


def make(shared: int = 1) -> DTransformer:
    return DTransformer(small(DHyper, tied=True, L=3, shared=shared), dtype=torch.float64, generator=rng(0))


def leave() -> None:
    """Without taking anything apart: the end of a FileStore may wait for a file that the other process has removed."""
    dist.barrier()
    os._exit(0)


def process(rank: int, folder: str, sharded: bool, shared: int) -> None:
    """One of two: its own rows, and what it has for a gradient, written to a file."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", store=dist.FileStore(os.path.join(folder, "store"), 2), rank=rank, world_size=2)
    model = make(shared)
    objective = Objective(find("lm"), model)
    objective = shard(objective, init_device_mesh("cpu", (2,))) if sharded else DistributedDataParallel(objective)
    objective(IDS[rank]).backward()
    world = World(rank, 2, torch.device("cpu"))
    assert [world.agreed(rank == who) for who in range(2)] == [True, False], "the first decides"
    gradients = {name: part.grad.full_tensor() if sharded else part.grad for name, part in model.named_parameters()}
    save_file(gradients, os.path.join(folder, f"{rank}.safetensors"))
    leave()


@pytest.mark.parametrize("shared", [1, 2])
def test_two_processes_have_the_gradient_of_one(tmp_path: Path, shared: int) -> None:
    model = make(shared)
    D_loss(model, IDS.flatten(0, 1)).backward()
    expected = {name: part.grad for name, part in model.named_parameters()}
    for sharded in (False, True):
        folder = tmp_path / str(sharded)
        folder.mkdir()
        multiprocessing.spawn(process, (str(folder), sharded, shared), nprocs=2)
        for rank in range(2):
            assert_close(
                load_file(folder / f"{rank}.safetensors"), expected, rtol=0, atol=tolerance(torch.float64, terms=2 * 3 * 7, depth=4)
            )


def decoding(rank: int, folder: str) -> None:
    """One of two that decode with half of each parameter."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", store=dist.FileStore(os.path.join(folder, "store"), 2), rank=rank, world_size=2)
    mesh = init_device_mesh("cpu", (2,))
    with torch.no_grad():
        logits = decoded(shard(make(shared=2), mesh), shard(make_pairs(), mesh))
    save_file(logits, os.path.join(folder, f"{rank}.safetensors"))
    leave()


def make_pairs() -> EDTransformer:
    return EDTransformer(small(EDHyper), dtype=torch.float64, generator=rng(2))


def decoded(one: DTransformer, pairs: EDTransformer) -> dict[str, torch.Tensor]:
    """Logits of a prefill of five tokens and of two more."""
    x = IDS[0]
    logits = {}
    for name, model, cache in (("D", one, one.cache(3)), ("ED", pairs, pairs.cache(IDS[1], [7, 5, 2]))):
        logits[name] = torch.cat([model.decode(x[:, :5], cache), model.decode(x[:, 5:], cache)], dim=1)
    return logits


def test_decoding_with_sharded_models(tmp_path: Path) -> None:
    multiprocessing.spawn(decoding, (str(tmp_path),), nprocs=2)
    for rank in range(2):
        assert_close(
            load_file(tmp_path / f"{rank}.safetensors"),
            decoded(make(shared=2), make_pairs()),
            rtol=0,
            atol=tolerance(torch.float64, terms=2 * 3 * 7, depth=4),
        )
