"""llama2.c's files: seven integers, then all layers' parameters of one kind after those of another, in float32; and its tokenizers."""

import struct
from collections.abc import Iterator
from math import prod
from pathlib import Path

import numpy as np
import tokenizers
import torch
from torch import Tensor

from transalg.hyper import DHyper, SpecialTokens
from transalg.interop.checkpoint import Checkpoint
from transalg.interop.names import halves
from transalg.interop.pieces import SPACE, beginning_with, sentence_pieces
from transalg.interop.settings import LAYERS
from transalg.interop.vocabulary import IDS, read_vocabulary

HEADER = struct.Struct("<7i")
UNKNOWN, BOS, EOS = 0, 1, 2
SUFFIX = ".bin"


def read(path: Path, tokenizer: str | None = None) -> Checkpoint:
    """The checkpoint in a file; its tokenizer is another file."""
    hyper = _hyper(path)
    numbers = np.memmap(path, "<f4", "r", offset=HEADER.size)
    places, end = _places(hyper), 0
    offsets: dict[str, int] = {}
    for name, shape in places.items():
        offsets[name], end = end, end + prod(shape)
    if end != len(numbers):
        raise ValueError(f"{path}: expected {HEADER.size + 4 * end:,} bytes, as its sizes imply, got {path.stat().st_size:,}")

    def part(name: str, l: int | None = None) -> Tensor:
        shape = places[name]
        start, shape = (offsets[name], shape) if l is None else (offsets[name] + l * prod(shape[1:]), shape[1:])
        return torch.from_numpy(np.array(numbers[start : start + prod(shape)])).view(shape)

    core = _tokenizer(path, tokenizer, hyper.N_V)
    special = SpecialTokens(None, BOS, EOS)
    return Checkpoint(hyper=hyper.replace(special=special), tensors=_tensors(hyper, part), dtype=torch.float32, core=core)


def _hyper(path: Path) -> DHyper:
    try:
        with path.open("rb") as file:
            header = file.read(HEADER.size)
    except OSError as error:
        raise ValueError(f"{path}: cannot be read: {error.strerror}") from error
    if len(header) < HEADER.size:
        raise ValueError(f"{path}: not a file of llama2.c: expected seven integers at its beginning")
    d_e, d_mlp, L, H, H_kv, N_V, ell_max = HEADER.unpack(header)
    if min(d_e, d_mlp, L, H, H_kv, abs(N_V), ell_max) < 1 or L > LAYERS:
        raise ValueError(f"{path}: not a file of llama2.c: expected sizes at its beginning, got {HEADER.unpack(header)}")
    try:
        return DHyper(
            N_V=abs(N_V), ell_max=ell_max, L=L, H=H, H_kv=H_kv, d_e=d_e, d_mlp=d_mlp, tied=N_V > 0,
            positions="rotary", norm="RMSnorm", activation="SwiGLU", bias="none",
        )  # fmt: skip
    except ValueError as error:
        raise ValueError(f"{path}: not a file of llama2.c: {error}") from error


def _places(hyper: DHyper) -> dict[str, tuple[int, ...]]:
    """What stands in the file, in its order."""
    L, d_e, heads = hyper.L, hyper.d_e, hyper.heads
    q, kv = heads.H * heads.d_attn, heads.H_kv * heads.d_attn
    shapes: dict[str, tuple[int, ...]] = {
        "W_e": (hyper.N_V, d_e), "gamma1": (L, d_e), "q": (L, q, d_e), "k": (L, kv, d_e), "v": (L, kv, d_e), "o": (L, d_e, q),
        "gamma2": (L, d_e), "gate": (L, hyper.d_mlp, d_e), "down": (L, d_e, hyper.d_mlp), "up": (L, hyper.d_mlp, d_e), "gamma": (d_e,),
        "angles": (2, hyper.ell_max, heads.d_attn // 2),  # cosines and sines, which newer versions compute
    }  # fmt: skip
    return shapes | ({} if hyper.tied else {"W_u": (hyper.N_V, d_e)})


def _tensors(hyper: DHyper, part) -> Iterator[tuple[str, Tensor]]:  # type: ignore[no-untyped-def]
    """In the order of `shapes`."""
    heads = hyper.heads
    yield "W_e", part("W_e")
    for l in range(hyper.L):
        yield f"layers.{l}.W.W_qkv", torch.cat([halves(part("q", l), heads.H), halves(part("k", l), heads.H_kv), part("v", l)])
        yield f"layers.{l}.W.W_o", part("o", l)
        yield f"layers.{l}.gamma1", part("gamma1", l)
        yield f"layers.{l}.W_glu1", torch.cat([part("gate", l), part("up", l)])
        yield f"layers.{l}.W_mlp2", part("down", l)
        yield f"layers.{l}.gamma2", part("gamma2", l)
    yield "gamma", part("gamma")
    if not hyper.tied:
        yield "W_u", part("W_u")


def _tokenizer(path: Path, chosen: str | None, N_V: int) -> tokenizers.Tokenizer:
    beside = path.with_name("tokenizer.bin")
    if chosen is None and beside.exists():
        chosen = str(beside)
    if chosen is None:
        raise ValueError(f"{path}: llama2.c has its tokenizer in another file; --tokenizer FILE names it, --tokenizer {IDS} does without")
    return beginning_with(read_pieces(Path(chosen), N_V), BOS) if chosen.endswith(SUFFIX) else read_vocabulary(path.parent, N_V, chosen)


def read_pieces(path: Path, N_V: int) -> tokenizers.Tokenizer:
    """A tokenizer of llama2.c: the length of the longest piece; then of each a score, its length and its bytes."""
    if path.exists() and not path.is_file():  # a pipe would wait for ever
        raise ValueError(f"{path}: expected a file, a tokenizer of llama2.c")
    try:
        data, start = path.read_bytes(), 4
        pieces, scores = list[str](), list[float]()
        for _ in range(N_V):
            score, length = struct.unpack_from("<fi", data, start)
            if not 0 <= length <= len(data) - start - 8:
                raise ValueError("a piece that is longer than the file")
            pieces.append(data[start + 8 : start + 8 + length].decode("utf-8").replace(" ", SPACE))
            scores.append(score)
            start += 8 + length
    except OSError as error:
        raise ValueError(f"{path}: cannot be read: {error.strerror}") from error
    except (struct.error, ValueError) as error:
        early, no_text = isinstance(error, struct.error), isinstance(error, UnicodeDecodeError)
        reason = "it ends early" if early else "a piece that is not UTF-8" if no_text else error
        raise ValueError(f"{path}: not a tokenizer of llama2.c with {N_V} tokens: {reason}") from error
    pieces[UNKNOWN], pieces[BOS], pieces[EOS] = "<unk>", "<s>", "</s>"
    return sentence_pieces(pieces, scores, (BOS, EOS), unknown=UNKNOWN)
