"""One process or many: torchrun starts them, torch.distributed connects them."""

import os
from dataclasses import dataclass
from datetime import timedelta
from itertools import count

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.distributed_c10d import PrefixStore
from torch.distributed.rendezvous import rendezvous
from torch.nn.parallel import DistributedDataParallel

from transalg.runs.models import device_named


@dataclass(frozen=True)
class World:
    """The processes of a run, and which of them this is."""

    rank: int
    size: int
    device: torch.device

    @property
    def first(self) -> bool:
        return self.rank == 0

    def wait(self) -> None:
        """Until all processes are here."""
        if self.size > 1:
            dist.barrier()

    def total(self, values: Tensor) -> Tensor:
        """The sum over all processes; in place."""
        if self.size > 1:
            dist.all_reduce(values)
        return values

    def agreed(self, value: bool) -> bool:
        """The first process's value, for all."""
        return bool(self.total(torch.tensor(float(value and self.first))))

    def wrapped(self, objective: nn.Module, *, sharded: bool) -> nn.Module:
        """The objective for all processes: gradients are means over them."""
        if sharded:
            from transalg.model.sharding import shard  # takes a second to import

            return shard(objective)
        if self.size == 1:
            return objective
        return DistributedDataParallel(objective, device_ids=[self.device] if self.device.type == "cuda" else None)

    def end(self) -> None:
        if self.size > 1:
            dist.destroy_process_group()


def connect(device: str, *, sharded: bool) -> World:
    """Connect to the other processes that torchrun started, if there are any."""
    rank, size, local = (int(os.environ.get(name, default)) for name, default in (("RANK", "0"), ("WORLD_SIZE", "1"), ("LOCAL_RANK", "0")))
    this_device = device_named(device, local)
    if size > 1 or sharded:
        if "RANK" not in os.environ:
            raise ValueError("train.shard: expected several processes; start them with torchrun --nproc-per-node N -m transalg train …")
        if not dist.is_initialized():
            # torchrun may give restarted processes the store of those before, with the addresses of the dead in it
            store, rank, size = next(iter(rendezvous("env://")))
            attempt = PrefixStore(f"{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}-{next(_GROUPS)}", store)
            cuda = this_device.type == "cuda"
            dist.init_process_group(
                "cpu:gloo,cuda:nccl" if cuda else "gloo",
                store=attempt,
                rank=rank,
                world_size=size,
                timeout=timedelta(days=1),  # the others wait while the first one tokenises
                device_id=this_device if cuda else None,
            )
    return World(rank, size, this_device)


_GROUPS = count()  # of this process, one for every fold


def launch() -> str | None:
    """A name that all attempts of one torchrun share; None without torchrun."""
    name = os.environ.get("TORCHELASTIC_RUN_ID")
    return None if name is None else f"{name} {os.getppid()}" if name == "none" else name


def restarted() -> bool:
    """Whether torchrun started these processes again because one of them died."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) > 0
