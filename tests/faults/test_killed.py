"""No release is lost if a process is killed at a write, fsync or rename, or if such a call fails."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.work import WORK

pytestmark = [
    pytest.mark.faults,
    pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace"),
]
ROOT = Path(__file__).parents[2]
CAMPAIGN = (sys.executable, "-B", "-m", "tests.faults.campaign")
KILLS = int(os.environ.get("SPARSEHIST_KILLS", "100"))
"""Number of kills over all kinds of work; `make test-faults KILLS=1000` runs the whole campaign."""


def campaign(place, *options):
    """Run a fault campaign; return a dict with the number of attempts for each kind of call, work and outcome."""
    words = list(map(str, [*CAMPAIGN, place, *options]))
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    print(done.stdout)  # noqa: T201  pytest -s shows the numbers
    return json.loads(done.stdout.splitlines()[-1])


def test_work_that_is_killed_is_done_as_a_whole_or_not_begun(tmp_path):
    """If any command is killed at a system call, the next command finds a consistent store and cleans up."""
    made = campaign(tmp_path, "--kills", KILLS)
    assert made["killed"] >= KILLS
    assert all(made[f"of {name}"] >= KILLS // len(WORK) for name in WORK)
    if KILLS >= 1000:
        assert all(made[kind] >= 20 for kind in ("write", "pwrite64", "fsync", "fdatasync", "rename")), made


@pytest.mark.parametrize("work", ["round", "drop"])
def test_work_is_killed_once_at_each_call(tmp_path, work):
    """If a process is killed while it commits a round or drops a series, the work is complete or has not begun."""
    made = campaign(tmp_path, "--work", work)
    assert made["killed"] >= 30 and min(made["pwrite64"], made["fdatasync"]) >= 5, made


def test_every_call_of_a_release_may_fail(tmp_path):
    """If a write fails with ENOSPC, EIO or EDQUOT, a release either succeeds or is refused, and nothing is lost."""
    made = campaign(tmp_path, "--work", "release", "--errors", "ENOSPC", "EIO", "EDQUOT")
    assert min(made["refused"], made["of release"] - made["refused"]) >= 3
    assert made.get("killed", 0) == 0
