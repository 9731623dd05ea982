"""Models of runs: made from hyperparameters, or loaded from a run's folder, on a device."""

from pathlib import Path

import torch

from transalg.hyper import ClassifierHyper, DHyper, EDHyper, EHyper, Hyper
from transalg.model import Classifier, DTransformer, EDTransformer, ETransformer
from transalg.model.architectures import Transformer
from transalg.runs import folder as run_folder
from transalg.runs.metadata import Metadata

MODELS: dict[type[Hyper], type[Transformer]] = {
    DHyper: DTransformer,
    EHyper: ETransformer,
    ClassifierHyper: Classifier,
    EDHyper: EDTransformer,
}


def build(
    hyper: Hyper,
    *,
    device: torch.device | str | None = None,
    dtype: torch.dtype | None = None,
    generator: torch.Generator | None = None,
) -> Transformer:
    """A new model with these hyperparameters."""
    return MODELS[type(hyper)](hyper, device=device, dtype=dtype, generator=generator)


def load_best(run: Path, device: torch.device | str = "cpu") -> tuple[Transformer, Metadata]:
    """The best model of a run, ready for inference, and its metadata."""
    metadata = run_folder.best_metadata(run)
    model = build(metadata.hyper, device="meta")
    model.load_state_dict({name: tensor.to(device) for name, tensor in run_folder.best_tensors(run).items()}, assign=True)
    model.requires_grad_(True)  # which assigned tensors do not
    return model.eval(), metadata


def device_named(name: str, local_rank: int = 0) -> torch.device:
    """The device of this name, if it is available; auto is an accelerator if there is one."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    try:
        device = torch.device(f"cuda:{local_rank}" if name == "cuda" else name)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:
        raise ValueError(f"device: {name!r} is not available: {str(error).splitlines()[0]}") from error
    if device.type == "cuda":
        torch.cuda.set_device(device)
    return device
