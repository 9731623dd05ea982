"""The tree: a module imports only from those above it, and help needs nothing heavy."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import transalg

ROOT = Path(transalg.__file__).parent
# Top to bottom, as the architecture has it; parts that are yet to come stand in their place.
TREE = [
    "formal.notation",
    "formal.tree",
    "formal.theta",
    "formal.domains",
    "formal.components",
    "formal.architectures",
    "formal.training",
    "formal.inference",
    "formal.variants",
    "formal.systems",
    "formal",
    "trace.source",
    "trace.setting",
    "trace.listing",
    "trace.record",
    "trace.export",
    "trace.show",
    "trace.page",
    "trace.example",
    "trace",
    "hyper",
    "shapes",
    "cost",
    "tokenization.tokenizer",
    "tokenization.vocabulary",
    "tokenization",
    "data.builtin",
    "data.sources",
    "data.shuffle",
    "data.store",
    "data.rows",
    "data.batches",
    "data",
    "model.rows",
    "model.inputs",
    "model.attention",
    "model.positions",
    "model.cache",
    "model.decoding",
    "model.parameters",
    "model.blocks",
    "model.alone",
    "model.loss",
    "model.bridge",
    "model.architectures",
    "model.sharding",
    "model",
    "training.memory",
    "training.config",
    "training.objectives",
    "training.optimisers",
    "training.schedules",
    "training.checkpoints",
    "training.runs",
    "training.report",
    "training.prepare",
    "training.processes",
    "training.tasks",
    "training.validation",
    "training.interrupt",
    "training.metrics",
    "training.loop",
    "training.start",
    "training",
    "inference.weights",
    "inference.averages",
    "inference.answers",
    "inference.growing",
    "inference.samplers",
    "inference.decoding",
    "inference.beams",
    "inference.reading",
    "inference.run",
    "inference.prompting",
    "inference",
    "evaluation.probabilities",
    "evaluation.measure",
    "evaluation.baselines",
    "evaluation",
    "verify.batches",
    "verify.laws",
    "verify.cases",
    "verify.trained",
    "verify",
    "interop",
    "cli.algorithm",
    "cli.trace",
    "cli.presets",
    "cli.watch",
    "cli.using",
    "cli.generate",
    "cli.predict",
    "cli.fill",
    "cli.classify",
    "cli.embed",
    "cli.score",
    "cli.prompt",
    "cli.evaluate",
    "cli.plot",
    "cli.tokenizer",
    "cli.train",
    "cli.demo",
    "cli.verify",
    "cli",
    "__main__",
    "",  # the package itself, which names what stands above
]
MODULES = sorted(ROOT.rglob("*.py"))


def name_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


def rank(module: str) -> int:
    """Where a module stands: by its own line, or by that of the package it is in."""
    while module not in TREE:
        assert "." in module, f"transalg.{module} stands nowhere in the tree: add it to TREE and to the architecture"
        module = module.rpartition(".")[0]
    return TREE.index(module)


def imports(path: Path) -> list[str]:
    """Every module imported, wherever in the file, in full."""
    found = []
    package = ["transalg", *path.relative_to(ROOT).parent.parts]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = (
                ".".join([*package[: len(package) - node.level + 1], *([node.module] if node.module else [])])
                if node.level
                else node.module or ""
            )
            # `from transalg.formal import variants` imports a module, `from transalg.formal import DTheta` a name of one
            found += [
                f"{base}.{alias.name}" if (ROOT.parent / base.replace(".", "/") / f"{alias.name}.py").exists() else base
                for alias in node.names
            ]
    return found


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_a_module_imports_only_from_those_above_it(path: Path) -> None:
    own = name_of(path)
    for imported in imports(path):
        if imported == "transalg" or not imported.startswith("transalg."):
            continue
        assert rank(imported.removeprefix("transalg.")) < rank(own), f"transalg.{own} imports {imported}, which stands below it"


def test_formal_imports_torch_and_nothing_of_the_package() -> None:
    outside = {
        name.split(".")[0] for path in MODULES if "formal" in path.parts for name in imports(path) if not name.startswith("transalg.formal")
    }
    assert outside - sys.stdlib_module_names == {"torch", "jaxtyping"}


LIGHT = [
    "--help",
    "--version",
    "algorithm --help",
    "trace --help",
    "algorithm",
    "algorithm 10",
    "presets --help",
    "train --help",
    "demo --help",
    "evaluate --help",
    *(f"{verb} --help" for verb in ("generate", "predict", "fill", "classify", "embed", "score", "prompt")),
    "plot --help",
    "tokenizer --help",
    "tokenizer encode --help",
    "presets",
    "presets gpt2",
    "verify --help",
]


@pytest.mark.slow
@pytest.mark.parametrize("command", LIGHT)
def test_nothing_heavy_is_imported(command: str) -> None:
    """Help, and printing an algorithm, import neither torch nor anything that imports it."""
    code = (
        f"import sys; sys.argv = ['transalg', *{command.split()!r}]\n"
        "from transalg.cli import main\n"
        "try: main()\n"
        "except SystemExit as stop: assert not stop.code, stop.code\n"
        "print('HEAVY:', [name for name in ('torch', 'numpy', 'jaxtyping', 'safetensors', 'matplotlib') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "HEAVY: []"


def test_every_verb_is_covered() -> None:
    usage = subprocess.run([sys.executable, "-m", "transalg", "--help"], capture_output=True, text=True, check=True).stdout
    verbs = re.search(r"\{([\w,]+)\}", usage)[1].split(",")
    assert verbs and all(f"{verb} --help" in LIGHT for verb in verbs)
