"""A workload release that is read again from its store is the same with every OpenBLAS kernel."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

import sparsehist as sh
from tests.cases import quick

KERNELS = ("Prescott", "Nehalem", "Sandybridge", "Haswell", "Zen", "SkylakeX", "Cooperlake", "SapphireRapids")
READ = """
import sys, sparsehist as sh
store = sh.open(sys.argv[1])
store.series("s").release("sums").write_parquet(sys.argv[2])
"""
RUNS = "import numpy; numpy.linalg.eigh(numpy.ones((60, 60)) + numpy.eye(60))"


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create a store, release a workload with a dense strategy matrix, and write the release to a file."""
    place = tmp_path_factory.mktemp("kernels")
    log = pl.DataFrame({"user": range(300), "key": [user % 60 for user in range(300)]})
    series = sh.create(place / "store", log, name="s", unit="user", key="key", max_keys=1, domain=sh.Integers(60))
    sums = series.release("sums", workload="prefix()", level="0.5", strategy="optimised")
    sums.write_parquet(place / "sums.parquet")
    return place


@pytest.mark.parametrize("kernel", quick(("Prescott", "Haswell"), KERNELS))
def test_a_release_given_again_is_the_same_under_every_kernel(published: Path, kernel: str) -> None:
    """Reading a committed release gives identical answers with every OpenBLAS kernel that this processor can run."""
    known = os.environ | {"OPENBLAS_CORETYPE": kernel, "OPENBLAS_NUM_THREADS": "1"}
    if subprocess.run([sys.executable, "-c", RUNS], env=known, capture_output=True, check=False).returncode:
        pytest.skip(f"this processor does not run {kernel}")
    again = f"{published}/{kernel}.parquet"
    subprocess.run([sys.executable, "-c", READ, str(published / "store"), again], env=known, check=True)
    one, other = sh.read(published / "sums.parquet"), sh.read(again)
    assert one.frame.equals(other.frame) and one.metadata == other.metadata
