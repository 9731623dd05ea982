"""The command line, in this process."""

import sys

import pytest

from transalg.cli import main


@pytest.fixture
def transalg(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """Run a command in this process: (exit status, standard output, standard error)."""

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["transalg", *arguments])
        monkeypatch.setenv("COLUMNS", "80")
        status = 0
        try:
            main()
        except SystemExit as stop:
            status = stop.code or 0
        out, err = capsys.readouterr()
        return status, out, err

    return run
