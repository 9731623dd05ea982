"""The parameters of every model: their names and shapes, from the hyperparameters alone. No torch.

The engine makes its parameters from this list, and `cost` counts them. The names are the paper's; where one product does for several
matrices, they are one: 𝒲_qkv is W_q, W_k, W_v of all heads, above one another. A matrix has a row for each of its outputs, an embedding
matrix a row for each token or position: W_e here is the transpose of the paper's.
"""

from transalg.hyper.hyper import ClassifierHyper, DHyper, EDHyper, EHyper, Hyper

Shapes = dict[str, tuple[int, ...]]


def shapes(hyper: Hyper) -> Shapes:
    """The shape of every parameter of the engine's model, under its name."""
    H, d_attn, d_mid = hyper.heads
    d_e, d_mlp = hyper.d_e, hyper.d_mlp
    found: Shapes = {"W_e": (hyper.N_V, d_e)}

    def norm(gamma: str, width: int = d_e) -> None:
        found[gamma] = (width,)
        if hyper.norm == "layer_norm":
            found[gamma.replace("gamma", "beta")] = (width,)

    def linear(name: str, rows: int, columns: int) -> None:
        found[name] = (rows, columns)
        found["b_".join(name.rsplit("W_", 1))] = (rows,)

    def attention(name: str, *, cross: bool = False, d_r: int | None = None) -> None:
        if cross:
            linear(f"{name}.W_q", H * d_attn, d_e)
            linear(f"{name}.W_kv", H * (d_attn + d_mid), d_e)
        else:
            linear(f"{name}.W_qkv", H * (2 * d_attn + d_mid), d_e)
        linear(f"{name}.W_o", d_e, H * d_mid)
        if d_r:
            found.update({f"{name}.W_r": (H * d_attn, d_r), f"{name}.u": (H, d_attn), f"{name}.w": (H, d_attn)})

    def layers(name: str, count: int, d_r: int | None = None) -> None:
        for l in range(count):
            attention(f"{name}.{l}.W", d_r=d_r)
            norm(f"{name}.{l}.gamma1")
            linear(f"{name}.{l}.W_mlp1", d_mlp, d_e)
            linear(f"{name}.{l}.W_mlp2", d_e, d_mlp)
            norm(f"{name}.{l}.gamma2")

    if hyper.positions == "learned":
        found["W_p"] = (hyper.ell_max, d_e)
    d_u = d_e
    if isinstance(hyper, DHyper):
        layers("layers", hyper.L, hyper.d_r)
        norm("gamma")
    elif isinstance(hyper, EHyper):
        assert hyper.d_f is not None
        d_u = hyper.d_f
        if hyper.segments:
            found["W_s"] = (hyper.segments, d_e)
        if hyper.embedding_norm:
            norm("gamma_e")
        layers("layers", hyper.L)
        linear("W_f", d_u, d_e)
        norm("gamma", d_u)
    elif isinstance(hyper, EDHyper):
        layers("enc", hyper.L_enc)
        for l in range(hyper.L_dec):
            attention(f"dec.{l}.W_dec")
            attention(f"dec.{l}.W_ed", cross=True)
            linear(f"dec.{l}.W_mlp3", d_mlp, d_e)
            linear(f"dec.{l}.W_mlp4", d_e, d_mlp)
            for gamma in ("gamma3", "gamma4", "gamma5"):
                norm(f"dec.{l}.{gamma}")
        if hyper.norm_first:
            norm("gamma_enc")
            norm("gamma_dec")
    if isinstance(hyper, ClassifierHyper):
        linear("W_c", hyper.N_C, d_u)
    else:
        if not hyper.tied:
            found["W_u"] = (hyper.N_V, d_u)
        if isinstance(hyper, EHyper) and hyper.output_bias:
            found["b_u"] = (hyper.N_V,)
    return found
