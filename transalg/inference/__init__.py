"""Algorithms 14 and 15 and all other uses of a trained model: on token IDs here, on text with `transalg.load`."""

from transalg.cpu import pack, quantize

from .beams import Hypothesis, predict, search
from .decoding import Continuation, continuations, generate
from .samplers import RepetitionPenalty, Sampler, Temperature, TopK, TopP, sampler_chain

__all__ = [
    "Continuation",
    "Hypothesis",
    "RepetitionPenalty",
    "Sampler",
    "Temperature",
    "TopK",
    "TopP",
    "continuations",
    "generate",
    "pack",
    "predict",
    "quantize",
    "sampler_chain",
    "search",
]
