"""The tree: a module imports only from those above it, and help needs nothing heavy."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import transalg

ROOT = Path(transalg.__file__).parent
# Top to bottom. CONTRIBUTING.md shows the same list, and tests/test_docs.py compares them.
TREE = [
    "atomic",
    "reading",
    "checks",
    "limits",
    "memory",
    "terminal",
    "formal.notation",
    "formal.tree",
    "formal.theta",
    "formal.mask",
    "formal.domains",
    "formal.components",
    "formal.architectures",
    "formal.training",
    "formal.inference",
    "formal.positions",
    "formal.norm",
    "formal.heads",
    "formal.pooling",
    "formal.mlp",
    "formal.bias",
    "formal.embedding",
    "formal.head",
    "formal.unembedding",
    "formal.sharing",
    "formal.classification",
    "formal.adversarial",
    "formal.systems",
    "formal.decoders",
    "formal.modality",
    "formal.bins",
    "formal.resnet",
    "formal.gato",
    "formal.agent",
    "formal",
    "trace.source",
    "trace.errata",
    "trace.sentences",
    "trace.why_gato",
    "trace.why",
    "trace.setting",
    "trace.listing",
    "trace.modal",
    "trace.record",
    "trace.export",
    "trace.show",
    "trace.page",
    "trace.example",
    "trace.gato_example",
    "trace",
    "hyper.special",
    "hyper.modalities",
    "hyper.heads",
    "hyper.mask",
    "hyper.positions",
    "hyper.norm",
    "hyper.pooling",
    "hyper.mlp",
    "hyper.head",
    "hyper.hyper",
    "hyper.presets",
    "hyper",
    "hyper.embedding",
    "hyper.unembedding",
    "hyper.shapes",
    "hyper.cost",
    "hyper.variants",
    "tokenization.tokenizer",
    "tokenization.vocabulary",
    "tokenization.spaces",
    "tokenization.sequence",
    "tokenization.values",
    "tokenization.modalities",
    "tokenization",
    "data.builtin",
    "data.files",
    "data.tables",
    "data.sources",
    "data.datasets",
    "data.objects",
    "data.texts",
    "data.duplicates",
    "data.rewriting",
    "data.cleaning",
    "data.shuffle",
    "data.store",
    "data.rows",
    "data.mixture",
    "data.batches",
    "data.episodes",
    "data.recorder",
    "data.episode_rows",
    "data.episode_batches",
    "data",
    "worlds.world",
    "worlds.cartpole",
    "worlds.pendulum",
    "worlds.taxi",
    "worlds.glyphs",
    "worlds.rollout",
    "worlds.record",
    "worlds.conversion",
    "worlds.minigrid_view",
    "worlds.babyai",
    "worlds.pong",
    "worlds.adapter",
    "worlds.make",
    "worlds.builtin",
    "worlds",
    "model.layout",
    "model.checks",
    "model.mixed",
    "model.parameters",
    "model.kernels",
    "model.cache",
    "model.heads",
    "model.positions",
    "model.mask",
    "model.norm",
    "model.pooling",
    "model.mlp",
    "model.head",
    "model.attention",
    "model.layers",
    "model.embedding",
    "model.unembedding",
    "model.loss",
    "model.bridge",
    "model.counterpart",
    "model.transformer",
    "model.decoder",
    "model.gato",
    "model.architectures",
    "model.sharding",
    "model",
    "cpu.fingerprint",
    "cpu.pages",
    "cpu.linear",
    "cpu.wrapped",
    "cpu.single_token",
    "cpu.packing",
    "cpu",
    "tasks.masking",
    "tasks.predictions",
    "tasks.examples",
    "tasks.task",
    "tasks.adversarial",
    "tasks.losses",
    "tasks.evaluation",
    "tasks.lm",
    "tasks.mlm",
    "tasks.seq2seq",
    "tasks.classify",
    "tasks.multi",
    "tasks.gato",
    "tasks",
    "optimisation.muon",
    "optimisation.optimisers",
    "optimisation.schedules",
    "optimisation",
    "runs.synonyms",
    "runs.config",
    "runs.options",
    "runs.paths",
    "runs.texts",
    "runs.lock",
    "runs.schema",
    "runs.state",
    "runs.metadata",
    "runs.tensors",
    "runs.checkpoints",
    "runs.folder",
    "runs.swap",
    "runs.models",
    "runs",
    "inference.ensemble",
    "inference.results",
    "inference.detokenizer",
    "inference.samplers",
    "inference.options",
    "inference.text_only",
    "inference.decoding",
    "inference.beams",
    "inference.one_pass",
    "inference.agent",
    "inference.loaded",
    "inference.run",
    "inference.prompting",
    "inference",
    "training.machine",
    "training.memory",
    "training.prefetch",
    "training.report",
    "training.watch",
    "training.curves",
    "training.notebook",
    "training.processes",
    "training.validation",
    "training.prepare",
    "training.prepare_episodes",
    "training.summary",
    "training.interrupt",
    "training.metrics",
    "training.loop",
    "training.start",
    "training.train",
    "training",
    "evaluation.classes",
    "evaluation.pairs",
    "evaluation.measure",
    "evaluation.tasks",
    "evaluation.baselines",
    "evaluation",
    "verify.batches",
    "verify.laws",
    "verify.cases",
    "verify.trained",
    "verify.findings",
    "verify.adapters",
    "verify.module_laws",
    "verify.components",
    "verify.module",
    "verify",
    "interop.settings",
    "interop.names",
    "interop.family",
    "interop.gpt2",
    "interop.llama",
    "interop.bert",
    "interop.marian",
    "interop.families",
    "interop.weights",
    "interop.matching",
    "interop.vocabulary",
    "interop.checkpoint",
    "interop.fitting",
    "interop.export",
    "interop.card",
    "interop.huggingface",
    "interop.pieces",
    "interop.llama2c",
    "interop.gguf",
    "interop.gguf_writing",
    "interop.ctranslate2",
    "interop.onnx_modules",
    "interop.onnx",
    "interop.hub",
    "interop.load",
    "interop.save",
    "interop",
    "cli.streams",
    "cli.failures",
    "cli.bounds",
    "cli.parsing",
    "cli.algorithm",
    "cli.errata",
    "cli.using",
    "cli.pictures",
    "cli.presets",
    "cli.generate",
    "cli.predict",
    "cli.trace",
    "cli.fill",
    "cli.classify",
    "cli.embed",
    "cli.score",
    "cli.prompt",
    "cli.evaluate",
    "cli.plot",
    "cli.clean",
    "cli.tokenizer",
    "cli.gato",
    "cli.frames",
    "cli.play",
    "cli.caption",
    "cli.train",
    "cli.demo_gato",
    "cli.demo",
    "cli.import_run",
    "cli.export_run",
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
    assert module in TREE, f"transalg.{module} is not in the tree: add it to TREE and to CONTRIBUTING.md"
    return TREE.index(module)


def imports(path: Path) -> list[str]:
    """Every module that is imported when the file runs, wherever in it, in full. What only a type needs may stand below."""
    names: list[str] = []
    package = ["transalg", *path.relative_to(ROOT).parent.parts]
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for_types = {
        inner for node in ast.walk(tree) if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING" for inner in node.body
    }
    for node in ast.walk(tree):
        if node in for_types:
            continue
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = (
                ".".join([*package[: len(package) - node.level + 1], *([node.module] if node.module else [])])
                if node.level
                else node.module or ""
            )
            # `from transalg.formal import positions` imports a module, `from transalg.formal import DTheta` a name of one
            names += [
                f"{base}.{alias.name}" if (ROOT.parent / base.replace(".", "/") / f"{alias.name}.py").exists() else base
                for alias in node.names
            ]
    return names


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_a_module_imports_only_from_those_above_it(path: Path) -> None:
    module = name_of(path)
    for imported in imports(path):
        if imported == "transalg" or not imported.startswith("transalg."):
            continue
        assert rank(imported.removeprefix("transalg.")) < rank(module), f"transalg.{module} imports {imported}, which stands below it"


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
    "algorithm softmax",
    "errata --help",
    "errata",
    "errata 7",
    "presets --help",
    "train --help",
    "demo --help",
    "clean --help",
    "gato --help",
    "gato record --help",
    "evaluate --help",
    *(f"{verb} --help" for verb in ("generate", "predict", "fill", "classify", "embed", "score", "prompt", "play", "caption")),
    "plot --help",
    "import --help",
    "export --help",
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
    verbs = re.search(r"\{([\w,]+)\}", re.sub(r",\s+", ",", usage))[1].split(",")
    assert verbs and all(f"{verb} --help" in LIGHT for verb in verbs)


PACKAGES = sorted(path.parent.name for path in ROOT.glob("*/__init__.py"))


@pytest.mark.slow
@pytest.mark.parametrize("package", PACKAGES)
def test_sub_packages_are_available_on_attribute_access(package: str) -> None:
    """`import transalg` alone is enough for `transalg.formal`, and imports neither torch nor a sub-package."""
    code = (
        "import sys, transalg\n"
        "assert not [name for name in sys.modules if name.startswith('transalg.') or name == 'torch']\n"
        f"assert {package!r} in dir(transalg)\n"
        f"assert transalg.{package} is sys.modules['transalg.{package}']"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_type_checkers_know_the_sub_packages() -> None:
    """Those that are imported for type checkers are those on disk."""
    tree = ast.parse((ROOT / "__init__.py").read_text(encoding="utf-8"))
    typed = [
        alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module == "transalg" for alias in node.names
    ]
    assert typed == PACKAGES


def test_the_names_of_a_sub_package_are_available_too() -> None:
    code = "import transalg\nassert transalg.inference.quantize and transalg.inference.pack\nassert transalg.inference.samplers.TopK"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    with pytest.raises(AttributeError, match="module 'transalg' has no attribute 'nothing'"):
        _ = transalg.nothing
