"""Settings of the whole suite: hypothesis, and the count of the p-values that share the suite's level."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from tests import stats
from tests.browser import browser  # noqa: F401 - a fixture of the whole suite

if TYPE_CHECKING:
    from typing import Any

# It serves in a process of its own, with a package that only the slow tests of Spark need.
collect_ignore = ["counting/gcs_server.py"]

# The same examples in every run, and no test that looks at the clock.
settings.register_profile(
    "suite", derandomize=True, deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("suite")

_asked_by_workers = pytest.StashKey[int]()


def pytest_configure(config: pytest.Config) -> None:
    """Begin the count."""
    config.stash[_asked_by_workers] = 0
    if config.pluginmanager.hasplugin("xdist"):
        config.pluginmanager.register(_Workers(config))


class _Workers:
    """Adds up what the workers of pytest-xdist report when they end."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    def pytest_testnodedown(self, node: Any) -> None:
        """Take over the count of a worker that ends."""
        self._config.stash[_asked_by_workers] += getattr(node, "workeroutput", {}).get("p_values", 0)


def _asked(config: pytest.Config) -> int:
    return stats.asked() + config.stash[_asked_by_workers]


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Hand the count to the controller, or fail a run that spent more than the suite's level."""
    workeroutput: dict[str, Any] | None = getattr(session.config, "workeroutput", None)
    if workeroutput is not None:
        workeroutput["p_values"] = stats.asked()
    elif _asked(session.config) > stats.P_VALUES:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Say how much of the level was spent."""
    asked = _asked(config)
    spent = f"{asked} p-values of {stats.P_VALUES} declared, suite level {stats.SUITE_LEVEL:g}"
    if asked > stats.P_VALUES:
        terminalreporter.write_line(f"{spent}: too many, raise P_VALUES in tests/stats.py", red=True)
    elif asked:
        terminalreporter.write_line(spent)
