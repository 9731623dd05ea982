"""transalg trace: run an algorithm and show every line of it."""

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from transalg import terminal
from transalg.atomic import atomic_write
from transalg.cli.bounds import Seed
from transalg.cli.generate import Generate
from transalg.cli.predict import Predict
from transalg.cli.using import CheckpointName, load_runs
from transalg.tasks import find as find_task
from transalg.trace.setting import Settings, Sizes
from transalg.trace.source import Algorithm

if TYPE_CHECKING:
    from transalg.formal.theta import TransformerTheta
    from transalg.hyper import Hyper
    from transalg.model.counterpart import FormalCounterpart
    from transalg.tokenization import Tokenizer
    from transalg.trace.example import Example, Model

TEXT = "My grandma makes"
TOKENS = 32  # of a row of one of Gato's tasks


def option(metavar: str) -> object:
    return tyro.conf.arg(metavar=metavar, help_behavior_hint="")


@dataclass(frozen=True)
class Trace:
    """Run an algorithm and show every line of it: transalg trace 10 --text "hello" --html trace.html.

    On a trained model: transalg trace 10 --run RUN --prompt "hello" --html trace.html
    """

    which: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="NUMBER|NAME", help_behavior_hint="")]
    """A number from 1 to 15, or a name: 10, DTransformer; of today's decoders Llama, Mistral, Qwen2, Qwen3, Gemma, GPTNeoX; Gato."""
    text: Annotated[str | None, option("TEXT")] = None
    """The sequence x, as characters between bos_token and eos_token; its characters are the vocabulary. (default: My grandma makes)
    With --run, as its tokenizer has it, <mask> being the mask for Algorithm 9, and without eos_token where the model continues it."""
    prompt: Annotated[str | None, option("TEXT")] = None
    """The same as --text; expected with --run, or --text."""
    context: Annotated[str | None, option("TEXT")] = None
    """The sequence z, for Algorithms 3–5, 8, 11 and 15; the text again unless given."""
    trained: Annotated[Path | None, tyro.conf.arg(name="run", metavar="RUN", help_behavior_hint="")] = None
    """A folder that `transalg train` made: θ, vocabulary and departures from the paper are those of its best model (see --checkpoint).
    lm takes Algorithms 10, 13, 14; mlm 9, 12; seq2seq 8, 11, 15, with --context for z; classify 9; all of them 1–7; gato its own."""
    task: Annotated[str | None, option("NAME")] = None
    """Of a run of gato: what a row of this task begins with, instead of a text; for Gato, gato_embed, GatoEmbedding and ResNet."""
    checkpoint: CheckpointName = "best"
    tokens: Annotated[str | None, option("IDS")] = None
    """x as token IDs instead of a text, and --context likewise: "12 0 3"."""
    theta: Annotated[Path | None, option("FILE")] = None
    """A safetensors file of θ, its tensors under the paper's names; random unless given."""
    save_theta: Annotated[Path | None, option("FILE")] = None
    """Write θ to this safetensors file: the trained θ̂ after Algorithms 11–13, the θ used otherwise."""
    layer: Annotated[int | None, option("L")] = None
    """Only this pass of a loop over layers, counted from 1."""
    lines: Annotated[str | None, option("LINES")] = None
    """Only these lines of the algorithm: "5", "5-8", "1,5-8"."""
    depth: Annotated[int | None, option("INT")] = None
    """Descend this far into the algorithms it calls. (default: 0; with --html down to the attention heads, past the norms)"""
    html: Annotated[Path | None, option("FILE")] = None
    """Write a self-contained page with a heat map for every line to this file."""
    json: bool = False
    """Print the trace as JSON; indices in its values count from 0."""
    brief: bool = False
    """Only the lines and what they set: not why they are there, nor what they read."""
    seed: Seed = 0
    """Seed of the random θ, masks and samples."""
    sizes: Sizes = field(default_factory=Sizes)
    settings: Settings = field(default_factory=Settings)

    def run(self) -> None:
        lines = _numbers(self.lines, "--lines", "5-8") if self.lines is not None else None
        tokens = _numbers(self.tokens, "--tokens", "12 0 3") if self.tokens is not None else None
        context_tokens = _numbers(self.context, "--context", "12 0 3") if tokens is not None and self.context is not None else None
        text = self.prompt if self.text is None else self.text
        if self.text is not None and self.prompt is not None:
            raise ValueError("--prompt: the same as --text, expected one of them, got both")
        if tokens is not None and text is not None:
            raise ValueError("--tokens: x as token IDs instead of a text, expected one of them, got both")
        if self.trained is not None and self.theta is not None:
            raise ValueError("--theta: --run has a θ of its own, expected one of them, got both")
        if self.trained is not None and self.sizes != Sizes():
            raise ValueError("--L, --H, --H-kv, --d-e, --d-mlp, --d-f: sizes of a random θ; those of --run are its own")
        if self.depth is not None and self.depth < 0:
            raise ValueError(f"--depth: expected 0 or more, got {self.depth}")
        for target in (self.html, self.save_theta):
            if target is not None and (target.is_dir() or not target.parent.is_dir()):
                raise ValueError(f"{target}: expected a file in a folder that exists")

        from transalg.trace.source import find

        algorithm = find(self.which)

        import torch

        threads = torch.get_num_threads()
        torch.set_num_threads(1)  # for small matrices; a second thread is waited for, which takes long where other work has its core
        try:
            self._trace(algorithm, text, tokens, context_tokens, lines)
        finally:
            torch.set_num_threads(threads)

    def _trace(
        self, algorithm: Algorithm, text: str | None, tokens: list[int] | None, context_tokens: list[int] | None, lines: list[int] | None
    ) -> None:
        from transalg.trace.example import example, save_theta
        from transalg.trace.gato_example import GATO

        if self.task is not None and (self.trained is None or algorithm.name not in GATO):
            raise ValueError("--task: expected an algorithm of Gato and --run with it")
        if self.trained is not None and algorithm.name in GATO:
            of = self._on_gato(self.trained, algorithm, text)
            algorithm = of.algorithm
        elif self.trained is not None:
            of = self._on_run(self.trained, algorithm, text, tokens, context_tokens)
            algorithm = of.algorithm  # the variant that the model computes, maybe
        elif algorithm.name in GATO:
            of = self._gato(algorithm, TEXT if text is None else text)
        else:
            of = example(
                algorithm,
                TEXT if text is None else text,
                self.context if tokens is None else None,
                tokens=tokens,
                context_tokens=context_tokens,
                theta_file=self.theta,
                sizes=self.sizes,
                settings=self.settings,
                seed=self.seed,
            )
        _check_lines(algorithm, lines or [])
        to_heads = self.depth is None and self.html is not None
        full = of.trace(None if to_heads else self.depth or 0)
        trace = full.narrow(layer=self.layer, lines=set(lines) if lines else None)
        ran = {step.passes["l"] for step in full.steps if "l" in step.passes}
        if self.layer is not None and not ran:
            raise ValueError(f"--layer: {algorithm.kind} has no loop over layers down to --depth {self.depth or 0}")
        if self.layer is not None and not any(step.passes.get("l") == self.layer for step in trace.steps):
            raise ValueError(f"--layer: expected 1 to {max(ran)}, and lines in the loop over layers, got {self.layer}")
        if not trace.steps:
            raise ValueError(f"--lines {self.lines}: none of these lines ran")
        if self.save_theta is not None:
            save_theta(trace.result if isinstance(trace.result, type(of.theta)) else of.theta, self.save_theta)
        if self.html is not None:
            from transalg.trace.page import page

            with atomic_write(self.html) as file:
                file.write(page(trace))
        if self.json:
            from transalg.trace.export import as_data

            json.dump(as_data(trace), sys.stdout, ensure_ascii=False, allow_nan=False)
            print()
        elif self.html is not None:
            terminal.console(soft_wrap=True).print(f"{len(trace.steps)} steps of {algorithm.kind} in {self.html}: open it in a browser")
        else:
            from transalg.trace.show import show_trace

            show_trace(trace, terminal.console(), passes=lines is not None, brief=self.brief)

    def _text_alone(self) -> None:
        for flag, value in (("--tokens", self.tokens), ("--context", self.context)):
            if value is not None:
                raise ValueError(f"{flag}: Gato's tokens are of several kinds; expected --text alone")

    def _gato(self, algorithm: Algorithm, text: str) -> "Example":
        """An algorithm of Gato, on a timestep with this text in it."""
        from transalg.formal.gato import GatoTheta
        from transalg.trace.example import load_theta
        from transalg.trace.gato_example import gato_example

        self._text_alone()
        theta = load_theta(self.theta, GatoTheta) if self.theta else None
        assert theta is None or isinstance(theta, GatoTheta)
        return gato_example(algorithm, text, theta=theta, sizes=self.sizes, settings=self.settings, seed=self.seed)

    def _on_gato(self, folder: Path, algorithm: Algorithm, text: str | None) -> "Example":
        """An algorithm of Gato, on a trained model and a text, or what one of its tasks begins with."""
        from transalg.evaluation.tasks import find_task as find_learned
        from transalg.evaluation.tasks import first_row, gato_of
        from transalg.hyper.modalities import BINS
        from transalg.model import MixedBatch
        from transalg.model.counterpart import formal_counterpart
        from transalg.runs.folder import find_checkpoint
        from transalg.tokenization.sequence import text as text_tokens
        from transalg.trace.gato_example import trained_gato_example
        from transalg.trace.modal import BIN

        self._text_alone()
        run = load_runs(folder, checkpoint=self.checkpoint)
        model, vocabulary = gato_of(run)
        if (text is None) == (self.task is None):
            raise ValueError(f"--task: expected one of {', '.join(each['name'] for each in run.episodes)}, or --text, and not both")
        if text is not None:
            s, about = text_tokens(vocabulary.encode(text, bos=True), vocabulary.channels), "this text"
        else:
            task = find_learned(run, self.task or "", option="--task")
            s, about = (
                first_row(task, vocabulary, model.hyper.ell_max).part(0, TOKENS),
                f"the first tokens of a row of {self.task}, values in [−1, 1] as the model has them",
            )
        if len(s) > model.hyper.ell_max:
            raise ValueError(f"--text: expected at most ell_max = {model.hyper.ell_max} tokens with bos, got {len(s)}")
        mixed = MixedBatch.of([s])
        tokens = replace(mixed, patches=mixed.patches.double()).formal(model.hyper.N_grid)[0]
        traced = _traced(
            formal_counterpart(model.hyper), model.theta(), f"the {find_checkpoint(folder, self.checkpoint)} model of {folder}, on {about}"
        )
        tokenizer = vocabulary.text()
        words = [tokenizer.token(x) if x < tokenizer.N_V else str(x) for x in range(vocabulary.N_text)]
        values = [f"{BIN}{(2 * i + 1) / BINS - 1:.3g}" for i in range(BINS)]  # the centres of the bins
        return trained_gato_example(algorithm, tokens, traced, model.hyper.G, [*words, *values, "|"])

    def _on_run(
        self, folder: Path, algorithm: Algorithm, text: str | None, tokens: list[int] | None, context_tokens: list[int] | None
    ) -> "Example":
        """The algorithm's call on a trained model and a text in its vocabulary."""
        from transalg.model.counterpart import formal_counterpart
        from transalg.runs.folder import find_checkpoint
        from transalg.trace.example import Data, numbered, trained_example

        number, run = numbered(algorithm), load_runs(folder, checkpoint=self.checkpoint)
        hyper, formal, theta = run.model.hyper, formal_counterpart(run.model.hyper), run.model.theta()
        _fit(algorithm, run.task, hyper, folder)
        if number == 15 and text is not None and self.context is not None:
            raise ValueError("--prompt: Algorithm 15 writes x itself; expected z alone, got --context as well")
        if number != 15 and tokens is None and text is None:
            raise ValueError("--prompt: expected a text for the model of --run, got nothing")
        source = self.context if number != 15 or self.context is not None else text if tokens is None else self.tokens
        if number in (8, 11, 15) and source is None:
            raise ValueError("--context: expected z, the text that the model reads, got nothing")
        if tokens is not None:
            x, z = tokens, tokens if context_tokens is None else context_tokens
        else:
            abilities = find_task(run.task).abilities
            masks = number == 9 and "fill" in abilities
            eos = number in (9, 11, 12, 13) or (number < 8 and "generate" not in abilities)  # elsewhere x is to be continued
            longest = None if number == 14 else hyper.ell_max  # Algorithm 14 looks at the end of a longer one
            option = "--prompt" if self.text is None else "--text"
            x = [] if number == 15 or text is None else _read(run.tokenizer, option, text, eos, masks, longest)
            option = option if self.context is None else "--context"
            z = x if source is None else _read(run.tokenizer, option, source, eos or number in (8, 15), False, longest, context=True)

        said = ", ".join(name if value is True else f"{name}={value}" for name, value in formal.departures().items())
        about = f"the {find_checkpoint(folder, self.checkpoint)} model of {folder}, for {run.task}, " + (
            f"which departs from the paper by {said}" if said else "as the paper has it"
        )
        model = _traced(formal, theta, about, run.labels)
        special = {v: name.removesuffix("_token") for name, v in theta.special_tokens.items()}
        vocabulary = [special.get(v) or run.tokenizer.token(v) for v in range(theta.N_V)]
        crossed, settings = self.context is not None, self.settings
        if settings.tau is None:
            settings = replace(settings, tau=Predict.tau if number == 15 else Generate.tau)
        if settings.ell_gen is None and number == 15:
            settings = replace(settings, ell_gen=hyper.ell_max)  # Predict's, None
        return trained_example(algorithm, model, Data(vocabulary, x, z, x), crossed=crossed, settings=settings, seed=self.seed)


