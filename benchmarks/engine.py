"""The engine against its peers: training steps, memory, banded attention, ragged batches.

    pip install -e ".[bench]"
    python -m benchmarks.engine              # all; or some of: training memory banded ragged

Every figure is a ratio of two things measured in turn in one run. For training steps each contender has a process of its own, with
`transalg.training.memory.keep_memory` for all, and without it for all. Peers: GPT-2 of Hugging Face transformers with sdpa attention; GPT of
litgpt with biases, layer norms and no rotary positions. All train with torch's fused AdamW on random tokens, without dropout, and with the
same GELU, but that Hugging Face's GPT-2 writes its tanh-GELU out.
"""

import argparse
import statistics
import subprocess
import sys
from collections.abc import Callable

import torch
import torch.nn.functional as F

from benchmarks.sidebyside import Worker, ratio, rounds, work

Step = Callable[[], object]
# layers, width, heads, vocabulary, rows, tokens, activation
SHAPES = {
    "4 layers, 128 wide, 12 × 64": (4, 128, 4, 65, 12, 64, "GELU"),
    "6 layers, 384 wide, 8 × 256": (6, 384, 6, 65, 8, 256, "GELU"),
    "GPT-2 124 M, 1 × 512": (12, 768, 12, 50257, 1, 512, "tanh_GELU"),
}


def training_step(model: torch.nn.Module, loss: Callable[[torch.Tensor, torch.Tensor], torch.Tensor], N_V: int, B: int, ell: int) -> Step:
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    tokens = torch.randint(N_V, (B, ell + 1), generator=torch.Generator().manual_seed(0))
    x, targets = tokens[:, :-1].contiguous(), tokens[:, 1:].flatten()

    def step() -> None:
        loss(x, targets).backward()
        optimiser.step()
        optimiser.zero_grad()

    return step


