"""The most rounding-sensitive tests hold on other CPUs too; `make test-cpus` runs all numerical ones under all settings."""

import pytest

from tests.cpus import ROOT, SENSITIVE, SETTINGS, Setting, possible


@pytest.mark.slow
@pytest.mark.parametrize("setting", [setting for setting in SETTINGS if setting.cheap], ids=lambda setting: setting.name)
def test_sensitive_tests_hold_on_other_cpus(setting: Setting) -> None:
    if not possible(setting):
        pytest.skip(f"needs {setting.needs}, which this CPU lacks")
    done = setting.run(SENSITIVE, "-p", "no:xdist")
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]


def test_every_setting_is_another() -> None:
    assert len({(tuple(setting.environment.items()), setting.threads) for setting in SETTINGS}) == len(SETTINGS)
    assert all((ROOT / "tests" / path.split("::")[0]).exists() for path in SENSITIVE)
