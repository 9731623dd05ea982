"""Freed memory stays in the process."""

import platform
import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

# Take 64 MB and give it back, over and over; how many pages did the system have to clear once that has settled?
PROBE = """
import resource, torch
from transalg.training.memory import keep_memory
if {keep}: assert keep_memory()
for _ in range(20): torch.ones(2**24)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10): torch.ones(2**24)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has the setting")
def test_pages_are_not_cleared_again() -> None:
    def faults(keep: bool) -> int:
        return int(subprocess.run([sys.executable, "-c", PROBE.format(keep=keep)], capture_output=True, text=True, check=True).stdout)

    assert faults(keep=True) < 0.1 * faults(keep=False)
