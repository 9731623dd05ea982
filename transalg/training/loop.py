"""The training loop: steps, validation, checkpoints, and resuming after every interruption."""

import math
import shutil
import time
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from transalg.data.rows import Batch
from transalg.data.shuffle import derive_seed
from transalg.model import EDTransformer, build
from transalg.model.parameters import local_part
from transalg.optimisation.optimisers import optimisers, scale_eta, set_eta
from transalg.optimisation.schedules import lr_factor
from transalg.runs import checkpoints, swap
from transalg.runs import folder as run_folder
from transalg.runs.config import Config
from transalg.runs.metadata import Metadata
from transalg.runs.state import State
from transalg.runs.tensors import MODEL
from transalg.tasks import find
from transalg.tasks.examples import augmented
from transalg.tasks.losses import Objective
from transalg.tasks.task import DECODED, better
from transalg.tokenization import Tokenizer
from transalg.training.interrupt import Interrupt
from transalg.training.memory import peak_memory
from transalg.training.metrics import Metrics, forget_after
from transalg.training.prefetch import prefetched
from transalg.training.prepare import Prepared
from transalg.training.processes import World
from transalg.training.report import Report
from transalg.training.summary import is_measured, measurement, shorter, summary, time_to_go
from transalg.training.validation import ValidationSample, decoded_figure, last_sample, validate, validation_cost, validation_sample

if TYPE_CHECKING:
    from transalg.inference.run import Run

INIT, DROPOUT, MASK, NOISE = 11, 12, 13, 14  # what a random number is for
CLASSES = ("W_c", "b_c")  # parameters with a row for every class
EARLY, EARLY_SECONDS = 100, 60.0  # the first checkpoint is written after this fraction of the steps, or after this time


@dataclass(frozen=True)
class Outcome:
    """How a run ended."""

    out: Path
    config: Config
    state: State
    figures: dict[str, float]  # of the best model: on all rows of the validation set, unless the run was interrupted
    reason: str  # done, patience, interrupted
    parameters: int
    tokenizer: Tokenizer

    def load(self) -> "Run":
        """The best model, as `transalg.load` gives it."""
        from transalg.inference.run import Run

        return Run.load(self.out)