def ours(L: int, d: int, H: int, N_V: int, B: int, ell: int, activation: str) -> Step:
    from transalg.hyper import DHyper
    from transalg.model import DTransformer, log_loss

    tied = N_V > 1000  # as in GPT-2
    model = DTransformer(DHyper(N_V=N_V, ell_max=ell, L=L, H=H, d_e=d, d_mlp=4 * d, activation=activation, tied=tied))

    def loss(x: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        X, _ = model.features(x)
        return log_loss(X, model.unembedding, targets, weight=1 / len(targets))

    return training_step(model, loss, N_V, B, ell)


def hugging_face(L: int, d: int, H: int, N_V: int, B: int, ell: int, activation: str) -> Step:
    import transformers

    config = transformers.GPT2Config(
        vocab_size=N_V, n_positions=ell, n_embd=d, n_layer=L, n_head=H, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0, use_cache=False,
        attn_implementation="sdpa", activation_function="gelu" if activation == "GELU" else "gelu_new", tie_word_embeddings=N_V > 1000,
    )  # fmt: skip
    model = transformers.GPT2LMHeadModel(config).train()
    return training_step(model, lambda x, targets: F.cross_entropy(model(x).logits.flatten(0, 1), targets), N_V, B, ell)


def litgpt(L: int, d: int, H: int, N_V: int, B: int, ell: int, activation: str) -> Step:
    from litgpt.model import GPT, Config

    config = Config(
        name="gpt", block_size=ell, vocab_size=N_V, padded_vocab_size=N_V, n_layer=L, n_head=H, n_embd=d, intermediate_size=4 * d,
        rotary_percentage=0.0, bias=True, parallel_residual=False, norm_class_name="LayerNorm", mlp_class_name="GptNeoxMLP",
        gelu_approximate="none" if activation == "GELU" else "tanh",
    )  # fmt: skip
    model = GPT(config)
    if N_V > 1000:
        model.lm_head.weight = model.transformer.wte.weight
    return training_step(model, lambda x, targets: F.cross_entropy(model(x).flatten(0, 1), targets), N_V, B, ell)


CONTENDERS = {"transalg": ours, "Hugging Face": hugging_face, "litgpt": litgpt}


def training(count: int) -> None:
    print("Training step: how many times the peers' tokens per second; target: at least 1.0 of the best, goal: 1.3")
    for name, shape in SHAPES.items():
        torch.manual_seed(0)
        B, ell = shape[4:6]
        many = max(1, 4096 // (B * ell) // (1 + shape[0] // 6))  # steps in a turn
        for policy in ("memory kept", "memory not kept"):
            command = "-W", "ignore", "-m", "benchmarks.engine", "--work"
            workers = {who: Worker(*command, who, name, str(many), policy) for who in CONTENDERS}
            seconds = rounds(workers, count)
            for worker in workers.values():
                worker.end()
            against = {who: ratio(seconds, "transalg", who) for who in seconds if who != "transalg"}
            speed = many * B * ell / statistics.median(seconds["transalg"])
            each = ", ".join(f"{one:.2f} × {who}" for who, one in against.items())
            print(f"  {name}, {policy}: {min(against.values()):.2f} × the best; {each} ({speed:,.0f} tokens/s)", flush=True)


def memory(_: int) -> None:
    print("Peak memory of training GPT-2 124 M at 1 × 1024, each in a process of its own; target: at most 0.8")
    peaks = {}
    for who in ("transalg", "Hugging Face"):
        done = subprocess.run([sys.executable, "-m", "benchmarks.engine", "--peak", who], capture_output=True, text=True, check=True)
        peaks[who] = [int(part) for part in done.stdout.split()]
    for name, which in (("whole process", 0), ("beyond importing the library", 1)):
        mine, theirs = peaks["transalg"][which], peaks["Hugging Face"][which]
        print(f"  {name}: {mine / theirs:.2f} × Hugging Face's ({mine / 2**20:,.0f} MiB against {theirs / 2**20:,.0f} MiB)")


def peak(who: str) -> None:
    """Prints the peak of this process in bytes, and how much of it came after importing."""
    CONTENDERS[who](1, 8, 2, 11, 1, 3, "GELU")()
    before = most_memory()
    step = CONTENDERS[who](12, 768, 12, 50257, 1, 1024, "tanh_GELU")
    for _ in range(3):
        step()
    after = most_memory()
    print(after, after - before)


def most_memory() -> int:
    """The peak of this process so far, in bytes, as Linux tells it; getrusage would count the parent's too."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))


def banded(count: int) -> None:
    from transalg.model import kernels

    print("Attention in a band of 256, 8 heads of 64, forward and backward, against dense causal attention")
    print("  target: at least 2.5 × at ℓ = 4096 and 5 × at 8192; twice the tokens should take twice the time")
    lengths = (2048, 4096, 8192, 16384)
    contenders: dict[str, Step] = {}
    for ell in lengths:
        q, k, v = (torch.randn(1, 8, ell, 64, requires_grad=True) for _ in range(3))

        def run(kernel: Callable[..., torch.Tensor], q=q, k=k, v=v) -> Step:
            return lambda: torch.autograd.grad(kernel(q, k, v).sum(), (q, k, v))

        contenders[f"banded {ell}"] = run(lambda q, k, v: kernels.banded(q, k, v, 256))
        if ell <= 8192:
            contenders[f"dense {ell}"] = run(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True))
    seconds = rounds(contenders, count)
    for ell in lengths:
        faster = f"{ratio(seconds, f'banded {ell}', f'dense {ell}'):.1f} × as fast as dense" if ell <= 8192 else ""
        grown = f"{ratio(seconds, f'banded {ell // 2}', f'banded {ell}'):.2f} × the time of ℓ = {ell // 2}" if ell > lengths[0] else ""
        print(f"  ℓ = {ell}: {', '.join(part for part in (faster, grown) if part)}")


def ragged(count: int) -> None:
    from transalg.hyper import EHyper
    from transalg.model import ETransformer

    print("An encoder on rows of 8 to 512 tokens, forward and backward, against a batch of one length with as many tokens and scores")
    print("  target: at most 1.25; padding every row to 512 is beside it")
    for L, d, H, B in ((4, 128, 4, 64), (6, 384, 6, 16)):
        torch.manual_seed(0)
        model = ETransformer(EHyper(N_V=1000, ell_max=512, L=L, H=H, d_e=d, d_mlp=4 * d))
        lengths = torch.linspace(8, 512, B).long()[torch.randperm(B)]
        total = int(lengths.sum())
        alike = round(int((lengths**2).sum()) / total)

        def run(rows: int, ell: int, lengths: torch.Tensor | None = None, model: ETransformer = model) -> Step:
            ids = torch.randint(1000, (rows, ell))

            def step() -> None:
                model.encode(ids, lengths)[0].square().mean().backward()
                model.zero_grad()

            return step

        uniform = round(total / alike)
        seconds = rounds({"alike": run(uniform, alike), "ragged": run(B, 512, lengths), "padded": run(B, 512)}, count)
        per_token = {"ragged": total, "alike": uniform * alike}
        work = 1 / ratio(seconds, "ragged", "alike") * per_token["alike"] / per_token["ragged"]
        print(
            f"  {L} layers, {d} wide, {B} rows: {work:.2f} × the work of its tokens; padded {1 / ratio(seconds, 'padded', 'alike'):.2f} ×"
        )


BENCHMARKS = {"training": training, "memory": memory, "banded": banded, "ragged": ragged}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("which", nargs="*", choices=[*BENCHMARKS, []], help="all unless given")
    parser.add_argument("--rounds", type=int, default=7, help="how often each contender has its turn")
    parser.add_argument("--peak", choices=CONTENDERS, help=argparse.SUPPRESS)
    parser.add_argument("--work", nargs=4, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.work:
        from transalg.training.memory import keep_memory

        who, shape, many, policy = arguments.work
        if policy == "memory kept":
            keep_memory()
        step = CONTENDERS[who](*SHAPES[shape])
        work(lambda: [step() for _ in range(int(many))])
        return
    if arguments.peak:
        peak(arguments.peak)
        return
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads, {arguments.rounds} rounds")
    for name in arguments.which or BENCHMARKS:
        BENCHMARKS[name](arguments.rounds)


if __name__ == "__main__":
    main()
