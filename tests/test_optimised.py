"""Under `python -O`, which drops every `assert`: checks still refuse, and the core's tests still pass."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
CORE = [
    f"tests/{folder}"
    for folder in ("noise", "dense", "histogram", "workload", "privacy", "local", "audiences", "interactive")
]

BROKEN_PROMISES = """
from sparsehist import entropy, noise
from sparsehist.domain import Integers
from sparsehist.domain.free_cells import draw_free
from sparsehist.errors import LawError, of_kind, present, promise
from sparsehist.histogram import draw_exceeding

assert False, "assertions are on, so that this shows nothing"


class Crossing(noise.Gaussian):
    def carry(self, values, start, end, *, rng):
        return -super().carry(values, start, end, rng=rng)


def reversed_order():
    draw_exceeding(Crossing(), [(0.1, 3.0)], 0.2, 1.0, 10**4, rng=entropy.seeded(1))


def more_than_there_are():
    draw_free(Integers(3), 4, n_taken=0, taken=None, taken_keys=None, rng=entropy.seeded(1))


for breaks in (
    reversed_order,
    more_than_there_are,
    lambda: promise(0, "nothing"),
    lambda: present(None),
    lambda: of_kind(1, str),
):
    try:
        breaks()
    except LawError:
        continue
    raise SystemExit(f"{breaks} went on")
print("all refused")
"""


def run_optimised(*arguments: str, limit: float) -> subprocess.CompletedProcess[str]:
    """Run Python without assertions, in the checkout."""
    command = [sys.executable, "-O", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=limit, check=False)


def test_checks_refuse_without_assertions() -> None:
    """A family that reverses orders, cells that are not there, numbers that grow: each raises LawError."""
    made = run_optimised("-c", BROKEN_PROMISES, limit=120)
    assert made.stdout.strip() == "all refused", made.stderr


@pytest.mark.slow
def test_the_tests_of_the_core_pass_without_assertions(tmp_path: Path) -> None:
    """pytest rewrites the assertions of tests, so that they still fail: one that must is run beside."""
    wrong = tmp_path / "test_wrong.py"
    wrong.write_text("def test_wrong():\n    assert not __debug__ and 1 == 2\n")
    options = ["-q", "-p", "no:cacheprovider", "-W", "ignore::pytest.PytestConfigWarning", "-m", "not slow"]
    made = run_optimised("-m", "pytest", *options, str(wrong), limit=300)
    assert "1 failed" in made.stdout, made.stdout
    made = run_optimised("-m", "pytest", *options, *CORE, limit=3600)
    assert made.returncode == 0, made.stdout[-4000:]
