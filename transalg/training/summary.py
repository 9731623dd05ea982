"""What a run is about to do, in five lines: data, vocabulary, model, steps, time and memory; and a sixth, once some steps were measured."""

from statistics import median

from transalg.data.rows import Rows
from transalg.hyper import Hyper
from transalg.hyper.cost import flops_per_token
from transalg.hyper.cost import parameters as count
from transalg.hyper.hyper import TRAINING
from transalg.runs.config import FLOPS, Config
from transalg.tasks import find
from transalg.tokenization import Tokenizer
from transalg.training.memory import least_memory
from transalg.training.prepare import Prepared
from transalg.training.validation import ValidationSample

STEPS, SECONDS = 6, 10.0  # the measurement is of so many steps, or of those in so long
LONG = 600.0  # seconds of training from which on a line says how to shorten it
WIDTH = 80  # columns
OBVIOUS = ("positions", "activation", "norm")  # what rotary, GEGLU and RMSnorm are need not be said


def summary(
    prepared: Prepared, parameters: int, sample: ValidationSample | None, *, done: int = 0, nominal: bool = True, used: int = 0
) -> list[str]:
    """The five lines. `nominal`: the time is that of two cores, of the steps that are not `done`; of other devices nothing is known."""
    train, valid, options = prepared.train.rows(), prepared.valid, prepared.config.train
    tokens = f", {train.store.meta.tokens:,} tokens" if isinstance(train, Rows) else _shares(prepared.config)
    if isinstance(train, Rows) and train.cut:
        tokens += f", {train.cut:,} cut"
    rows = f"{len(train):,} rows, {'none' if valid is None else f'{len(valid):,}'} to validate"
    if valid is not None and sample is not None and sample.read is not None:
        until = f" ({len(sample.read):,} until the end)"
        rows += until if len(f"data       {rows}{until}{tokens}") <= WIDTH else ""
    batch = f"{options.batch_tokens:,} tokens" if options.batch_tokens else f"{options.batch_size:,} rows"
    epochs = prepared.steps / prepared.epoch_batches
    return [
        f"data       {rows}{tokens}",
        f"tokenizer  {prepared.tokenizer.kind}, {prepared.tokenizer.N_V:,} tokens{_unknown(prepared)}",
        _model(prepared.hyper, parameters),
        f"training   {prepared.steps:,} steps ({_short(epochs)} epochs) of {batch}, {options.optimizer}"
        + ("" if valid is None else f", best by {options.select}"),
        estimate(prepared, prepared.steps - done, nominal=nominal, used=used),
    ]


def estimate(prepared: Prepared, steps: int, *, nominal: bool, used: int = 0) -> str:
    """The fifth line: time and memory by counts of operations and numbers. `used` are bytes that the process has already, the model's among them."""
    hyper, stacks = prepared.hyper, len(prepared.hyper.stacks)
    operations = 3 * flops_per_token(hyper, max(1, round(prepared.row_tokens / stacks))) * prepared.step_tokens / stacks
    memory = sum(least_memory(hyper, prepared.config.train, prepared.step_tokens, prepared.row_tokens).values())
    memory += max(0, used - 4 * count(hyper))
    time = f"about {shown_time(operations * steps / FLOPS)} on two cores, " if nominal else ""
    return f"estimate   {time}at least {memory / 1e6:,.0f} MB of memory"


def _shares(config: Config) -> str:
    """The share of tokens of each task."""
    total = sum(config.shares.values())
    return ": " + ", ".join(f"{name} {weight / total:.0%}" for name, weight in config.shares.items())


def _unknown(prepared: Prepared) -> str:
    """The share of the text that the vocabulary lacks; of parts of words only whether there is <unk>."""
    train, tokenizer = prepared.train.rows(), prepared.tokenizer
    if tokenizer.kind == "bpe" or not isinstance(train, Rows):
        return "" if _unk(tokenizer) else ", no <unk>"
    meta = train.store.meta
    ordinary = meta.tokens - 2 * meta.records * len(meta.streams)
    if tokenizer.kind == "char":
        return f", {meta.unknown / max(1, ordinary + meta.unknown):.1%} of the text left out"
    return f", {meta.unknown:,} of {ordinary:,} words ({100 * meta.unknown / max(1, ordinary):.1f} %) become <unk>"


def _unk(tokenizer: Tokenizer) -> str | None:
    unknown: str | None = getattr(tokenizer.core.model, "unk_token", None)
    return unknown


def _model(hyper: Hyper, parameters: int) -> str:
    """The algorithm, its size, and as many departures from the paper as the line has room for."""
    layers = "+".join(map(str, hyper.stacks.values()))
    start, end = (
        f"model      Algorithm {hyper.algorithm}, {layers} layer{'s' * (layers != '1')} × {hyper.d_e}",
        f", {parameters:,} parameters",
    )
    departures = [
        name if value is True else str(value) if name in OBVIOUS else f"{name}={value}"
        for name, value in hyper.departures().items()
        if name not in TRAINING and name != "special"
    ]
    for shown in range(len(departures), -1, -1):
        left = len(departures) - shown
        line = ", ".join([start, *departures[:shown], *([f"{left} more" if shown else f"{left} departures"] if left else [])]) + end
        if len(line) <= WIDTH:
            return line
    return start + end


def is_measured(seconds: list[float]) -> bool:
    """Whether the steps so far, of which the first is slower than others, say how long the rest takes."""
    return len(seconds) >= STEPS or (len(seconds) > 1 and sum(seconds) >= SECONDS)


def time_to_go(seconds: list[float], steps: int, overhead: float) -> float:
    """Seconds for so many steps, of which validation takes the fraction `overhead` more."""
    return median(seconds[1:]) * steps * (1 + overhead)


def measurement(to_go: float, memory: int | None) -> str:
    """The sixth line, which is measured."""
    used = f", {memory / 1e6:,.0f} MB of memory" if memory else ""
    return f"measured   {shown_time(to_go)} to go{used}"


def shown_time(seconds: float) -> str:
    """
    >>> shown_time(41.3), shown_time(300), shown_time(9000)
    ('41 s', '5 min', '2.5 h')
    """
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _short(number: float) -> str:
    """
    >>> _short(0.25123), _short(14.345), _short(1999.6)
    ('0.251', '14.3', '2,000')
    """
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"


def shorter(config: Config, steps: int, done: int, to_go: float) -> str | None:
    """For a long run, the options that shorten it; a resumed one has done some of its steps already."""
    if to_go <= LONG:
        return None
    share = (done + (steps - done) * LONG / to_go) / steps
    options = config.train
    length = (
        f"--train.epochs {_short(options.epochs * share).replace(',', '')}"
        if options.epochs
        else f"--train.steps {max(1, round(steps * share))}"
    )
    helps = "; a smaller --model.ell-max helps too" if find(config.task).records == "documents" else ""
    return f"shorter    {length} takes {shown_time(LONG)}{helps}"