def _traced(formal: "FormalCounterpart", theta: "TransformerTheta", about: str, classes: Sequence[str] = ()) -> "Model":
    """What a trace needs of a trained model."""
    from transalg.trace.example import Model, name_of

    return Model(
        theta=theta,
        acting=formal.acting(theta),
        transformer=formal,
        function=name_of(formal.function),
        layer_norm=formal.layer_norm,
        eps=formal.hyper.eps,
        MHAttention=formal.MHAttention,
        about=about,
        classes=classes,
    )


def _fit(algorithm: Algorithm, task: str, hyper: "Hyper", folder: Path) -> None:
    """Refuse an algorithm that is not what a model of this task does, or is about a part that the model has not."""
    from transalg.formal import MHAttention
    from transalg.model.counterpart import formal_counterpart
    from transalg.model.positions import POSITIONS

    number, positions = algorithm.number or 0, POSITIONS[hyper.positions]
    W_p = positions.formal_table(hyper)
    algorithms, has_labels = find_task(task).algorithms, find_task(task).has_labels
    if number > 7 and number not in algorithms:
        others = ", ".join(map(str, ("1–6" if has_labels else "1–7", *algorithms)))
        raise ValueError(f"{folder}: {algorithm.kind} does not fit a model for {task}; Algorithms {others} do")
    absent = {
        2: f"W_p, for its positions are {hyper.positions}" if W_p is not None and not W_p.any() else None,
        3: "heads as Algorithm 3 has them; Algorithms 4 and 5 show its own"
        if formal_counterpart(hyper).MHAttention is not MHAttention
        else None,
        7: "W_u" if has_labels else "W_u without an output bias" if getattr(hyper, "output_bias", False) else None,
    }
    if absent.get(number):
        raise ValueError(f"{folder}: {algorithm.kind} does not fit this model for {task}: it has no {absent[number]}")


