"""One process or many: torchrun starts them, torch.distributed connects them, and the loop asks here."""

import os
from dataclasses import dataclass
from datetime import timedelta
from itertools import count
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.distributed_c10d import PrefixStore
from torch.distributed.rendezvous import rendezvous
from torch.nn.parallel import DistributedDataParallel


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
        """For all the others."""
        if self.size > 1:
            dist.barrier()

    def total(self, values: Tensor) -> Tensor:
        """The sum over all processes; in place."""
        if self.size > 1:
            dist.all_reduce(values)
        return values

    def agreed(self, value: bool) -> bool:
        """What the first process says."""
        return bool(self.total(torch.tensor(float(value and self.first))))

    def wrapped(self, objective: nn.Module, *, sharded: bool) -> nn.Module:
        """The objective of all processes: gradients are means over them."""
        if sharded:
            from transalg.model.sharding import shard  # takes a second to import

            return shard(objective)
        if self.size == 1:
            return objective
        return DistributedDataParallel(objective, device_ids=[self.device] if self.device.type == "cuda" else None)

    def end(self) -> None:
        if self.size > 1:
            dist.destroy_process_group()


def begin(device: str, *, sharded: bool) -> World:
    """Connect to the other processes that torchrun started, if there are any."""
    rank, size, local = (int(os.environ.get(name, default)) for name, default in (("RANK", "0"), ("WORLD_SIZE", "1"), ("LOCAL_RANK", "0")))
    where = device_named(device, local)
    if size > 1 or sharded:
        if "RANK" not in os.environ:
            raise ValueError("train.shard: expected several processes; start them with torchrun --nproc-per-node N -m transalg train …")
        options: dict[str, Any] = {"device_id": where} if where.type == "cuda" else {}
        if not dist.is_initialized():
            # torchrun may give processes that it starts again the store of those before, with the addresses of the dead in it
            store, rank, size = next(iter(rendezvous("env://")))
            attempt = PrefixStore(f"{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}-{next(_BEGUN)}", store)
            backend = "cpu:gloo,cuda:nccl" if where.type == "cuda" else "gloo"
            day = timedelta(days=1)  # the others wait while the first one tokenises
            dist.init_process_group(backend, store=attempt, rank=rank, world_size=size, timeout=day, **options)
    return World(rank, size, where)


_BEGUN = count()  # groups of this process, one for every fold


def launch() -> str | None:
    """What all attempts of one torchrun have in common; None without torchrun."""
    name = os.environ.get("TORCHELASTIC_RUN_ID")
    return None if name is None else f"{name} {os.getppid()}" if name == "none" else name


def restarted() -> bool:
    """Whether torchrun started these processes again because one of them died."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) > 0


def device_named(name: str, local: int = 0) -> torch.device:
    """The device of this name, if it is there; auto is an accelerator if there is one."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    try:
        device = torch.device(f"cuda:{local}" if name == "cuda" else name)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:
        raise ValueError(f"device: {name!r} is not there: {str(error).splitlines()[0]}") from error
    if device.type == "cuda":
        torch.cuda.set_device(device)
    return device
