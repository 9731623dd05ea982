"""Fast inference on CPUs: `pack(model)` and `quantize(model)` give a wrapped copy that decodes faster. `transalg.model` knows nothing of it."""

from .packing import pack, packed, quantize

__all__ = ["pack", "packed", "quantize"]
