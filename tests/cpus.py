"""The numerical tests under the code paths that one machine can give: `make test-cpus`, or `python -m tests.cpus [NAME …]`.

Torch, oneDNN and MKL choose their kernels by what the CPU can do; these settings make them choose as on lesser CPUs. What a result
is rounded to changes with it, and with the number of threads. Each setting is one run of pytest after another, then a table.
"""

import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import torch

ROOT = Path(__file__).parents[1]
NUMERICAL = ("formal", "model", "cpu", "parity", "tasks", "inference", "training", "evaluation", "verify")
SENSITIVE = (  # the handful that runs within `make test`: batches against rows, packed weights, chunks, sums over parts
    "formal/test_ladder.py",
    "model/test_kernels.py",
    "model/test_loss.py",
    "cpu/test_kernels.py",
    "inference/test_one_pass.py",
    "inference/test_run.py",
    "tasks/test_losses.py",
    "training/test_resume.py::test_parts_of_a_batch_add_up",
)
ORDER = ("DEFAULT", "AVX2", "AVX512")  # torch's own names; a CPU takes what is up to its own


def kernels(torch: str, onednn: str, mkl: str, fbgemm: str) -> dict[str, str]:
    """The variables by which torch and its libraries are told what to use. MKL heeds its own on Intel's CPUs only."""
    return {
        "ATEN_CPU_CAPABILITY": torch,
        "ONEDNN_MAX_CPU_ISA": onednn,
        "MKL_ENABLE_INSTRUCTIONS": mkl,
        "FBGEMM_ENABLE_INSTRUCTIONS": fbgemm,
    }


OLD = kernels("default", "SSE41", "SSE4_2", "AVX2") | {"MKL_CBWR": "COMPATIBLE"}  # FBGEMM has nothing below AVX2
AVX2 = kernels("avx2", "AVX2", "AVX2", "AVX2")
AVX512 = kernels("avx512", "AVX512_CORE", "AVX512", "AVX512")
VNNI = kernels("avx512", "AVX512_CORE_VNNI", "AVX512", "AVX512_E1")


@dataclass(frozen=True)
class Setting:
    """One machine to imitate."""

    name: str
    why: str
    environment: dict[str, str] = field(default_factory=dict)
    threads: int = 1
    needs: str = "DEFAULT"  # what the CPU has to be able to do
    cheap: bool = False  # within `make test` too

    def run(self, files: tuple[str, ...], *options: str) -> subprocess.CompletedProcess[str]:
        """Pytest on these files of tests/, with options before them, as on that machine. Threads that wait leave the CPU to the others."""
        environment = os.environ | self.environment | {"TRANSALG_TEST_THREADS": str(self.threads), "OMP_WAIT_POLICY": "passive"}
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options, *(f"tests/{file}" for file in files)]
        return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)


SETTINGS = (
    Setting("as it is", "the kernels that this CPU gets, on one thread"),
    Setting("as it is, 2 threads", "sums are dealt out to threads", threads=2),
    Setting("old", "no AVX: scalar or SSE kernels, no fused multiply-add", OLD, cheap=True),
    Setting("old, 2 threads", "the same, dealt out", OLD, threads=2),
    Setting("AVX2", "most laptops: eight floats at once", AVX2, needs="AVX2"),
    Setting("AVX2, 2 threads", "the same, dealt out", AVX2, threads=2, needs="AVX2", cheap=True),
    Setting("AVX-512", "servers before VNNI: int8 and bfloat16 are computed in other ways", AVX512, needs="AVX512"),
    Setting("AVX-512 VNNI", "servers with units for int8 but none for bfloat16", VNNI, needs="AVX512"),
    Setting("old torch", "scalar kernels of torch among the libraries' fast ones: exp, tanh, softmax, norms", {"ATEN_CPU_CAPABILITY": "default"}),
    Setting("old oneDNN", "packed weights multiplied by SSE kernels", {"ONEDNN_MAX_CPU_ISA": "SSE41"}),
    Setting("compatible MKL", "matrix products that are the same on every CPU, hence other than this one's", {"MKL_CBWR": "COMPATIBLE"}),
)  # fmt: skip


def possible(setting: Setting) -> bool:
    """Kernels that the CPU does not know would end the process."""
    return ORDER.index(setting.needs) <= ORDER.index(torch.backends.cpu.get_cpu_capability())


def main(names: list[str]) -> int:
    unknown = set(names) - {setting.name for setting in SETTINGS}
    if unknown:
        print(f"expected some of {', '.join(setting.name for setting in SETTINGS)}; got {', '.join(sorted(unknown))}", file=sys.stderr)
        return 2
    rows, failed = [], False
    for setting in SETTINGS:
        if names and setting.name not in names:
            continue
        if not possible(setting):
            rows.append((setting, f"needs {setting.needs}, which this CPU lacks"))
            continue
        print(f"{setting.name}: {setting.why}", flush=True)
        start = time.monotonic()
        done = setting.run(NUMERICAL, "--numprocesses", "2", "--dist", "worksteal")
        if done.returncode:
            failed = True
            print(done.stdout[-20_000:], done.stderr[-5_000:], flush=True)
        summary = re.sub(r" in [\d.]+s.*", "", done.stdout.strip().splitlines()[-1].strip("= "))
        rows.append((setting, f"{time.monotonic() - start:5.0f} s  {summary}"))
        print(f"  {rows[-1][1]}", flush=True)
    width = max(len(setting.name) for setting, _ in rows)
    print("\n" + "\n".join(f"{setting.name:{width}}  {outcome}" for setting, outcome in rows))
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
