"""Formal Algorithms for Transformers (Phuong & Hutter, 2022) as software.

>>> from transalg.formal import DTheta, DTransformer      # the paper, executable
>>> theta = DTheta.init(N_V=7, ell_max=5, L=2, H=2, d_e=6, d_mlp=11)
>>> P = DTransformer([5, 0, 3], theta)                     # column t is P̂(x[t+1] | x[1:t])
>>> P.shape
torch.Size([7, 3])

>>> import torch, transalg                                  # the engine: the same for batches
>>> model = transalg.DTransformer.from_theta(theta)
>>> logits = model(torch.tensor([[5, 0, 3]]))
>>> torch.allclose(logits.softmax(-1)[0].T, P)
True
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transalg.hyper import preset as preset
    from transalg.inference.run import Run as Run
    from transalg.model import Classifier as Classifier
    from transalg.model import DTransformer as DTransformer
    from transalg.model import EDTransformer as EDTransformer
    from transalg.model import ETransformer as ETransformer

__version__ = "0.1.0"

# Imported when first used: the command line prints its help without torch.
_WHERE = {
    "preset": "transalg.hyper",
    "Run": "transalg.inference.run",
    **dict.fromkeys(("DTransformer", "ETransformer", "EDTransformer", "Classifier"), "transalg.model"),
}


def load(*folders: Any, device: str = "cpu", quantize: Any = None) -> "Run":
    """The run in a folder that `transalg train` made, ready to use; of several, an ensemble. With quantize="int8", in 8 bits."""
    from transalg.inference.run import Run

    return Run.load(*folders, device=device, quantize=quantize)


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'transalg' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_WHERE[name]), name)


def __dir__() -> list[str]:
    return [*globals(), *_WHERE]