def _read(
    tokenizer: "Tokenizer", option: str, text: str, eos: bool, masks: bool, longest: int | None, *, context: bool = False
) -> list[int]:
    """A text in a run's vocabulary, <mask> in it being the mask if masks."""
    from transalg.trace.export import visible

    unknown = tokenizer.unknown(text.replace("<mask>", "") if masks else text) if tokenizer.kind == "char" else []
    if unknown:
        raise ValueError(f"{option}: the vocabulary of --run does not have {' '.join(map(visible, unknown[:9]))}")
    ids = tokenizer.with_ends(tokenizer.encode(text, ends=False, special=masks), eos=eos, context=context)
    if longest is not None and len(ids) > longest:
        raise ValueError(f"{option}: expected at most ell_max = {longest} tokens with {'bos and eos' if eos else 'bos'}, got {len(ids)}")
    return ids


def _check_lines(algorithm: Algorithm, lines: list[int]) -> None:
    kinds = {line.number: line.kind for line in algorithm.lines}
    if unknown := [number for number in lines if number not in kinds]:
        raise ValueError(f"--lines: expected lines of {algorithm.kind}, 1 to {len(kinds)}, got {unknown[0]}")
    if lines and all(kinds[number] == "end" for number in lines):
        raise ValueError(f"--lines: line {lines[0]} of {algorithm.kind} is an end, where nothing runs")


def _numbers(text: str, option: str, like: str) -> list[int]:
    """1,5-8 → [1, 5, 6, 7, 8]."""
    listed: list[int] = []
    for part in text.replace(",", " ").split():
        first, dash, last = part.partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()) or len(part) > 15 or not 0 <= int(last or first) - int(first) < 1000:
            raise ValueError(f'{option}: expected whole numbers like "{like}", got {text!r}')
        listed += range(int(first), int(last or first) + 1)
    return listed


TraceVerb = Annotated[Trace, tyro.conf.subcommand("trace"), tyro.conf.OmitArgPrefixes]
