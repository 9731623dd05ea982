"""Tests that run in a process of their own, without the run-time check of shapes."""

import os
import subprocess
import sys
from pathlib import Path


def in_a_process_without_checks(file: Path, passed: int) -> None:
    """All tests of a file, as many as said: torch's compiler cannot look into the checks that `conftest.py` installs."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", str(file)]
    done = subprocess.run(command, env=os.environ | {"TRANSALG_TEST_UNCHECKED": "1"}, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and f"{passed} passed" in done.stdout, done.stdout[-5000:]
