"""A log that goes on, killed at every call of the system."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.faults


def test_a_log_that_goes_on_is_killed_at_every_call(tmp_path: Path) -> None:
    """Over appends, merges of runs and releases: every step counts once and in full, and what left stays as it left.

    Three hundred kills go through several steps, so that runs of steps before are merged and removed on the way.
    """
    command = [sys.executable, "-B", "-m", "tests.faults.running_scenario", str(tmp_path / "run"), "300"]
    done = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    kills, steps = map(int, done.stdout.split())
    assert kills == 300
    assert steps > 4
