"""A log that goes on, killed at every call of the system."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import sparsehist as sh

pytestmark = pytest.mark.faults


def test_a_log_that_goes_on_is_killed_at_every_call(tmp_path: Path) -> None:
    """Over appends, merges of runs and releases: every step counts once and in full, and what left stays as it left.

    Three hundred kills from the fourth step on, in which runs of the steps before are merged and removed.
    """
    command = [sys.executable, "-B", "-m", "tests.faults.running_scenario", str(tmp_path / "run"), "300"]
    done = subprocess.run(
        command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False, timeout=6000
    )
    assert done.returncode == 0, done.stderr[-3000:]
    kills, steps = map(int, done.stdout.split())
    assert kills == 300
    assert steps >= 4
    assert sh.open(tmp_path / "run" / "store").series("days").appended() >= 4
