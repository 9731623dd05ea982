"""Using a model against its peers: tokens per second, cost by context, batches, translation, weights in 8 bits, a cold start.

    pip install -e ".[bench]"
    python -m benchmarks.inference           # all; or some of: alone growth batch bound seq2seq quality cold

Every speed is a ratio of things measured in turn in one run, each contender in a process of its own. Peers: `generate` of Hugging Face transformers
in float32, and CTranslate2, all with 2 threads and random weights of the same shape. Everyone writes as many tokens as everyone else.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.sidebyside import Worker, ratio, rounds, work

DATA = Path(__file__).resolve().parent.parent.parent / "shared" / "data"
THREADS = 2
PROMPT, NEW = 32, 128


def prompts(count: int) -> list[list[int]]:
    import torch

    return torch.randint(50000, (count, PROMPT), generator=torch.Generator().manual_seed(0)).tolist()


# Contenders ------------------------------------------------------------------------------------------------------------


def gpt2(form: str) -> Any:
    import torch

    from transalg.hyper import preset
    from transalg.inference import pack, quantize
    from transalg.model import DTransformer

    torch.set_num_threads(THREADS)
    model = DTransformer(preset("gpt2"), generator=torch.Generator().manual_seed(0)).eval()
    return {"plain": lambda: model, "alone": lambda: pack(model, 1), "batch": lambda: pack(model), "int8": lambda: quantize(model)}[form]()


def ours(form: str, count: str) -> Callable[[], object]:
    from transalg.inference import generate

    model, ids = gpt2(form), prompts(int(count))

    def run() -> None:
        rows = generate(model, ids, ell_gen=NEW, tau=0)
        assert [len(row) for row in rows] == [NEW] * len(ids)

    return run


def hugging_face(count: str) -> Callable[[], object]:
    import torch
    import transformers

    torch.set_num_threads(THREADS)
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(eos_token_id=50256, pad_token_id=50256)).eval()
    ids = torch.tensor(prompts(int(count)))

    def run() -> None:
        rows = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=NEW, min_new_tokens=NEW, do_sample=False)
        assert rows.shape[1] == PROMPT + NEW

    return run


def converted(folder: Path) -> None:
    """A random GPT-2 as CTranslate2 reads it, in float32 and in int8."""
    import ctranslate2
    import transformers

    transformers.GPT2LMHeadModel(transformers.GPT2Config()).save_pretrained(folder / "hf")
    transformers.GPT2Tokenizer(str(DATA / "tok" / "encoder.json"), str(DATA / "tok" / "vocab.bpe")).save_pretrained(folder / "hf")
    for kind in ("float32", "int8"):
        ctranslate2.converters.TransformersConverter(str(folder / "hf")).convert(str(folder / kind), quantization=kind, force=True)


def ctranslate2(folder: str, kind: str, count: str) -> Callable[[], object]:
    import ctranslate2 as peer

    generator = peer.Generator(str(Path(folder) / kind), device="cpu", intra_threads=THREADS, inter_threads=1)
    words = json.loads((DATA / "tok" / "encoder.json").read_text())
    names = {number: word for word, number in words.items()}
    token_rows = [[names[token] for token in row] for row in prompts(int(count))]

    def run() -> None:
        results = generator.generate_batch(
            token_rows, max_length=NEW, min_length=NEW, sampling_topk=1, beam_size=1, include_prompt_in_result=False, max_batch_size=0
        )
        assert all(len(one.sequences_ids[0]) == NEW for one in results)

    return run


SENTENCES, WORDS, LONG = 1000, 8000, 24


def sources() -> list[list[int]]:
    """As long as the English sentences of Multi30k are, or 5 to 30 tokens."""
    import random

    draw = random.Random(0)
    return [[draw.randrange(WORDS - 3) for _ in range(draw.randint(5, 30))] for _ in range(SENTENCES)]


def pairs(beams: str) -> Callable[[], object]:
    import torch

    from transalg.hyper import EDHyper
    from transalg.inference import pack, predict
    from transalg.model import EDTransformer

    torch.set_num_threads(THREADS)
    hyper = EDHyper(N_V=WORDS, ell_max=64, L_enc=3, L_dec=3, H=8, d_e=256, d_mlp=1024, positions="sinusoids", scaled=True, tied=True)
    model = EDTransformer(hyper, generator=torch.Generator().manual_seed(0)).eval()
    with torch.no_grad():
        model.W_e *= 4  # as sure of itself as a trained model is
        model.W_e[hyper.eos_token] = -model.W_e.mean(dim=0)  # nothing ends before its time
    model, z = pack(model), sources()

    def run() -> None:
        rows = predict(model, z, beams=int(beams), ell_gen=LONG)
        assert statistics.mean(map(len, rows)) > 0.95 * LONG

    return run


def marian(beams: str) -> Callable[[], object]:
    import torch
    import transformers

    torch.set_num_threads(THREADS)
    config = transformers.MarianConfig(
        vocab_size=WORDS, d_model=256, encoder_layers=3, decoder_layers=3, encoder_attention_heads=8, decoder_attention_heads=8,
        encoder_ffn_dim=1024, decoder_ffn_dim=1024, max_position_embeddings=64, activation_function="relu", scale_embedding=True,
        pad_token_id=WORDS - 3, bos_token_id=WORDS - 2, eos_token_id=WORDS - 1, decoder_start_token_id=WORDS - 2, forced_eos_token_id=None,
        num_beams=int(beams),
    )  # fmt: skip
    model = transformers.MarianMTModel(config).eval()
    z = sorted(sources(), key=len)

    def run() -> None:
        for i in range(0, len(z), 64):
            rows = z[i : i + 64]
            longest = max(map(len, rows))
            ids = torch.tensor([[*row, *(config.pad_token_id,) * (longest - len(row))] for row in rows])
            model.generate(
                ids, attention_mask=(ids != config.pad_token_id).long(), num_beams=int(beams), max_new_tokens=LONG, min_new_tokens=LONG,
                do_sample=False,
            )  # fmt: skip

    return run


def worker(name: str, *arguments: str) -> Worker:
    return Worker("-W", "ignore", "-m", "benchmarks.inference", "--work", name, *arguments)


CONTENDERS: dict[str, Callable[..., Callable[[], object]]] = {
    "ours": ours,
    "hugging_face": hugging_face,
    "ctranslate2": ctranslate2,
    "pairs": pairs,
    "marian": marian,
}


def race(contenders: dict[str, Worker], count: int, tokens: int) -> dict[str, list[float]]:
    """Seconds of each in every round, and their tokens per second."""
    seconds = rounds(dict(contenders), count)
    for name, taken in seconds.items():
        print(f"  {name:<28} {tokens / statistics.median(taken):7.1f} tokens/s")
    for each in contenders.values():
        each.end()
    return seconds


# Benchmarks ------------------------------------------------------------------------------------------------------------


def alone(count: int, folder: Path) -> None:
    print(f"GPT-2 124 M, batch 1, prompt {PROMPT}, {NEW} new tokens")
    contenders = {
        "transalg float32": worker("ours", "alone", "1"),
        "transalg int8": worker("ours", "int8", "1"),
        "transalg, a plain model": worker("ours", "plain", "1"),
        "Hugging Face": worker("hugging_face", "1"),
    }
    peers = []
    if (DATA / "tok" / "encoder.json").exists():
        converted(folder)
        peers = ["CTranslate2 float32", "CTranslate2 int8"]
        contenders |= {f"CTranslate2 {kind}": worker("ctranslate2", str(folder), kind, "1") for kind in ("float32", "int8")}
    else:
        print("  GPT-2's vocabulary is not available: without CTranslate2")
    seconds = race(contenders, count, NEW)
    print(f"  float32: {ratio(seconds, 'transalg float32', 'Hugging Face'):.2f} × Hugging Face; target: at least 1.7")
    print(f"  int8:    {ratio(seconds, 'transalg int8', 'Hugging Face'):.2f} × Hugging Face; target: at least 3")
    if peers:
        print(f"  float32: {ratio(seconds, 'transalg float32', peers[0]):.2f} × CTranslate2 float32; target: at least 1.0")
        best = [min(pair) for pair in zip(seconds[peers[0]], seconds[peers[1]], strict=True)]
        times = statistics.median(theirs / mine for theirs, mine in zip(best, seconds["transalg int8"], strict=True))
        print(f"  int8:    {times:.2f} × the faster of CTranslate2's; target: at least 1.5")


def batch(count: int, folder: Path) -> None:
    print(f"GPT-2 124 M, prompt {PROMPT}, {NEW} new tokens: 32 rows together against one; target: at least 8 times the tokens")
    contenders = {
        "one": worker("ours", "alone", "1"),
        "32": worker("ours", "batch", "32"),
        "Hugging Face, 32": worker("hugging_face", "32"),
    }
    peers = ["Hugging Face"]
    if (DATA / "tok" / "encoder.json").exists():
        converted(folder)
        peers.append("CTranslate2")
        contenders |= {f"CTranslate2, {rows}": worker("ctranslate2", str(folder), "float32", rows) for rows in ("1", "32")}
    seconds = rounds(dict(contenders), count)
    times = statistics.median(32 * one / many for one, many in zip(seconds["one"], seconds["32"], strict=True))
    print(
        f"  {NEW / statistics.median(seconds['one']):.1f} and {32 * NEW / statistics.median(seconds['32']):.1f} tokens/s: {times:.1f} times;",
        end=" ",
    )
    print(", ".join(f"{ratio(seconds, '32', f'{peer}, 32'):.2f} × {peer} with 32" for peer in peers))
    if "CTranslate2, 1" in seconds:
        theirs = statistics.median(32 * one / many for one, many in zip(seconds["CTranslate2, 1"], seconds["CTranslate2, 32"], strict=True))
        print(f"  CTranslate2's own 32 rows against its one: {theirs:.1f} times")
    for each in contenders.values():
        each.end()


def bound(count: int, folder: Path) -> None:
    """What 32 rows cost at the least: the products of a step, reading keys and values once, and a share of the prompts; the best of each."""
    import torch

    model = gpt2("batch")
    forms = [(form, torch.randn(32, form.matrix().shape[1])) for form in model.stand_ins().values()]
    flops = sum(2 * 32 * form.matrix().numel() for form, _ in forms)
    cache, ids = model.cache(32, PROMPT + NEW), torch.tensor(prompts(32))
    middle = PROMPT + NEW // 2  # as many tokens as a row has on average
    parts = [part[:, :, :middle] for part in (*cache.keys, *cache.values)]
    with torch.inference_mode():
        seconds = rounds(
            {
                "products": lambda: [form.multiply(X) for form, X in forms],
                "keys and values": lambda: [part.sum() for part in parts],
                "prompts": lambda: model.decode(ids, model.cache(32, PROMPT), last=True),
            },
            max(count, 9),
        )
    least = {name: min(taken) for name, taken in seconds.items()} | {"prompts": min(seconds["prompts"]) / NEW}
    shown = ", ".join(f"{name} {1000 * taken:.1f} ms" for name, taken in least.items())
    print(f"GPT-2 124 M, a step of 32 rows at the least: {shown}; the products at {flops / least['products'] / 1e9:.0f} GFLOP/s")
    print(f"  so that there are at most {32 / sum(least.values()):.0f} tokens/s")


def growth(count: int, folder: Path) -> None:
    """The cost of one token after so many, with the cache and by Algorithm 14 as it is written."""
    import torch

    model = gpt2("alone")
    print(
        "GPT-2 124 M, one more token after so many: with the cache, whoever wrote them; and by Algorithm 14, which computes all of them again"
    )
    ids = torch.randint(50000, (1, 1024), generator=torch.Generator().manual_seed(0))
    caches = {}
    for context in (128, 512, 1023):
        read, written = model.cache(1), model.cache(1)
        model.decode(ids[:, :context], read, last=True)
        for t in range(context):
            model.decode(ids[:, t : t + 1], written, last=True)
        caches[context] = (read, written)

    def token(context: int, cache: Any) -> Callable[[], object]:
        def run() -> None:
            for _ in range(8):
                cache.truncate([context])
                model.decode(ids[:, :1], cache, last=True)

        return run

    def literally(context: int) -> Callable[[], object]:
        return lambda: model.features(ids[:, : context + 1])

    contenders: dict[str, Callable[[], object]] = {}
    for context, (read, written) in caches.items():
        contenders |= {f"read {context}": token(context, read), f"written {context}": token(context, written)}
        contenders[f"literal {context}"] = literally(context)
    with torch.inference_mode():
        seconds = rounds(contenders, count)
    for context in caches:
        read_, written_ = (1000 * statistics.median(seconds[f"{how} {context}"]) / 8 for how in ("read", "written"))
        literal = 1000 * statistics.median(seconds[f"literal {context}"])
        print(f"  {context:5d}: {read_:6.1f} ms after a prompt, {written_:6.1f} ms after its own tokens, {literal:7.1f} ms by Algorithm 14")


def seq2seq(count: int, folder: Path) -> None:
    print(
        f"3 + 3 layers, 256 wide, {SENTENCES} sentences of 5 to 30 tokens, {LONG} new tokens each; target: at least 1.5 × Hugging Face's Marian"
    )
    for beams in ("1", "5"):
        contenders = {"transalg": worker("pairs", beams), "Marian": worker("marian", beams)}
        seconds = rounds(dict(contenders), max(1, count // 2), warm=0)
        for each in contenders.values():
            each.end()
        taken = [statistics.median(each) for each in seconds.values()]
        print(
            f"  {beams} beam{'s' if beams != '1' else ''}: {taken[0]:.1f} s and {taken[1]:.1f} s: {ratio(seconds, 'transalg', 'Marian'):.2f} times as fast"
        )


def transalg(*arguments: object) -> str:
    command = [sys.executable, "-W", "ignore", "-m", "transalg", *map(str, arguments)]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout


def quality(count: int, folder: Path) -> None:
    print("Perplexity on held-out text, float32 and int8; target: within 1 %")
    texts = {
        "pydocs, byte pairs": [
            "--data",
            "pydocs",
            "--tokenizer",
            "bpe",
            "--vocab-size",
            "1024",
            "--model.ell-max",
            "64",
            "--train.steps",
            "320",
        ]
    }
    if (DATA / "lm" / "tinyshakespeare.txt").exists():
        shape = ["--model.ell-max", "64", "--train.batch-size", "12", "--train.steps", "440"]
        texts["Tiny Shakespeare, characters"] = ["--data", str(DATA / "lm" / "tinyshakespeare.txt"), *shape]
    for i, (name, options) in enumerate(texts.items()):
        run = folder / f"lm-{i}"
        transalg("train", "lm", "--out", run, *options)
        perplexity = [json.loads(transalg("evaluate", run, "--json", *more))["perplexity"] for more in ([], ["--quantize", "int8"])]
        print(f"  {name}: {perplexity[0]:.3f} and {perplexity[1]:.3f}, {perplexity[1] / perplexity[0] - 1:+.2%}")


def cold(count: int, folder: Path) -> None:
    print("transalg generate on a small model, from the command to the first character; target: at most 4 s")
    run = folder / "small"
    transalg("train", "lm", "--out", run, "--data", "pydocs", "--tokenizer", "char", "--train.steps", "20")
    taken = []
    for _ in range(count):
        start = time.perf_counter()
        command = [sys.executable, "-m", "transalg", "generate", str(run), "--prompt", "", "--seed", "0"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert process.stdout and process.stdout.read(1)
        taken.append(time.perf_counter() - start)
        process.stdout.read()
        process.wait()
    print(f"  {statistics.median(taken):.1f} s")


BENCHMARKS = {"alone": alone, "growth": growth, "batch": batch, "bound": bound, "seq2seq": seq2seq, "quality": quality, "cold": cold}


def main() -> None:
    if sys.argv[1:2] == ["--work"]:
        work(CONTENDERS[sys.argv[2]](*sys.argv[3:]))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("which", nargs="*", choices=[*BENCHMARKS, []], help="all by default")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for name in arguments.which or BENCHMARKS:
            BENCHMARKS[name](arguments.rounds, Path(folder))


if __name__ == "__main__":
    main()
