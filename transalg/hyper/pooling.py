"""Pooling: how a classifier gets one vector of a text from those of its tokens. `model/pooling.py` computes it, `formal/` states it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Pooling:
    """A way of pooling. It has no parameters."""

    doc: str
    every_token: bool  # whether lines 10 and 11 of Algorithm 9 run on every token, or on the first alone


POOLINGS: dict[str, Pooling] = {
    "bos": Pooling("the first token's vector, as BERT has it", every_token=False),
    "mean": Pooling("the mean over all tokens", every_token=True),
    "max": Pooling("the largest value of every feature over all tokens", every_token=True),
}
