"""From a run to a folder that others read: which format, and who writes it."""

from collections.abc import Callable
from pathlib import Path

from transalg.interop import ctranslate2, gguf_writing, huggingface, onnx
from transalg.interop.checkpoint import check_target, new_folder
from transalg.interop.export import Exported, open_run
from transalg.runs import folder as run_folder

Writer = Callable[[Exported, Path, str], str]  # writes into a folder, with numbers of this kind; says what it is called there
FORMATS: dict[str, tuple[Writer, tuple[str, ...]]] = {  # with the kinds of numbers that each has, the usual one first
    "huggingface": (huggingface.write, ("float32",)),
    "gguf": (gguf_writing.write, ("f32", "f16", "q8_0")),
    "ctranslate2": (ctranslate2.write, ("float32", "float16", "int16", "int8")),
    "onnx": (onnx.write, ("float32",)),
}


def export_run(
    run: Path,
    format_name: str,
    out: Path,
    *,
    numbers: str | None = None,
    overwrite: bool = False,
    checkpoint: run_folder.Checkpoint = run_folder.BEST,
) -> str:
    """Write a run in a format of others; what it is called there. `out` has all of it or nothing."""
    if format_name not in FORMATS:
        raise ValueError(f"--format: expected {', '.join(FORMATS)}, got {format_name!r}")
    writer, kinds = FORMATS[format_name]
    if numbers is not None and numbers not in kinds:
        raise ValueError(f"--numbers: expected {', '.join(kinds)} for {format_name}, got {numbers!r}")
    check_target(out, overwrite=overwrite)
    exported = open_run(run, checkpoint)
    with new_folder(out, overwrite=overwrite) as part:
        try:
            return writer(exported, part, numbers or kinds[0])
        except ValueError as error:
            raise ValueError(f"{run}: {error}") from error
