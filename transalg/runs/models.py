"""The model of a run: loaded from its folder, on a device."""

from pathlib import Path

import torch

from transalg.model import build
from transalg.model.architectures import Model
from transalg.runs import folder as run_folder
from transalg.runs.metadata import Metadata

DEVICES = ("cpu", "cuda", "mps")


def load_model(
    run: Path, device: torch.device | str = "cpu", checkpoint: run_folder.Checkpoint = run_folder.BEST
) -> tuple[Model, Metadata]:
    """The best or the last model of a run, ready for inference, and its metadata. Before the first validation there is only a last one."""
    tensors, metadata = run_folder.load_checkpoint(run, checkpoint)
    model = build(metadata.hyper, device="meta")
    model.load_state_dict({name: tensor.to(device) for name, tensor in tensors.items()}, assign=True)
    model.requires_grad_(True)  # which assigned tensors do not
    return model.eval(), metadata


def device_named(name: str, local_rank: int = 0) -> torch.device:
    """The device of this name, if it is available; auto is an accelerator if there is one."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    kind, colon, index = name.partition(":")
    if kind not in DEVICES or (colon and not (kind == "cuda" and index.isdecimal() and len(index) < 4)):
        raise ValueError(f"device: expected cpu, cuda, cuda:1, mps or auto, got {name[:40]!r}")
    try:
        device = torch.device(f"cuda:{local_rank}" if name == "cuda" else name)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:
        raise ValueError(f"device: {name!r} is not available on this machine; cpu is") from error
    if device.type == "cuda":
        torch.cuda.set_device(device)
    return device
