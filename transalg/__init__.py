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

from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from transalg import cli as cli
    from transalg import cpu as cpu
    from transalg import data as data
    from transalg import evaluation as evaluation
    from transalg import formal as formal
    from transalg import hyper as hyper
    from transalg import inference as inference
    from transalg import interop as interop
    from transalg import model as model
    from transalg import optimisation as optimisation
    from transalg import runs as runs
    from transalg import tasks as tasks
    from transalg import tokenization as tokenization
    from transalg import trace as trace
    from transalg import training as training
    from transalg import verify as verify
    from transalg import worlds as worlds
    from transalg.hyper import preset as preset
    from transalg.inference.run import Run as Run
    from transalg.model import Classifier as Classifier
    from transalg.model import DTransformer as DTransformer
    from transalg.model import EDTransformer as EDTransformer
    from transalg.model import ETransformer as ETransformer
    from transalg.model import Gato as Gato
    from transalg.model import MixedBatch as MixedBatch
    from transalg.training.train import cross_validate as cross_validate
    from transalg.training.train import train as train

__version__ = "0.1.0"

# Names and sub-packages are imported when first used: the command line prints its help without torch.
_NAMES = {
    "preset": "transalg.hyper",
    "Run": "transalg.inference.run",
    **dict.fromkeys(("train", "cross_validate"), "transalg.training.train"),
    **dict.fromkeys(("DTransformer", "ETransformer", "EDTransformer", "Classifier", "Gato", "MixedBatch"), "transalg.model"),
}


def load(
    *folders: str | Path, device: str = "cpu", quantize: Literal["int8"] | None = None, checkpoint: Literal["best", "last"] = "best"
) -> "Run":
    """Load the run in a folder that `transalg train` made; several are an ensemble. With quantize="int8", weights have 8 bits.

    The best checkpoint, or the last one.
    """
    from transalg.inference.run import Run

    return Run.load(*folders, device=device, quantize=quantize, checkpoint=checkpoint)


def _packages() -> list[str]:
    """The sub-packages, from the files."""
    return sorted(path.parent.name for path in Path(__file__).parent.glob("*/__init__.py"))


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        return getattr(import_module(_NAMES[name]), name)
    if not name.startswith("_") and name in _packages():
        package: ModuleType = import_module(f"transalg.{name}")
        return package
    raise AttributeError(f"module 'transalg' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_NAMES, *_packages()})