def first_checkpoint(prepared: Prepared) -> int:
    """The step after which a run has a checkpoint, at the latest."""
    options = prepared.config.train
    assert options.save_every
    return min(options.save_every, max(1, prepared.steps // EARLY))


class Loop:
    """One run in this process: its model, its optimisers, its state."""

    def __init__(self, prepared: Prepared, out: Path, world: World, report: Report, resume: bool, place: Path | None = None) -> None:
        """Until the first checkpoint of a run that replaces an earlier one in `out`, its files are in another place."""
        self.prepared, self.final, self.out, self.world, self.report = prepared, out, place or out, world, report
        self.config, self.hyper, self.options = prepared.config, prepared.hyper, prepared.config.train
        self.task = find(self.config.task).bound(prepared.labels)
        self.state = State()
        dtype = torch.float64 if self.options.dtype == "float64" else torch.float32
        generator = torch.Generator().manual_seed(derive_seed(2**62, self.options.seed, INIT))
        deferred = self.options.shard and not self.config.init  # no process needs memory for all of a sharded model
        self.model = build(self.hyper, dtype=dtype, generator=generator, device="meta" if deferred else world.device)
        if self.config.init and not resume:
            self._initialise_from(Path(self.config.init))
        self.model.checkpointing = self.options.recompute
        self.parameters = sum(parameter.numel() for parameter in self.model.parameters())
        self.objective = world.wrapped(Objective(self.task, self.model, self.options.adversarial), sharded=self.options.shard)
        if deferred:
            self.model.to_empty(device=world.device)
            self.model.reset_parameters(generator)
        assert self.options.eta is not None and self.options.optimizer is not None
        self.optimisers = optimisers(
            self.model,
            self.options.optimizer,
            self.options.eta,
            weight_decay=self.options.weight_decay,
            beta1=self.options.beta1,
            beta2=self.options.beta2,
            bfloat16=self.options.dtype == "bfloat16",
        )
        if self.config.init:
            pretrained = [parameter for name, parameter in self.model.named_parameters() if name not in self.task.head_parameters]
            scale_eta(self.optimisers, self.options.fine_tuning, pretrained)
        if resume:
            self._resume()
        self.saved = self.state.step > 0
        if self.options.compile:
            self.objective = torch.compile(self.objective)  # type: ignore[assignment]
        bfloat16 = self.options.dtype == "bfloat16"
        self.autocast: AbstractContextManager[object] = torch.autocast(world.device.type, torch.bfloat16) if bfloat16 else nullcontext()
        self.decoded = self.options.select in DECODED
        self.sample: ValidationSample | None = None
        self.last_sample: ValidationSample | None = None
        if prepared.valid is not None:
            assert self.options.eval_every
            trained = self.options.eval_every * prepared.step_tokens
            self.sample = validation_sample(prepared.valid, trained, decoded=self.decoded, least=prepared.plan.rows)
            self.last_sample = last_sample(prepared.valid, prepared.steps * prepared.step_tokens, least=prepared.plan.rows)

    # Start, resume --------------------------------------------------------------------------------------------------------

    def _initialise_from(self, run: Path) -> None:
        """Copy the weights of another run, wherever names and shapes agree."""
        parameters = self.model.state_dict()
        tensors = run_folder.model_tensors(run)
        if run_folder.model_metadata(run).labels != self.prepared.labels:  # rows of W_c of other classes, though they may be as many
            tensors = {name: tensor for name, tensor in tensors.items() if name not in CLASSES}
        copied = {name: tensor for name, tensor in tensors.items() if name in parameters and parameters[name].shape == tensor.shape}
        if not copied:
            raise ValueError(f"--init: no parameter of {run} has the name and shape of one of this model")
        self.model.load_state_dict(copied, strict=False)
        new = [name for name in parameters if name not in copied]
        note = f"{len(copied)} of {len(parameters)} parameters come from {run}"
        self.report.note(note + (f"; new: {', '.join(new[:6])}" if new else ""))

    def _resume(self) -> None:
        place = run_folder.find_place(self.out, run_folder.LAST)
        if place is None:
            raise ValueError(f"{self.out}: there is no checkpoint to resume from")
        if place.is_dir():
            metadata = checkpoints.load_sharded_metadata(place)
            checkpoints.restore_sharded(self.model, self.optimisers, place)
        else:
            tensors, metadata = checkpoints.load(place)
            checkpoints.restore(self.model, self.optimisers, tensors, place)
        if metadata.state is None:
            raise ValueError(f"{place}: state: is missing in the metadata, so training cannot be resumed from it")
        self.state = State.from_dict(metadata.state)
        best, is_new = run_folder.find_place(self.out, run_folder.BEST), self.state.best_step == self.state.step
        if best is None and self.state.best is not None and not is_new:  # a kill came between the two of them if it is new
            raise ValueError(
                f"{run_folder.checkpoint_file(self.out, run_folder.BEST)}: is missing, but the best model was reached at step "
                f"{self.state.best_step:,}; restore it from a copy, or --overwrite starts over"
            )
        self.report.note(f"Resuming at step {self.state.step:,}")

    # The loop -------------------------------------------------------------------------------------------------------------

    def run(self) -> Outcome:
        state, options = self.state, self.options
        steps, eval_every, save_every = self.prepared.steps, options.eval_every, options.save_every
        assert eval_every and save_every
        reason = "done"
        self.objective.train()
        on_cpu = self.world.device.type == "cpu"
        used = peak_memory(self.world.device) or 0 if on_cpu else 0  # of Python, torch, the data and the model
        for line in summary(self.prepared, self.parameters, self.sample, done=state.step, nominal=on_cpu, used=used):
            self.report.note(line)
        self.report.begin(state.step, steps)
        measured, estimated = list[float](), False
        batches = prefetched(
            (place, rows.batch(np.asarray(index))) for place, rows, index in self.prepared.plan.forever(self.prepared.train, state.place)
        )
        first_step = state.step
        early = first_checkpoint(self.prepared)
        start_time = time.monotonic()
        if self.world.first:
            forget_after(self.out, state.step)
        self._complete_best()
        if options.patience is not None and state.waited >= options.patience:  # it had ended before it was resumed
            reason = "patience"
        with Metrics(self.out, self.world.first, tensorboard=options.tensorboard) as metrics, Interrupt() as interrupt:
            while state.step < steps and reason == "done":
                start = time.perf_counter()
                place, batch = next(batches)
                eta = self._set_eta(steps)
                overdue = not self.saved and time.monotonic() - start_time > EARLY_SECONDS
                loss, stop_requested, overdue = self._step(batch, interrupt.stop_requested, overdue)
                state.step, state.place, state.tokens = state.step + 1, place, state.tokens + batch.tokens
                elapsed = time.perf_counter() - start
                state.seconds += elapsed
                measured.append(elapsed)
                if not estimated and is_measured(measured):
                    self._estimate(measured)
                    estimated = True
                self._require_finite("the loss", loss)
                state.losses.append(loss)
                self.report.step(state.step, loss, batch.tokens / elapsed)
                if state.step % options.log_every == 0 or state.step == steps:
                    metrics.write(state.step, state.tokens, state.seconds, loss=sum(state.losses) / len(state.losses), eta=eta)
                    state.losses = []
                last = state.step == steps or stop_requested
                if state.step % eval_every == 0 or state.step == steps:
                    self._validate(metrics)
                    if options.patience is not None and state.waited >= options.patience:
                        reason, last = "patience", True
                if stop_requested and state.step < steps:
                    reason = "interrupted"
                if state.step % save_every == 0 or state.step == early or overdue or last:
                    self._save(metrics)
                if last:
                    break
            if reason != "interrupted":
                interrupt.end()
                self._measure_best(metrics if state.step > first_step else None)
        self.report.end()
        return Outcome(self.out, self.config, state, state.best or {}, reason, self.parameters, self.prepared.tokenizer)

    def _estimate(self, seconds: list[float]) -> None:
        """Say how long the rest of the run takes; nothing but what is printed depends on it."""
        steps, overhead, rows = self.prepared.steps - self.state.step, 0.0, self.prepared.valid
        if rows is not None and self.sample is not None:
            assert self.options.eval_every
            trained = self.prepared.step_tokens * self.options.eval_every
            overhead = validation_cost(rows, self.sample, decoded=self.decoded) / trained
            if self.sample.read is not None and self.last_sample is not None and steps:  # and once more at the end
                overhead += validation_cost(rows, self.last_sample, decoded=False) / (self.prepared.step_tokens * steps)
        to_go = time_to_go(seconds, steps, overhead)
        for line in (measurement(to_go, peak_memory(self.world.device)), shorter(self.config, self.prepared.steps, self.state.step, to_go)):
            if line:
                self.report.note(line)

    def _set_eta(self, steps: int) -> float:
        options = self.options
        assert options.eta is not None and options.warmup is not None
        factor = lr_factor(
            self.state.step, steps, schedule=options.schedule, warmup=options.warmup, final=options.final, decay=options.decay
        )
        set_eta(self.optimisers, options.eta * factor)
        return options.eta * factor

    def _step(self, batch: Batch, stop_requested: bool, overdue: bool) -> tuple[float, bool, bool]:
        """One step of all processes; the batch's loss, and whether any process was to stop, and whether any was to save."""
        options, world = self.options, self.world
        seed = options.seed, self.state.step
        noise_seed, mask_seed = derive_seed(2**62, NOISE, *seed), derive_seed(2**62, MASK, *seed)
        batch = augmented(batch, self.task.augmented_stream, self.hyper, options.noise, options.token_drop, noise_seed)
        example = self.task.example(batch, self.hyper, mask_seed)
        torch.manual_seed(derive_seed(2**62, DROPOUT, *seed, world.rank))
        weight = world.size * (1.0 if options.loss == "sum" else 1 / max(1, example.count))  # gradients are means over the processes
        parts = world.size * options.accumulate
        total = torch.zeros(3, dtype=torch.float64)
        for i in range(options.accumulate):
            inputs, has_rows = example.part(world.rank + i * world.size, parts, world.device)
            last = i == options.accumulate - 1
            with nullcontext() if last or world.size == 1 or options.shard else self.objective.no_sync():  # type: ignore[operator]
                with self.autocast:
                    loss = self.objective(*inputs, weight=weight * has_rows)
                loss.backward()
            total[0] += loss.detach().cpu().double() / world.size
        total[1], total[2] = stop_requested, overdue
        world.total(total)
        if options.clip:
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), options.clip)
        for optimiser in self.optimisers:
            optimiser.step()
            optimiser.zero_grad()
        return float(total[0]), bool(total[1]), bool(total[2])

    def _validate(self, metrics: Metrics) -> None:
        state = self.state
        if self.sample is None:
            self._save_first(metrics)
            self._save_best(self.state.step, None)
            return
        figures = self._figures(self.sample)
        self._require_finite("the validation loss", figures["val_loss"])
        is_best = better(self.options.select, figures, state.best)
        if is_best:
            state.best, state.best_step, state.waited = figures, state.step, 0
        else:
            state.waited += 1
        metrics.write(state.step, state.tokens, state.seconds, **figures)
        self._save_first(metrics)
        if is_best:
            self._save_best(state.step, figures["val_loss"])
        self.report.validation(state.step, figures, is_best)

    def _figures(self, sample: ValidationSample) -> dict[str, float]:
        """The figures of the model as it is, and how many rows they are of."""
        rows, which = self.prepared.valid, sample.read
        assert rows is not None
        figures = validate(self.objective, self.task, rows, self.hyper, self.world, self.autocast, which)
        figures["val_rows"] = len(rows) if which is None else len(which)
        if self.decoded:
            assert isinstance(self.model, EDTransformer)
            select, tokenizer = self.options.select, self.prepared.tokenizer
            figures[f"val_{select}"] = decoded_figure(select, self.model, self.task, rows, self.world, tokenizer, sample.written)
            figures["val_written_rows"] = len(rows) if sample.written is None else len(sample.written)
        return figures

    def _measure_best(self, metrics: Metrics | None) -> None:
        """At the end, the loss and the accuracy of the best model on all rows of the validation set, or on more of them than the sample that chose it.

        All is saved by now: Ctrl-C leaves the figures of the sample.
        """
        state, rows = self.state, self.prepared.valid
        if rows is None or state.best is None or self.last_sample is None:
            return
        which = self.last_sample.read
        count = len(rows) if which is None else len(which)
        if state.best.get("val_rows", len(rows)) >= count:
            return
        self._restore_best()
        try:
            figures = validate(self.objective, self.task, rows, self.hyper, self.world, self.autocast, which) | {"val_rows": count}
        except KeyboardInterrupt:
            if self.world.size > 1:
                raise
            self.report.note(f"Stopped measuring the best model on {count:,} rows; its figures are of {state.best['val_rows']:,}")
            return
        state.best = state.best | figures
        self._save_best(state.best_step, figures["val_loss"])
        if metrics is not None:
            best = {"best_step": state.best_step} | {f"best_{name}": value for name, value in figures.items()}
            metrics.write(state.step, state.tokens, state.seconds, **best)
        self.report.measured(state.best_step, figures)

    # Checkpoints ----------------------------------------------------------------------------------------------------------

    def _metadata(self) -> Metadata:
        return Metadata(
            task=self.task.name, hyper=self.hyper, labels=self.prepared.labels, data=self.prepared.digest, episodes=self.prepared.episodes
        )

    def _save_first(self, metrics: Metrics) -> None:
        """A best checkpoint never comes before the first last one: a run that has one and not the other has lost something."""
        if not self.saved:
            self._save(metrics)

    def _complete_best(self) -> None:
        """Write the best checkpoint if a kill came between the last one and it."""
        state = self.state
        if not state.step or run_folder.find_place(self.out, run_folder.BEST) is not None:
            return
        assert self.options.eval_every
        if self.sample is None and state.step % self.options.eval_every == 0:
            self._save_best(state.step, None)
        elif state.best is not None and state.best_step == state.step:
            self._save_best(state.step, state.best["val_loss"])

    def _save(self, metrics: Metrics) -> None:
        shards = [local_part(parameter.detach()) for parameter in self.model.parameters()]
        largest = max(float(shard.abs().amax().nan_to_num(nan=math.inf)) for shard in shards if shard.numel())
        self._require_finite("a weight", float(self.world.total(torch.tensor([largest], dtype=torch.float64))))
        self._write(run_folder.LAST, checkpoints.state(self.model, self.optimisers), replace(self._metadata(), state=asdict(self.state)))
        self.saved = True
        if self.out != self.final:
            metrics.close()
            if self.world.first:
                swap.complete(self.final)
            self.world.wait()
            self.out = self.final
            metrics.open(self.out)

    def _restore_best(self) -> None:
        place = run_folder.find_place(self.out, run_folder.BEST)
        if place is None:
            raise ValueError(f"{run_folder.checkpoint_file(self.out, run_folder.BEST)}: was removed while the run trained")
        if place.is_dir():
            checkpoints.restore_sharded(self.model, [], place)
        else:
            tensors = checkpoints.load(place)[0]
            checkpoints.restore(self.model, [], {MODEL + name: tensor for name, tensor in tensors.items()}, place)

    def _save_best(self, step: int, val_loss: float | None) -> None:
        tensors = checkpoints.state(self.model, [])
        if not self.options.shard:
            tensors = {name.removeprefix(MODEL): tensor for name, tensor in tensors.items()}
        self._write(run_folder.BEST, tensors, replace(self._metadata(), step=step, val_loss=val_loss))

    def _write(self, name: str, tensors: checkpoints.Tensors, metadata: Metadata) -> None:
        """A checkpoint, sharded or not; the other form, which a start of the other kind left, is removed when there is a newer one."""
        if self.options.shard:
            checkpoints.save_sharded(self.out / name, tensors, metadata)
        elif self.world.first:
            checkpoints.save(run_folder.checkpoint_file(self.out, name), tensors, metadata)
        if self.world.first:
            if self.options.shard:
                run_folder.checkpoint_file(self.out, name).unlink(missing_ok=True)
            else:
                shutil.rmtree(self.out / name, ignore_errors=True)
        self.world.wait()

    def _require_finite(self, what: str, value: float) -> None:
        """End a run that diverged; what it has saved before stays."""
        if math.isfinite(value):
            return
        self.report.end()
        saved = f"an earlier checkpoint is in {self.out}" if run_folder.last_metadata(self.out) else "there is no checkpoint yet"
        saved += f", and the earlier run in {self.final} is unchanged" if self.out != self.final else ""
        raise ValueError(
            f"{what} is {value} at step {self.state.step}: start over with a smaller --train.eta (it was {self.options.eta:.3g}); {saved}"
        )
