"""If a process is killed at any moment, its work is complete or not begun, and the next command cleans up."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cases import slow

CHECKOUT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    "work",
    ["round", "store", *map(slow, ("create", "workload", "sums", "ask", "session", "drop", "adopt", "backup"))],
)
def test_a_store_killed_at_any_call_is_before_or_after(tmp_path: Path, work: str) -> None:
    """If a process is killed before a call that changes files or state, its work is complete or without effect."""
    words = [sys.executable, "-m", "tests.faults.campaign", str(tmp_path), "--work", work, "--kinds", "inside"]
    done = subprocess.run(words, cwd=CHECKOUT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)[f"of {work}"] >= 15
