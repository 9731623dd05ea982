"""Today's decoders against their peers: training steps and decoding of Llamas, and the size of the key/value cache.

    pip install -e ".[bench]"
    python -m benchmarks.decoders            # all; or some of: training decoding cache

Every speed is a ratio of things measured in turn in one run, each contender in a process of its own, with 2 threads unless told. Peers: Llama of Hugging
Face transformers with sdpa attention, and llama.cpp (xllamacpp), which decodes the same random weights as we do from a gguf file. Its keys
and values are float32 beside float32 weights, and float16, as it likes them best, beside q8_0.
"""

import argparse
import os
import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.sidebyside import Worker, ratio, rounds, work

THREADS = int(os.environ.get("OMP_NUM_THREADS", "2"))  # on a machine that others use, two threads wait for one another more than they work
PROMPT, NEW = 32, 128
LAYERS, WIDTH, HEADS, KV_HEADS, MLP_WIDTH, WORDS, ROWS, LENGTH = 6, 384, 6, 2, 1024, 65, 8, 256  # of the model that is trained
STEPS = 2  # in a turn
SAME = 16  # of the new tokens, which have to be the same by llama.cpp in float32 and by us


def prompt() -> list[int]:
    import torch

    return torch.randint(49000, (PROMPT,), generator=torch.Generator().manual_seed(0)).tolist()


def smollm2() -> Any:
    import torch

    from transalg.hyper import preset
    from transalg.model import DTransformer

    return DTransformer(preset("smollm2-135m"), generator=torch.Generator().manual_seed(0)).eval()


# Contenders in training ------------------------------------------------------------------------------------------------


def our_step() -> Callable[[], object]:
    from benchmarks.engine import training_step
    from transalg.hyper import DHyper
    from transalg.model import DTransformer, log_loss

    hyper = DHyper(
        N_V=WORDS, ell_max=LENGTH, L=LAYERS, H=HEADS, H_kv=KV_HEADS, d_e=WIDTH, d_mlp=MLP_WIDTH,
        positions="rotary", norm="RMSnorm", activation="SwiGLU", bias="none",
    )  # fmt: skip
    model = DTransformer(hyper)

    def loss(x: Any, targets: Any) -> Any:
        X, _ = model.features(x)
        return log_loss(X, model.unembedding, targets, weight=1 / len(targets))

    return training_step(model, loss, WORDS, ROWS, LENGTH)


def their_step() -> Callable[[], object]:
    import torch.nn.functional as F
    import transformers

    from benchmarks.engine import training_step

    config = transformers.LlamaConfig(
        vocab_size=WORDS, max_position_embeddings=LENGTH, num_hidden_layers=LAYERS, num_attention_heads=HEADS, num_key_value_heads=KV_HEADS,
        hidden_size=WIDTH, intermediate_size=MLP_WIDTH, attn_implementation="sdpa", use_cache=False,
    )  # fmt: skip
    model = transformers.LlamaForCausalLM(config).train()
    return training_step(model, lambda x, targets: F.cross_entropy(model(x).logits.flatten(0, 1), targets), WORDS, ROWS, LENGTH)


def steps(who: str, policy: str) -> Callable[[], object]:
    import torch

    from transalg.training.memory import keep_memory

    torch.set_num_threads(THREADS)
    if policy == "memory kept":
        keep_memory()
    step = {"transalg": our_step, "Hugging Face": their_step}[who]()
    return lambda: [step() for _ in range(STEPS)]


# Contenders in decoding ------------------------------------------------------------------------------------------------


def ours(form: str) -> Callable[[], list[int]]:
    import torch

    from transalg.inference import generate, pack, quantize

    torch.set_num_threads(THREADS)
    model, ids = {"float32": lambda one: pack(one, 1), "int8": quantize}[form](smollm2()), prompt()

    def run() -> list[int]:
        (row,) = generate(model, [ids], ell_gen=NEW, tau=0)
        assert len(row) == NEW
        return row

    return run


