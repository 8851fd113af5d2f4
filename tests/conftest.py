"""Settings of the test suite: hypothesis, fixed random seeds, and a limit on the number of p-values."""

from __future__ import annotations

import os
import random
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from sparsehist import entropy
from tests import stats
from tests.browser import browser  # noqa: F401 - a fixture of the whole suite

if TYPE_CHECKING:
    from typing import Any

# Hypothesis tries the same examples in every run, and never fails a test because it is slow.
settings.register_profile(
    "suite", derandomize=True, deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("suite")

# Stores on disk take no seed, so the package's source of random numbers is replaced with a seeded generator.
# The generator is seeded with the name of each test, so that no test fails by chance.
# In forked processes, the generator is seeded by the operating system, so that parent and child draw different noise.
# If a forked process repeated its parent's noise, no test could notice a release that is wrongly drawn twice.
_keys = random.Random()
entropy.secrets = SimpleNamespace(randbits=_keys.getrandbits)
os.register_at_fork(after_in_child=_keys.seed)


@pytest.hookimpl(tryfirst=True)
def pytest_fixture_setup(fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest) -> None:
    """Seed all randomness with the fixture's name before its setup, because several tests may share a fixture."""
    _keys.seed(f"{request.node.nodeid} {fixturedef.argname}")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> None:
    """Seed all randomness with the test's name before the test runs."""
    _keys.seed(item.nodeid)


_asked_by_workers = pytest.StashKey[int]()


def pytest_configure(config: pytest.Config) -> None:
    """Set the number of p-values that workers have checked to 0 when the test run starts."""
    config.stash[_asked_by_workers] = 0


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Add the p-values that a pytest-xdist worker has checked to the total when the worker ends."""
    node.config.stash[_asked_by_workers] += getattr(node, "workeroutput", {}).get("p_values", 0)


def _asked(config: pytest.Config) -> int:
    return stats.asked() + config.stash[_asked_by_workers]


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """In a worker, report its number of p-values; in the controller, fail the run if the total exceeds `P_VALUES`."""
    workeroutput: dict[str, Any] | None = getattr(session.config, "workeroutput", None)
    if workeroutput is not None:
        workeroutput["p_values"] = stats.asked()
    elif _asked(session.config) > stats.P_VALUES:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Print how many p-values the run has checked, and how many the constant `P_VALUES` allows."""
    asked = _asked(config)
    spent = f"{asked} p-values of {stats.P_VALUES} declared, suite level {stats.SUITE_LEVEL:g}"
    if asked > stats.P_VALUES:
        terminalreporter.write_line(f"{spent}: too many, raise P_VALUES in tests/stats.py", red=True)
    elif asked:
        terminalreporter.write_line(spent)
