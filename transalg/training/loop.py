"""The loop: batches to a better θ, with validation, checkpoints, and a way back from every interruption."""

import math
import shutil
import time
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.distributed.tensor import DTensor

from transalg.data.batches import DataPosition
from transalg.data.shuffle import derive_seed
from transalg.runs import checkpoints
from transalg.runs import folder as run_folder
from transalg.runs.config import Config
from transalg.tasks.examples import MODELS, augmented, example
from transalg.tasks.losses import Objective
from transalg.training.interrupt import Interrupt
from transalg.training.metrics import Metrics, forget
from transalg.training.optimisers import optimisers
from transalg.training.prepare import Prepared
from transalg.training.processes import World
from transalg.training.report import Report
from transalg.training.schedules import lr_factor
from transalg.training.validation import validate

INIT, DROPOUT, MASK, NOISE = 11, 12, 13, 14  # what a random number is for
FORMAT = 1  # of checkpoints


@dataclass
class State:
    """How far a run has come."""

    step: int = 0
    tokens: int = 0
    seconds: float = 0.0  # of training, without validation
    place: DataPosition = field(default_factory=DataPosition)
    best: float | None = None  # the lowest validation loss
    best_step: int = 0
    waited: int = 0  # validations since
    losses: list[float] = field(default_factory=list)  # of the steps since the last line of metrics

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "State":
        return cls(**data | {"place": DataPosition(**data["place"])})


@dataclass(frozen=True)
class Outcome:
    """How a run ended."""

    out: Path
    config: Config
    state: State
    figures: dict[str, float]  # of the last validation
    reason: str  # done, patience, interrupted
    parameters: int


