"""The embedding (line 2): what turns a token into a vector. Its parameters; `model/embedding.py` computes it, `formal/embedding.py` states it.

Gato's is in `model/gato.py` and `formal/gato.py`.
"""

from transalg.hyper.heads import Shapes
from transalg.hyper.hyper import EHyper, GatoHyper, Hyper
from transalg.hyper.modalities import PATCH
from transalg.hyper.norm import NORMS
from transalg.hyper.positions import POSITIONS

# matrices that are looked up, not multiplied by: a row for each token, position, segment, index within a timestep, or place in an image
TABLES = ("W_e", "W_p", "W_s", "W_loc", "W_row", "W_col")
PATCHES = "W_res"  # the part of Gato's embedding that image patches go through


def shapes(hyper: Hyper) -> Shapes:
    """Tokens, positions; segments, a norm, and what other modalities take where the model has them."""
    result: Shapes = {"W_e": (hyper.N_V, hyper.d_e)} | POSITIONS[hyper.positions].shapes(hyper)
    if isinstance(hyper, EHyper) and hyper.segments:
        result["W_s"] = (hyper.segments, hyper.d_e)
    if isinstance(hyper, EHyper) and hyper.embedding_norm:
        result |= NORMS[hyper.norm].shapes("gamma_e", hyper.d_e)
    if isinstance(hyper, GatoHyper):
        result |= {"W_loc": (hyper.N_loc, hyper.d_e), "w_a": (hyper.d_e,)}
        result |= {"W_row": (hyper.N_grid, hyper.d_e), "W_col": (hyper.N_grid, hyper.d_e)}
        result |= {f"{PATCHES}.{name}": shape for name, shape in patch_shapes(hyper).items()}
    return result


def patch_shapes(hyper: GatoHyper) -> Shapes:
    """The ResNet block: three sets of kernels, two norms, and a map to the residual stream."""
    C_r, k_0, k = hyper.C_r, hyper.k_0, hyper.k
    norms: Shapes = dict.fromkeys(("gamma1", "beta1", "gamma2", "beta2"), (C_r,))
    kernels: Shapes = {"K_0": (C_r, hyper.C, k_0, k_0), "K_1": (C_r, C_r, k, k), "K_2": (C_r, C_r, k, k)}
    return kernels | norms | {"W_z": (hyper.d_e, hyper.d_Z), "b_z": (hyper.d_e,)}


def patch_flops(hyper: GatoHyper) -> float:
    """Multiplications and additions of the ResNet block for one image patch, beside those of `cost.flops_per_token`."""
    places = hyper.d_Z // hyper.C_r
    shapes = patch_shapes(hyper)
    kernels = sum(hyper.C_r * n * k * k for n, k in ((hyper.C, hyper.k_0), (hyper.C_r, hyper.k), (hyper.C_r, hyper.k)))
    return 2.0 * (kernels * places + shapes["W_z"][0] * shapes["W_z"][1])


def patch_activations(hyper: GatoHyper) -> int:
    """Numbers that a training step keeps of one image patch: its pixels, what goes into each norm, activation, kernel and map, and moments."""
    return hyper.C * PATCH**2 + 7 * hyper.d_Z + 4 * hyper.G
