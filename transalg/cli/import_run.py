"""transalg import: a checkpoint of others becomes a run."""

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from transalg.cli.using import Flag
from transalg.terminal import shown

SHOWN = 4  # names of tensors in a note
EXAMPLES = {
    "generate": '--prompt "Once upon a time"',
    "fill": '--text "The <mask> sat on the mat."',
    "classify": '--text "What a day!"',
    "embed": '--text "A cat sat on the mat."',
    "predict": '--input "A cat sat on the mat."',
}


@dataclass(frozen=True, kw_only=True)
class Import:
    """Make a run of somebody's checkpoint, for all that runs are for: generate, fill, classify, embed, predict, train --init, export.

    transalg import PATH --out RUN
    """

    source: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="PATH|HUB-ID", help_behavior_hint="")]
    """A folder that transformers saved (GPT-2, BERT, Marian, Llama, Mistral, Qwen 2 and 3, Gemma, GPT-NeoX), a .gguf file, a .bin file of llama2.c, or a name in the Hugging Face Hub."""
    out: Annotated[Path, tyro.conf.arg(metavar="RUN", help_behavior_hint="")]
    """The folder for the run."""
    tokenizer: Annotated[str | None, tyro.conf.arg(metavar="FILE|ids", help_behavior_hint="")] = None
    """A tokenizer.json, or tokenizer.bin of llama2.c, where the checkpoint has none; ids reads and writes texts as token IDs."""
    allow_pickle: Flag = False
    """Read pytorch_model.bin, a pickle: tensors alone are taken from it."""
    overwrite: Flag = False
    """Replace a folder that exists."""

    def run(self) -> None:
        from transalg.hyper.cost import parameters
        from transalg.interop.load import import_checkpoint
        from transalg.tasks import find

        made = import_checkpoint(self.source, self.out, tokenizer=self.tokenizer, allow_pickle=self.allow_pickle, overwrite=self.overwrite)
        abilities = find(made.task).abilities_of(made.hyper)
        print(shown(f"{self.out}: a model for {made.task}, {parameters(made.hyper):,} parameters; it can {', '.join(abilities)}"))
        departures = {name: value for name, value in made.hyper.departures().items() if name != "special"}
        print(shown(f"  Algorithm {made.hyper.algorithm} with {', '.join(f'{name}={value}' for name, value in departures.items())}"))
        special = made.hyper.special_tokens
        print(shown("  " + ", ".join(f"{name} {'is missing' if one is None else f'= {one}'}" for name, one in _special(special))))
        if made.left_out:
            more = f" and {len(made.left_out) - SHOWN} more" if len(made.left_out) > SHOWN else ""
            print(shown(f"  Left out, for this model does not need them: {', '.join(made.left_out[:SHOWN])}{more}"))
        run = shlex.quote(str(self.out))
        print(shown(f"Next: transalg {abilities[0]} {run} {EXAMPLES[abilities[0]]}"))
        print(f"      transalg verify {run}")


def _special(special: object) -> list[tuple[str, int | None]]:
    return [(name, getattr(special, name)) for name in ("mask", "bos", "eos")]


ImportVerb = Annotated[Import, tyro.conf.subcommand("import")]