class Loop:
    def __init__(self, prepared: Prepared, out: Path, world: World, report: Report, resume: bool) -> None:
        self.prepared, self.out, self.world, self.report = prepared, out, world, report
        self.config, self.hyper, self.options = prepared.config, prepared.hyper, prepared.config.train
        self.state = State()
        dtype = torch.float64 if self.options.dtype == "float64" else torch.float32
        generator = torch.Generator().manual_seed(derive_seed(2**62, self.options.seed, INIT))
        late = self.options.shard and not self.config.init  # no process has to hold all of a model that is sharded
        self.model = MODELS[self.config.task](self.hyper, dtype=dtype, generator=generator, device="meta" if late else world.device)
        if self.config.init and not resume:
            self._take(Path(self.config.init))
        self.model.recompute = self.options.recompute
        self.parameters = sum(parameter.numel() for parameter in self.model.parameters())
        self.objective = world.wrapped(Objective(self.model), sharded=self.options.shard)
        if late:
            self.model.to_empty(device=world.device)
            self.model.reset_parameters(generator)
        assert self.options.eta is not None
        self.optimisers = optimisers(
            self.model,
            self.options.optimizer,
            self.options.eta,
            weight_decay=self.options.weight_decay,
            beta1=self.options.beta1,
            beta2=self.options.beta2,
        )
        if resume:
            self._resume()
        if self.options.compile:
            self.objective = torch.compile(self.objective)  # type: ignore[assignment]
        low = self.options.dtype == "bfloat16"
        self.autocast = torch.autocast(world.device.type, torch.bfloat16) if low else nullcontext()
        self.figures: dict[str, float] = {}

    # Start, resume --------------------------------------------------------------------------------------------------------

    def _take(self, run: Path) -> None:
        """The weights of another run, wherever names and shapes agree."""
        tensors = run_folder.tensors(run)
        own = self.model.state_dict()
        taken = {name: tensor for name, tensor in tensors.items() if name in own and own[name].shape == tensor.shape}
        if not taken:
            raise ValueError(f"--init: no parameter of {run} has the name and shape of one of this model")
        self.model.load_state_dict(taken, strict=False)
        new = [name for name in own if name not in taken]
        self.report.note(f"{len(taken)} of {len(own)} parameters come from {run}" + (f"; new: {', '.join(new[:6])}" if new else ""))

    def _resume(self) -> None:
        folder, path = checkpoints.sharded(self.out / run_folder.LAST), self.out / f"{run_folder.LAST}.safetensors"
        if folder is not None and not path.exists():
            facts = checkpoints.facts_sharded(folder)
            checkpoints.restore_sharded(self.model, self.optimisers, folder)
        elif path.exists():
            tensors, facts = checkpoints.load(path)
            try:
                checkpoints.restore(self.model, self.optimisers, tensors)
            except (ValueError, KeyError, RuntimeError) as error:
                raise ValueError(f"{path}: cannot be resumed from: {str(error).splitlines()[0]}") from error
        else:
            raise ValueError(f"{self.out}: there is no checkpoint to resume from")
        self.state = State.from_dict(facts["state"])
        if self.world.first:
            forget(self.out, self.state.step)
        self.report.note(f"Resuming at step {self.state.step:,}")

    # The loop -------------------------------------------------------------------------------------------------------------

    def run(self) -> Outcome:
        state, options = self.state, self.options
        steps, eval_every, save_every = self.prepared.steps, options.eval_every, options.save_every
        assert eval_every and save_every
        reason = "done"
        self.objective.train()
        self.report.begin(state.step, steps)
        batches = self.prepared.plan.forever(self.prepared.train, state.place)
        since = state.step
        with Interrupt() as interrupt, Metrics(self.out, self.world.first, tensorboard=options.tensorboard) as metrics:
            while state.step < steps:
                place, rows, index = next(batches)
                start = time.perf_counter()
                batch = rows.batch(np.asarray(index))
                eta = self._set_eta(steps)
                loss, asked = self._step(batch, interrupt.asked)
                state.step, state.place, state.tokens = state.step + 1, place, state.tokens + batch.tokens
                elapsed = time.perf_counter() - start
                state.seconds += elapsed
                self._finite("the loss", loss)
                state.losses.append(loss)
                self.report.step(state.step, loss, batch.tokens / elapsed)
                if state.step % options.log_every == 0 or state.step == steps:
                    metrics.write(state.step, state.tokens, state.seconds, loss=sum(state.losses) / len(state.losses), eta=eta)
                    state.losses = []
                last = state.step == steps or asked
                if state.step % eval_every == 0 or state.step == steps:
                    self._validate(metrics)
                    if options.patience is not None and state.waited >= options.patience:
                        reason, last = "patience", True
                if asked and state.step < steps:
                    reason = "interrupted"
                if state.step % save_every == 0 or last:
                    self._save()
                if last:
                    break
        if state.step == since and self.prepared.valid is not None and not self.figures:
            self.figures = validate(self.objective, self.config.task, self.prepared.valid, self.hyper, self.world, self.autocast)
        self.report.end()
        return Outcome(self.out, self.config, state, self.figures, reason, self.parameters)

    def _set_eta(self, steps: int) -> float:
        options = self.options
        assert options.eta is not None and options.warmup is not None
        part = lr_factor(self.state.step, steps, schedule=options.schedule, warmup=options.warmup, final=options.final, decay=options.decay)
        for optimiser in self.optimisers:
            for group in optimiser.param_groups:
                group["lr"] = options.eta * part
        return options.eta * part

    def _step(self, batch: Any, asked: bool) -> tuple[float, bool]:
        """One step of all processes; the batch's loss, and whether any process was asked to stop."""
        options, world, task = self.options, self.world, self.config.task
        seed = options.seed, self.state.step
        batch = augmented(task, batch, self.hyper, options.noise, options.token_drop, derive_seed(2**62, NOISE, *seed))
        found = example(task, batch, self.hyper, derive_seed(2**62, MASK, *seed))
        torch.manual_seed(derive_seed(2**62, DROPOUT, *seed, world.rank))
        weight = world.size * (1.0 if options.loss == "sum" else 1 / max(1, found.count))  # gradients are means over the processes
        parts = world.size * options.accumulate
        told = torch.zeros(2, dtype=torch.float64)
        for i in range(options.accumulate):
            arguments, there = found.part(world.rank + i * world.size, parts, world.device)
            last = i == options.accumulate - 1
            with nullcontext() if last or world.size == 1 or options.shard else self.objective.no_sync():  # type: ignore[operator]
                with self.autocast:
                    loss = self.objective(*arguments, weight=weight * there)
                loss.backward()
            told[0] += loss.detach().cpu().double() / world.size
        told[1] = asked
        world.total(told)
        if options.clip:
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), options.clip)
        for optimiser in self.optimisers:
            optimiser.step()
            optimiser.zero_grad()
        return float(told[0]), bool(told[1])

    def _validate(self, metrics: Metrics) -> None:
        state = self.state
        if self.prepared.valid is None:
            self._save_best(None)
            return
        self.figures = validate(self.objective, self.config.task, self.prepared.valid, self.hyper, self.world, self.autocast)
        self._finite("the validation loss", self.figures["val_loss"])
        better = state.best is None or self.figures["val_loss"] < state.best
        if better:
            state.best, state.best_step, state.waited = self.figures["val_loss"], state.step, 0
            self._save_best(state.best)
        else:
            state.waited += 1
        metrics.write(state.step, state.tokens, state.seconds, **self.figures)
        self.report.validation(state.step, self.figures, better)

    # Checkpoints ----------------------------------------------------------------------------------------------------------

    def _facts(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "task": self.config.task,
            "hyper": self.hyper.to_dict(),
            "labels": self.prepared.labels,
            "data": self.prepared.digest,
        }

    def _save(self) -> None:
        largest = max(float(_own(part).abs().amax().nan_to_num(nan=math.inf)) for part in self.model.parameters() if _own(part).numel())
        self._finite("a weight", float(self.world.total(torch.tensor([largest], dtype=torch.float64))))
        tensors = checkpoints.state(self.model, self.optimisers)
        facts = self._facts() | {"state": asdict(self.state)}
        if self.options.shard:
            checkpoints.save_sharded(self.out / "last", tensors, facts)
        elif self.world.first:
            checkpoints.save(self.out / "last.safetensors", tensors, facts)
        self._other_form(run_folder.LAST)

    def _save_best(self, val_loss: float | None) -> None:
        tensors = checkpoints.state(self.model, [])
        facts = self._facts() | {"step": self.state.step, "val_loss": val_loss}
        if self.options.shard:
            checkpoints.save_sharded(self.out / "best", tensors, facts)
        elif self.world.first:
            plain = {name.removeprefix(checkpoints.MODEL): part for name, part in tensors.items()}
            checkpoints.save(self.out / "best.safetensors", plain, facts)
        self._other_form(run_folder.BEST)

    def _other_form(self, name: str) -> None:
        """A checkpoint is sharded or it is not; what a start of the other kind left goes when there is a newer one."""
        if self.world.first:
            if self.options.shard:
                (self.out / f"{name}.safetensors").unlink(missing_ok=True)
            else:
                shutil.rmtree(self.out / name, ignore_errors=True)
        self.world.wait()

    def _finite(self, what: str, value: float) -> None:
        """A run whose numbers are none ends, and what it has saved before stays."""
        if math.isfinite(value):
            return
        self.report.end()
        kept = f"a checkpoint from before is in {self.out}" if run_folder.last(self.out) else "there is no checkpoint yet"
        raise ValueError(
            f"{what} is {value} at step {self.state.step}: begin anew with a smaller --train.eta (it was {self.options.eta:.3g}); {kept}"
        )


def _own(part: torch.Tensor) -> torch.Tensor:
    """What this process has of a parameter."""
    part = part.detach()
    return part.to_local() if isinstance(part, DTensor) else part
