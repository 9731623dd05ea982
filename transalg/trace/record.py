"""Running a formal algorithm under `sys.settrace` and recording what each numbered line set."""

import inspect
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache
from importlib import import_module
from types import CodeType, FrameType
from typing import Any, Protocol, get_args

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from transalg.formal.modality import Token
from transalg.formal.tree import Theta
from transalg.trace.modal import Tokens, are_tokens, labels
from transalg.trace.source import Algorithm, Line, Part, algorithms

Axes = dict[str, Sequence[str]]  # what stands along a dimension, by the paper's symbol: the tokens along ℓ
Inputs = dict[str, list[int] | Tokens | str]  # what an algorithm is called with, by the paper's symbol: token IDs, or words on it
Value = Tensor | list[Tensor] | Tokens | Theta | float | None  # what a line sets


class TraceFunction(Protocol):
    """What `sys.settrace` takes."""

    def __call__(self, frame: FrameType, event: str, value: object, /) -> "TraceFunction | None": ...


@dataclass(eq=False)
class Step:
    """One execution of one numbered line."""

    algorithm: Algorithm
    line: Line
    depth: int  # 0 in the algorithm traced, 1 in those it calls, …
    call: int  # which call of a traced algorithm this belongs to, counted from 1
    passes: dict[str, int]  # the loops it stands in: {"l": 2} is the second layer, {"h": 1} in a called algorithm the first head
    axes: Axes
    symbol: str = ""  # the variable, as the paper writes it
    dims: tuple[str, ...] | None = None  # its shape in symbols
    value: Value = None  # as it was then
    operands: list["Step"] = field(default_factory=list)  # what the line reads: matrices, vectors, masks
    inner: list["Step"] = field(default_factory=list)  # what its expression computes on the way: attention weights, q, ∇loss(θ)
    within: dict[str, int] = field(default_factory=dict)  # of a called algorithm: which of the calls of `above` this is
    above: "Step | None" = None  # the line that called this algorithm

    @property
    def shape(self) -> tuple[int, ...] | None:
        """The shape in numbers; of each element, if there are many."""
        one = self.value[0] if isinstance(self.value, list) and self.value else self.value
        return tuple(one.shape) if isinstance(one, Tensor) else () if isinstance(one, int | float) else None

    def path(self, line: bool = True) -> str:
        """Algorithm 10, line 6, l = 2 → Algorithm 5, line 1, h = 1 → Algorithm 4, line 4; or up to the last algorithm."""
        steps: list[Step] = [self]
        while steps[0].above is not None:
            steps.insert(0, steps[0].above)
        said = []
        for step, called in zip(steps, [*steps[1:], None], strict=True):
            loops = {index: count for index, count in step.passes.items() if index not in step.within}
            counted = loops | (called.within if called else {})
            name = step.algorithm.kind if step.algorithm.number else step.algorithm.name
            where = [name, f"line {step.line.number}", *(_counted(*one) for one in counted.items())]
            said.append(", ".join(where if called or line else where[:1]))
        return " → ".join(said)


@dataclass
class Trace:
    algorithm: Algorithm
    steps: list[Step] = field(default_factory=list)
    result: object = None
    sizes: dict[str, int] = field(default_factory=dict)  # the hyperparameters, read off θ
    vocabulary: Sequence[str] = ()
    inputs: Inputs = field(default_factory=dict)

    def narrow(self, *, layer: int | None = None, lines: set[int] | None = None) -> "Trace":
        """Only this pass of the loops over layers, only these lines of the algorithm traced, with all they call."""
        keep: list[Step] = []
        wanted: dict[int, bool] = {}  # of the last step at each depth: what it calls is wanted only if it is
        for step in self.steps:
            in_layer = layer is None or step.passes.get("l", layer) == layer
            wanted[step.depth] = in_layer and (wanted[step.depth - 1] if step.depth else lines is None or step.line.number in lines)
            if wanted[step.depth]:
                keep.append(step)
        return replace(self, steps=keep)


def run(
    function: Callable[..., object],
    *args: object,
    depth: int | None = 0,
    axes: Axes | None = None,
    vocabulary: Sequence[str] = (),
    **kwargs: object,
) -> Trace:
    """Call a formal algorithm and record its lines and, down to `depth`, those of the algorithms it calls.

    With None, all that lead to the attention heads: every one but norms and rotations, which are called for every token.
    `axes` says what stands along the dimensions of the inputs, `vocabulary` how tokens are written.
    """
    recorder = Recorder(depth, axes or {}, vocabulary)
    before = sys.gettrace()
    sys.settrace(recorder.enter)
    try:
        result = function(*args, **kwargs)
    finally:
        sys.settrace(before)
    if not recorder.steps:
        raise ValueError(f"{getattr(function, '__name__', function)} ran no formal algorithm, so there is nothing to trace")
    sizes = next((value.sizes() for value in (*args, *kwargs.values()) if isinstance(value, Theta)), {})
    return Trace(recorder.steps[0].algorithm, recorder.steps, result, sizes, vocabulary)


