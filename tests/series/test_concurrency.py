"""Processes and forks that use one store at the same time never draw noise twice for the same name or level."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

import sparsehist as sh

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="the test counts on Polars' threads having started")

WORKER = """
import pickle, sys
import sparsehist as sh
series = sh.open(sys.argv[1], wait=60).series("visits")
frames = {}
for i in range(6):
    level = ["0.1", "0.4", "0.2"][i % 3]
    frames[f"r{i}"] = series.release(f"r{i}", level=level, threshold=15 + i).frame
sys.stdout.buffer.write(pickle.dumps(frames))
"""


def a_store(path: Path) -> sh.Series:
    """Create a store that contains one small series."""
    log = pl.DataFrame({"user": range(900), "key": [f"k{i % 40 * (i % 7)}" for i in range(900)]})
    domain = sh.Strings(max_bytes=4)
    return sh.create(path, log, name="visits", unit="user", key="key", max_keys=1, domain=domain)


def assert_one_history(all_frames: list[dict[str, pl.DataFrame]]) -> None:
    """Check that all processes got the same rows for each name, and that releases at one level have equal noise."""
    first = all_frames[0]
    for frames in all_frames[1:]:
        for name, frame in frames.items():
            assert frame.equals(first[name]), name
    for i in range(3):
        high, low = first[f"r{i + 3}"], first[f"r{i}"]
        assert high.join(low, on=["key", "noisy_count"]).height == high.height


def test_processes_at_once_share_one_history(tmp_path: Path) -> None:
    """Four processes that concurrently request the same six releases get the same rows."""
    a_store(tmp_path / "store")
    workers = [
        subprocess.Popen([sys.executable, "-c", WORKER, str(tmp_path / "store")], stdout=subprocess.PIPE)
        for _ in range(4)
    ]
    outputs = [worker.communicate(timeout=120)[0] for worker in workers]
    assert all(worker.returncode == 0 for worker in workers)
    assert_one_history([pickle.loads(output) for output in outputs])


FORK = """
import os, sys, warnings
warnings.simplefilter("ignore")
import sparsehist as sh
from sparsehist.errors import StoreError
series = sh.open(sys.argv[1], wait=60).series("visits")
if sys.argv[2] == "warm":
    series.release("warm", level="0.05", threshold=40)
child = os.fork()
mine = "child" if child == 0 else "parent"
try:
    series.release(mine, level="0.4", threshold=15)
except StoreError as refusal:
    os._exit(7 if child == 0 and "forked" in str(refusal) else 1)
if child == 0:
    os._exit(0)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.parametrize("state", ["cold", pytest.param("warm", marks=LINUX)])
def test_a_fork_draws_no_noise_twice(tmp_path: Path, state: str) -> None:
    """A forked child gets its parent's noise for a level, or an error if Polars had threads before the fork."""
    series = a_store(tmp_path / "store")
    done = subprocess.run([sys.executable, "-c", FORK, str(tmp_path / "store"), state], check=False, timeout=120)
    if state == "warm":
        assert done.returncode == 7
        assert set(series.releases()["name"]) == {"warm", "parent"}
    else:
        assert done.returncode == 0
        assert series.release("child").frame.equals(series.release("parent").frame)


def test_a_forked_child_leaves_a_store_in_memory_to_its_parent() -> None:
    """A forked child that exits normally does not erase the ":memory:" store of its parent."""
    script = """
import os, sys
import sparsehist as sh
store = sh.open(":memory:")
if os.fork() == 0:
    sys.exit()
os.wait()
assert store.path.exists() and store.series_names() == []
"""
    assert subprocess.run([sys.executable, "-c", script], check=False, timeout=60).returncode == 0
