"""From your text to llama.cpp: train a small Llama, export it as a gguf file, and let llama.cpp write with it.

pip install 'transalg[export]' xllamacpp                  xllamacpp is llama.cpp as a package; any other build reads the file as well
python examples/llama_cpp.py book.txt runs/llama
"""

import json
import sys
import urllib.request
from importlib.util import find_spec
from pathlib import Path

import transalg
from transalg.interop.save import export_run

LLAMA = {"positions": "rotary", "norm": "RMSnorm", "activation": "SwiGLU", "bias": "none", "tied": True}  # what gguf calls `llama`


def llama_cpp(file: Path, prompt: str, count: int) -> str:
    """What llama.cpp writes, the most probable token each time."""
    import xllamacpp

    options = xllamacpp.CommonParams()
    options.model.path, options.n_ctx, options.n_parallel, options.warmup, options.verbosity = str(file), 128, 1, False, -1
    # as exact as we are: its keys and values are usually in half precision
    options.cache_type_k = options.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
    options.flash_attn_type, options.fit_params = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED, False
    server = xllamacpp.Server(options)
    body = json.dumps({"prompt": prompt, "n_predict": count, "temperature": 0.0}).encode()
    asked = urllib.request.Request(f"{server.listening_address}/completion", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(asked) as answer:
        return str(json.loads(answer.read())["content"])


def main(text: str, out: str, **options: object) -> dict[str, str]:
    """What each writes after the text's first letters."""
    for package in ("gguf", "xllamacpp"):
        if find_spec(package) is None:
            raise SystemExit(f"{package} is not installed: pip install 'transalg[export]' xllamacpp")
    settings: dict[str, object] = LLAMA | {"tokenizer": "bpe", "steps": 300}
    run = transalg.train("lm", text, out=out, **settings | options).load()
    folder = Path(f"{out}-gguf")
    export_run(Path(out), "gguf", folder, overwrite=True)  # as `transalg export RUN --format gguf --out FOLDER` does

    prompt = Path(text).read_text(encoding="utf-8")[:5]
    written = {
        "transalg": run.generate(prompt, tau=0, ell_gen=20),
        "llama.cpp": llama_cpp(folder / "model.gguf", prompt, 20),
    }
    for name, continuation in written.items():
        print(f"{name:10} {prompt}{continuation}")
    return written


if __name__ == "__main__":
    main(*sys.argv[1:3])