@dataclass
class Call:
    """A running frame of an algorithm."""

    algorithm: Algorithm
    number: int
    axes: Axes
    shapes: dict[str, tuple[str, tuple[str, ...]]] = field(default_factory=dict)  # variable → (symbol, dims) last declared
    within: dict[str, int] = field(default_factory=dict)  # which of its caller's calls it is, where a line makes many
    loops: list[tuple[Line, int]] = field(default_factory=list)  # the loops it is in, and their passes so far
    pending: Step | None = None
    made: int = 0  # how many calls the pending line has made
    failing: bool = False  # an exception is on its way through


class Recorder:
    def __init__(self, depth: int | None, axes: Axes, vocabulary: Sequence[str]) -> None:
        self.depth, self.axes, self.vocabulary = depth, axes, vocabulary
        self.steps: list[Step] = []
        self.calls: list[Call] = []
        self.count = 0

    def enter(self, frame: FrameType, event: str, _: object) -> TraceFunction | None:
        """The global trace function: follow a frame only if it runs an algorithm."""
        algorithm = _bodies().get(frame.f_code)
        if algorithm is None or not self._wanted(algorithm):
            return None
        self.count += 1
        within = {}
        if self.calls and (caller := self.calls[-1]).pending:
            caller.made += 1
            many = re.match(r"(?:for |For |∀)(\w)(?:∈|:)", caller.pending.line.math)
            within = {many[1]: caller.made} if many else {}
        self.calls.append(Call(algorithm, self.count, self._axes(frame), within=within))
        return self.follow

    def _wanted(self, algorithm: Algorithm) -> bool:
        if self.depth is None:
            return not self.calls or not algorithm.kind.endswith(("Algorithm 2", "Algorithm 6"))
        return len(self.calls) <= self.depth

    def follow(self, frame: FrameType, event: str, value: object) -> TraceFunction:
        """The local trace function: a line event says that the statement before it is done."""
        call = self.calls[-1]
        if event == "exception":
            call.failing = True
        elif event == "line":
            call.failing = False
            line = _line_at(call.algorithm, frame.f_lineno)
            again = call.pending is not None and line is call.pending.line and line.kind not in ("for", "while")
            if not again:  # a comprehension may report its own line once for every element
                self._finish(call, frame, frame.f_lineno)
                if line is not None:
                    self._start(call, line, frame)
        elif event == "return":
            if not call.failing:
                self._finish(call, frame, None, value)
            self.calls.pop()
        return self.follow

    def _start(self, call: Call, line: Line, frame: FrameType) -> None:
        while call.loops and not call.loops[-1][0].first <= line.first <= call.loops[-1][0].stop:
            call.loops.pop()
        if line.kind in ("for", "while"):
            count = call.loops.pop()[1] if call.loops and call.loops[-1][0] is line else 0
            call.loops.append((line, count + 1))
        passes = call.within | {_index(loop): count for loop, count in call.loops}
        call.made = 0
        above = self.calls[-2].pending if len(self.calls) > 1 else None
        step = Step(call.algorithm, line, len(self.calls) - 1, call.number, passes, call.axes, within=call.within, above=above)
        call.pending = step
        self.steps.append(step)
        if line.kind not in ("for", "while"):  # before the line runs: X ← X + … changes what it reads
            step.operands = [replace(step, operands=[], **seen) for code in line.operands if (seen := _operand(code, call, frame))]
            step.inner = [self._look_inside(part, call, frame, step) for part in line.inner]

    def _finish(self, call: Call, frame: FrameType, next_line: int | None, returned: object = None) -> None:
        step, call.pending = call.pending, None
        if step is None:
            return
        line = step.line
        if line.kind in ("for", "while"):
            if next_line is None or not line.last < next_line <= line.stop:
                self.steps.remove(step)  # the loop ended: this was no further pass
                return
            step.symbol, step.value, step.dims = _index(line), call.loops[-1][1], ()
            return
        name = line.targets[0] if line.targets else "return"
        if line.symbol is not None and line.dims is not None:
            call.shapes[name] = _written(line), line.dims
        step.symbol, step.dims = call.shapes.get(name, (_written(line), None))
        raw = returned if line.kind == "return" else frame.f_locals[name]
        if callable(raw) and "theta" in frame.f_locals:
            function = raw
            raw = _untraced(lambda: function(frame.f_locals["theta"]))  # P(θ) and loss(θ) are shown at the θ of now
        step.value = _copy(raw)
        if any(part.math == "∇loss(θ)" for part in line.inner):
            loss = _untraced(lambda: frame.f_locals["loss"](frame.f_locals["theta"]))
            step.inner.append(replace(step, symbol="loss(θ)", dims=(), value=_copy(loss), operands=[], inner=[]))
        grown = frame.f_locals.get("x_hat", frame.f_locals.get("x"))
        if line.targets == ("P",) and step.dims and isinstance(step.value, Tensor) and isinstance(grown, Tensor) and self.vocabulary:
            # Algorithms 14 and 15 lengthen their sequence: a column of P for every token it has now
            step.axes = step.axes | {step.dims[-1]: self._written(grown[-step.value.shape[-1] :])}
        tokens: object = frame.f_locals.get("s")
        if line.targets == ("P",) and step.dims and isinstance(step.value, Tensor) and are_tokens(tokens):
            step.axes = step.axes | {step.dims[-1]: labels(tokens[-step.value.shape[-1] :], self.vocabulary)}

    def _look_inside(self, part: Part, call: Call, frame: FrameType, step: Step) -> Step:
        """Evaluate a part of a line's expression where the line stands: the same code on the same variables."""
        names = dict(frame.f_locals)
        value = _copy(_untraced(lambda: eval(part.code, frame.f_globals | names)))  # as globals, so that a comprehension sees them
        declared = (dims for name, (_, dims) in call.shapes.items() if re.search(rf"\b{name}\b", part.code))
        dims = part.dims if part.dims is not None else next(declared, None)
        axes = step.axes
        s: object = names.get("s")
        if part.tokens and dims and are_tokens(s):
            axes = axes | {dims[0]: labels([s[t + 1] for t in names["T"].tolist()], self.vocabulary)}
        elif part.tokens and dims and self.vocabulary:
            axes = axes | {dims[0]: self._written(eval(part.tokens, frame.f_globals | names))}
        return replace(step, symbol=part.math, dims=dims, value=value, axes=axes, operands=[], inner=[])

    def _written(self, tokens: Tensor) -> list[str]:
        return [self.vocabulary[i] for i in _detached(tokens).tolist()]

    def _axes(self, frame: FrameType) -> Axes:
        """What stands along the dimensions of a call: its own tokens, or those of the sequences its caller passed on."""
        names = frame.f_locals
        axes: Axes = {"N_V": self.vocabulary} if self.vocabulary else {}
        for tokens, symbols in (("x", ("ℓ", "ℓ_x")), ("z", ("ℓ_z",))):
            if isinstance(names.get(tokens), Tensor) and self.vocabulary:
                axes |= dict.fromkeys(symbols, self._written(names[tokens]))
        s: object = names.get("s")
        if are_tokens(s):
            axes["ℓ"] = labels(s, self.vocabulary)
        if not self.calls:
            return axes | self.axes
        caller = self.calls[-1]
        if "X" in names and caller.pending is not None:
            # MHAttention(X, Z | …) or block(X | …) in the caller's tag: its X and Z are the callee's, a Z left out is X.
            called = re.search(r"\w\((?P<X>[^,|()]+?)(?:, (?P<Z>[^,|()]+?))? \|", caller.pending.line.math)
            dims = {"X": ("d_x", "ℓ_x"), "Z": ("d_z", "ℓ_z")} | dict(caller.shapes.values())
            if called:
                for symbol, sequence in (("ℓ", called["X"]), ("ℓ_x", called["X"]), ("ℓ_z", called["Z"] or called["X"])):
                    if (along := dims.get(sequence, ("",))[-1]) in caller.axes:
                        axes[symbol] = caller.axes[along]
        return axes