def hugging_face() -> Callable[[], object]:
    import torch
    import transformers

    torch.set_num_threads(THREADS)
    config = transformers.LlamaConfig(
        vocab_size=49152, hidden_size=576, intermediate_size=1536, num_hidden_layers=30, num_attention_heads=9, num_key_value_heads=3,
        max_position_embeddings=8192, rms_norm_eps=1e-5, rope_theta=100000.0, tie_word_embeddings=True, attn_implementation="sdpa",
        bos_token_id=49150, eos_token_id=49151, pad_token_id=49151,
    )  # fmt: skip
    model = transformers.LlamaForCausalLM(config).eval()
    ids = torch.tensor([prompt()])

    def run() -> None:
        rows = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=NEW, min_new_tokens=NEW, do_sample=False)
        assert rows.shape[1] == PROMPT + NEW

    return run


def write_gguf(path: Path, kind: str) -> None:
    """The weights of `smollm2` as llama.cpp reads them, in F32 or in Q8_0. The rows of a rotary pair follow one another there."""
    import gguf
    import torch

    model = smollm2()
    hyper, state = model.hyper, model.state_dict()
    heads = hyper.heads

    def pairs(W: torch.Tensor) -> torch.Tensor:
        """Rows i and i + d/2 of every head to rows 2i − 1 and 2i."""
        return W.unflatten(0, (-1, 2, heads.d_attn // 2)).transpose(1, 2).flatten(0, 2)

    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(hyper.L)
    writer.add_context_length(hyper.ell_max)
    writer.add_embedding_length(hyper.d_e)
    writer.add_feed_forward_length(hyper.d_mlp)
    writer.add_head_count(heads.H)
    writer.add_head_count_kv(heads.H_kv)
    writer.add_layer_norm_rms_eps(hyper.eps)
    writer.add_rope_freq_base(hyper.rotary_base)
    writer.add_rope_dimension_count(heads.d_attn)
    writer.add_vocab_size(hyper.N_V)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list([f"t{v}" for v in range(hyper.N_V)])
    writer.add_token_types([gguf.TokenType.NORMAL] * hyper.N_V)
    writer.add_token_merges(["t 0"])
    writer.add_bos_token_id(hyper.N_V - 2)
    writer.add_eos_token_id(hyper.N_V - 1)
    writer.add_add_bos_token(False)

    def add(name: str, part: torch.Tensor) -> None:
        kept = part.ndim == 1 or kind == "F32"
        numbers = part.numpy() if kept else gguf.quants.quantize(part.numpy(), gguf.GGMLQuantizationType.Q8_0)
        writer.add_tensor(f"{name}.weight", numbers, raw_dtype=None if kept else gguf.GGMLQuantizationType.Q8_0)

    add("token_embd", state["W_e"])
    add("output_norm", state["gamma"])
    for l in range(hyper.L):
        of_layer = {name.removeprefix(f"layers.{l}."): part for name, part in state.items() if name.startswith(f"layers.{l}.")}
        q, k, v = torch.split(of_layer["W.W_qkv"], list(heads.matrices["qkv"].values()))
        gate, up = of_layer["W_glu1"].chunk(2)
        names = {
            "attn_norm": of_layer["gamma1"], "attn_q": pairs(q), "attn_k": pairs(k), "attn_v": v, "attn_output": of_layer["W.W_o"],
            "ffn_norm": of_layer["gamma2"], "ffn_gate": gate, "ffn_up": up, "ffn_down": of_layer["W_mlp2"],
        }  # fmt: skip
        for name, part in names.items():
            add(f"blk.{l}.{name}", part.contiguous())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def llama_cpp(path: str, cache: str, expected: str = "") -> Callable[[], object]:
    """With keys and values of this type; its tokens have to start with the expected ones."""
    import xllamacpp

    parameters = xllamacpp.CommonParams()
    parameters.model.path = path
    parameters.n_ctx, parameters.n_parallel, parameters.n_gpu_layers = 512, 1, 0
    parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = THREADS
    parameters.cache_type_k = parameters.cache_type_v = getattr(xllamacpp.ggml_type, f"GGML_TYPE_{cache}")
    server = xllamacpp.Server(parameters)
    request = {
        "prompt": prompt(), "n_predict": NEW, "temperature": 0, "samplers": ["top_k"], "top_k": 1, "ignore_eos": True,
        "cache_prompt": False,
    }  # fmt: skip

    def run() -> None:
        answer = server.handle_completions(request)
        assert answer["usage"]["prompt_tokens"] == PROMPT and answer["usage"]["completion_tokens"] == NEW
        assert answer["choices"][0]["text"].startswith(expected)

    return run


CONTENDERS: dict[str, Callable[..., Callable[[], object]]] = {
    "steps": steps,
    "ours": ours,
    "hugging_face": hugging_face,
    "llama_cpp": llama_cpp,
}


def worker(name: str, *arguments: str) -> Worker:
    return Worker("-W", "ignore", "-m", "benchmarks.decoders", "--work", name, *arguments)


# Benchmarks ------------------------------------------------------------------------------------------------------------


def training(count: int) -> None:
    print(f"Training step of a Llama, {LAYERS} layers, {WIDTH} wide, {ROWS} × {LENGTH}; target: at least 1.0 × Hugging Face's")
    for policy in ("memory kept", "memory not kept"):
        contenders = {who: worker("steps", who, policy) for who in ("transalg", "Hugging Face")}
        seconds = rounds(dict(contenders), count)
        for each in contenders.values():
            each.end()
        speed = STEPS * ROWS * LENGTH / statistics.median(seconds["transalg"])
        print(f"  {policy}: {ratio(seconds, 'transalg', 'Hugging Face'):.2f} × Hugging Face ({speed:,.0f} tokens/s)", flush=True)


def decoding(count: int) -> None:
    print(f"SmolLM2 135 M, one row, prompt {PROMPT}, {NEW} new tokens; target: at least 1.0 × the best peer in as many bits")
    with tempfile.TemporaryDirectory() as folder:
        files = {kind: Path(folder) / f"{kind}.gguf" for kind in ("F32", "Q8_0")}
        for kind, path in files.items():
            write_gguf(path, kind)
        first = "".join(f"t{v}" for v in ours("float32")()[:SAME])
        contenders = {
            "transalg float32": worker("ours", "float32"),
            "transalg int8": worker("ours", "int8"),
            "Hugging Face float32": worker("hugging_face"),
            "llama.cpp F32": worker("llama_cpp", str(files["F32"]), "F32", first),
            "llama.cpp Q8_0": worker("llama_cpp", str(files["Q8_0"]), "F16"),
        }
        seconds = rounds(dict(contenders), count)
        for each in contenders.values():
            each.end()
    for name, taken in seconds.items():
        print(f"  {name:<22} {NEW / statistics.median(taken):7.1f} tokens/s")
    for mine, peers in (
        ("transalg float32", ("Hugging Face float32", "llama.cpp F32")),
        ("transalg int8", ("llama.cpp Q8_0",)),
    ):
        print(f"  {mine}: {', '.join(f'{ratio(seconds, mine, peer):.2f} × {peer}' for peer in peers)}")


def cache(count: int) -> None:
    from transalg.hyper import preset
    from transalg.model import DTransformer

    print("The key/value cache of SmolLM2 135 M, 8192 tokens of one row; target: at most H_kv/H = 3/9 of the ungrouped one")
    grown = {}
    for H_kv in (3, 9):
        model = DTransformer(preset("smollm2-135m", H_kv=H_kv)).eval()
        before = resident()
        state = model.cache(1, 8192)
        state.keys.fill_(1)  # the system gives memory when something is written to it
        state.values.fill_(1)
        grown[H_kv] = resident() - before, state.bytes
        del state
    for name, three, nine in zip(("the process grew by", "keys and values are"), grown[3], grown[9], strict=True):
        print(f"  {name} {three / 2**20:.0f} and {nine / 2**20:.0f} MiB: {three / nine:.4f}")


def resident() -> int:
    """The memory of this process in bytes, as Linux tells it."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmRSS"))


def main() -> None:
    if sys.argv[1:2] == ["--work"]:
        work(CONTENDERS[sys.argv[2]](*sys.argv[3:]))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("which", nargs="*", choices=[*BENCHMARKS, []], help="all by default")
    parser.add_argument("--rounds", type=int, default=7, help="how often each contender has its turn")
    arguments = parser.parse_args()
    print(f"{THREADS} threads, {arguments.rounds} rounds")
    for name in arguments.which or BENCHMARKS:
        BENCHMARKS[name](arguments.rounds)


BENCHMARKS: dict[str, Callable[[int], None]] = {"training": training, "decoding": decoding, "cache": cache}

if __name__ == "__main__":
    main()
