"""transalg export: a run as other tools read it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from transalg.cli.using import CheckpointName, Flag
from transalg.terminal import shown


@dataclass(frozen=True, kw_only=True)
class Export:
    """Write a run for other tools: Hugging Face transformers, llama.cpp, CTranslate2, ONNX.

    transalg export RUN --format huggingface --out FOLDER
    """

    source: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN", help_behavior_hint="")]
    """A folder that `transalg train` or `transalg import` made."""
    format: Literal["huggingface", "gguf", "ctranslate2", "onnx"]
    """huggingface: config.json, safetensors, tokenizer and a model card. gguf: a file for llama.cpp. ctranslate2: for its Generator, Translator and Encoder. onnx: graphs of any batch and length."""
    out: Annotated[Path, tyro.conf.arg(metavar="FOLDER", help_behavior_hint="")]
    """The folder to write."""
    numbers: Annotated[str | None, tyro.conf.arg(metavar="KIND", help_behavior_hint="")] = None
    """For gguf f32, f16 or q8_0; for ctranslate2 float32, float16, int16 or int8. (default: the first)"""
    overwrite: Flag = False
    """Replace a folder that exists."""
    checkpoint: CheckpointName = "best"

    def run(self) -> None:
        from transalg.interop.save import export_run

        name = export_run(self.source, self.format, self.out, numbers=self.numbers, overwrite=self.overwrite, checkpoint=self.checkpoint)
        files = sorted(path.name for path in self.out.iterdir())
        print(shown(f"{self.out}: {name}; {', '.join(files)}"))


ExportVerb = Annotated[Export, tyro.conf.subcommand("export")]