@cache
def _bodies() -> dict[CodeType, Algorithm]:
    """The code of every formal algorithm."""
    return {inspect.unwrap(function_of(algorithm)).__code__: algorithm for algorithm in algorithms()}


def function_of(algorithm: Algorithm) -> Callable[..., object]:
    """The function that an algorithm is."""
    function: Callable[..., object] = getattr(import_module(f"transalg.formal.{algorithm.module}"), algorithm.name)
    return function


def _untraced(compute: Callable[[], object]) -> object:
    """What a function computes, without a trace of it."""
    tracing = sys.gettrace()
    sys.settrace(None)
    try:
        return compute()
    finally:
        sys.settrace(tracing)


GREEK = {"gamma": "γ", "beta": "β", "alpha": "α", "omega": "ω", "X_tilde": "X̃"}


def _operand(code: str, call: Call, frame: FrameType) -> dict[str, Any] | None:
    """What a variable or a field of θ is now: symbol, shape in symbols, value; None for what is no vector, matrix or mask."""
    name, _, part = code.partition(".")
    owner = frame.f_locals.get(name)
    if isinstance(owner, Token) and part == "patch" and owner.patch is not None:
        return {"symbol": "A", "dims": ("C", "n", "n"), "value": _unwrapped(owner.patch.A)}
    value = getattr(owner, part, None) if part and isinstance(owner, Theta) else owner if not part else None
    some = value[0] if isinstance(value, list) and value else value
    if not isinstance(some, Tensor) or not some.ndim or not (some.is_floating_point() or some.dtype == torch.bool):
        return None
    if part:
        of_layer = name in ("layer", "theta_l")
        letter, number = re.fullmatch(r"([^\W\d]+?)(\d?)", part).groups()  # type: ignore[union-attr]
        if letter in GREEK:
            symbol = GREEK[letter] + ("_l" if of_layer else "") + (f"^{number}" if number else "")
        else:
            symbol = re.sub(r"^(gamma|beta)(?=_)", lambda greek: GREEK[greek[1]], part) + ("^l" if of_layer else "")
        dims = _annotated({each.name: each.type for each in fields(owner)}.get(part))  # type: ignore[arg-type]
    elif name in call.shapes:
        symbol, dims = call.shapes[name]
    else:
        symbol, dims = GREEK.get(name, name), _annotated(inspect.unwrap(function_of(call.algorithm)).__annotations__.get(name))
    copy = [_unwrapped(one) for one in value] if isinstance(value, list) else _unwrapped(some)
    return {"symbol": symbol, "dims": dims if dims is not None and len(dims) == some.ndim else None, "value": copy}


