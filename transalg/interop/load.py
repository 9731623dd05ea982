"""From a path or a name of the Hugging Face Hub to a run: which format it is, and who reads it."""

from contextlib import ExitStack
from pathlib import Path

from transalg.interop import gguf, huggingface, llama2c
from transalg.interop.checkpoint import Checkpoint, check_target, write_run
from transalg.interop.hub import download


def import_checkpoint(
    source: str, out: Path, *, tokenizer: str | None = None, allow_pickle: bool = False, overwrite: bool = False
) -> Checkpoint:
    """Make the run `out` of a checkpoint: a folder, a file, or a name of the Hub. Returns what it was made of."""
    check_target(out, overwrite=overwrite)
    with ExitStack() as stack:
        path = Path(source) if Path(source).exists() else download(source)
        checkpoint = _read(path, stack, tokenizer, allow_pickle)
        write_run(checkpoint, out, source, overwrite=overwrite)
    return checkpoint


def _read(path: Path, stack: ExitStack, tokenizer: str | None, allow_pickle: bool) -> Checkpoint:
    if path.is_file() and path.suffix == ".gguf":
        return gguf.read(path, tokenizer)
    if path.is_file() and path.suffix == llama2c.SUFFIX:
        return llama2c.read(path, tokenizer)
    if path.is_file():
        raise ValueError(f"{path}: expected a folder that transformers saved, a .gguf file, or a .bin file of llama2.c")
    return huggingface.read(path, stack, tokenizer=tokenizer, allow_pickle=allow_pickle)
