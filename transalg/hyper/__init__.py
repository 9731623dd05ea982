"""Hyperparameters: frozen dataclasses whose defaults are the paper, every departure of a published system one named field.

No torch here: the command line reads this to print its help.

>>> DHyper(N_V=100, ell_max=64, L=2, H=4, d_e=32, d_mlp=128).departures()
{}
>>> sorted(preset("gpt2").departures())
['activation', 'attention_dropout', 'dropout', 'init_residual', 'init_std', 'tied']
"""

from .hyper import ClassifierHyper, DHyper, EDHyper, EHyper, GatoHyper, Hyper, from_dict
from .presets import PRESETS, Preset, find, preset
from .special import HasSpecialTokens, SpecialTokens

__all__ = [
    "PRESETS",
    "ClassifierHyper",
    "DHyper",
    "EDHyper",
    "EHyper",
    "GatoHyper",
    "HasSpecialTokens",
    "Hyper",
    "Preset",
    "SpecialTokens",
    "find",
    "from_dict",
    "preset",
]