def _annotated(annotation: object) -> tuple[str, ...] | None:
    """The shape that an annotation states, in the paper's letters; of Float[Tensor, "d_e"] | None too."""
    for one in (annotation, *get_args(annotation)):
        if isinstance(shape := getattr(one, "dim_str", None), str):
            return tuple(shape.replace("ell", "ℓ").replace("*", "·").split())
    return None


def _counted(index: str, count: int) -> str:
    """l = 2; of a while loop, pass 2."""
    return f"pass {count}" if index == "pass" else f"{index} = {count}"


def _line_at(algorithm: Algorithm, row: int) -> Line | None:
    return next((line for line in algorithm.lines if line.kind != "end" and line.first <= row <= line.last), None)


def _index(loop: Line) -> str:
    """The variable a loop counts, as the paper writes it; a while loop has none."""
    counted = re.match(r"for (\w+) = ", loop.math)
    return counted[1] if counted else "pass"


def _written(line: Line) -> str:
    """What a line sets, in the paper's letters: X̃ in «for t∈[ℓ]: X̃[:,t] ← …», y in «sample a token y from …»."""
    left = re.match(r"(?:(?:for |∀|For )[^:]*: |return |sample a token )?(?P<name>[^\s\[,(]+(?:\(θ\))?)", line.math)
    if left and line.symbol and left["name"].startswith(f"{line.symbol}_"):
        return line.symbol  # α, where the line sets every α_t
    return "S" if line.math.startswith("∀t_z, t_x, if") else left["name"] if left else line.symbol or ""


def _copy(value: object) -> Value:
    """A value as it is now."""
    if isinstance(value, Tensor):
        return _detached(value)
    if are_tokens(value):
        return Tokens(tuple(value))
    if isinstance(value, list):
        return [_detached(element) for element in value]
    if isinstance(value, Theta):
        copy: Theta = pytree.tree_map(_detached, value)
        return copy
    assert value is None or isinstance(value, float | int), f"expected what a line sets, got {type(value).__name__}"
    return value


def _detached(tensor: Tensor) -> Tensor:
    """A copy, free of the autograd and torch.func machinery around it."""
    return _unwrapped(tensor).clone()


def _unwrapped(tensor: Tensor) -> Tensor:
    """The same without a copy, for what no line changes in place."""
    while torch._C._functorch.is_functorch_wrapped_tensor(tensor):
        tensor = torch._C._functorch.get_unwrapped(tensor)
    return tensor.detach().cpu()
