"""Counts in parts of any size, written here as a cluster would write them; what a release from them costs.

    python -m tests.store.large_parts 100_000_000

Whole numbers are the keys; the r-th largest count is half as many as there are keys, divided by r, and at least 1.
The release runs in a process limited to 4 GiB of address space. Prints JSON.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path

import duckdb
import numpy as np
import polars as pl

from sparsehist.store import SeriesFiles
from sparsehist.store.parts.counts_in_parts import CountsInParts, register_parts
from tests.test_layout import CHECKOUT

SALT = bytes(range(16))
_SHARDS, _ROW_GROUP = 64, 100_000

_RELEASES = """
import json, resource, sys, time
resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
import numpy as np, polars as pl, sparsehist as sh
from pathlib import Path
from sparsehist.store.state import State
from tests.store.large_parts import opened
size, directory = int(sys.argv[1]), Path(sys.argv[2])
frame = pl.DataFrame({"k": np.arange(10), "count": np.arange(1, 11)})
series = sh.create(":memory:", sh.Counts(frame), name="q", key="k", max_keys=20, domain="integers(1099511627776)")
State.series_files = lambda self, record: opened(directory, size)
found = []
for level in (0.01, 0.02, 0.03, 0.04):
    cpu, wall = time.process_time(), time.perf_counter()
    shown = series.release(f"level_{round(100 * level)}", level=level, threshold=600.0).frame.height
    found.append({"cpu_s": time.process_time() - cpu, "wall_s": time.perf_counter() - wall, "published": shown})
# What the process before it held counts towards ru_maxrss too.
peak_kb = int(next(line for line in Path("/proc/self/status").open() if line.startswith("VmHWM")).split()[1])
print(json.dumps({"releases": found, "peak_mb": peak_kb / 1024}))
"""


def _groups(size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Groups of equal count: of rank r, size // (2 r), and at least 1."""
    half = size // 2
    count = np.unique(np.append(half // np.arange(1, int(half**0.5) + 2), np.arange(1, int(half**0.5) + 2)))
    # Ranks with a count of at least c are those up to half / c.
    ranks = np.append(half // count, 0)
    ranks[0] = size
    sizes = -np.diff(ranks)
    count, sizes = count[sizes > 0], sizes[sizes > 0]
    return count, np.cumsum(sizes) - sizes, sizes


def written(directory: Path, size: int) -> None:
    """Write so many keys and register them."""
    place = directory / "place"
    for copy in ("counts", "support"):
        (place / copy).mkdir(parents=True)
    with duckdb.connect(str(directory / "work.duckdb")) as database:
        database.execute(f"set memory_limit = '3GB'; set temp_directory = '{directory / 'spill'}'")
        how = f"(format parquet, compression zstd, row_group_size {_ROW_GROUP})"
        edges = np.linspace(0, size, _SHARDS + 1).astype(int).tolist()
        database.execute("create table support (hash bigint, shard integer, row integer)")
        for shard, (low, high) in enumerate(pairwise(edges)):
            key = f"((i * 2654435761) % {2**40})::bigint"
            path = place / "counts" / f"counts-{shard:05}.parquet"
            count = f"greatest(1, {size // 2} // ({size} - i))"
            rows = f"select {key} as key_0, {count} as count from range({low}, {high}) t(i)"
            database.execute(f"copy ({rows}) to '{path}' {how}")
            text = f"'{SALT.hex()}' || chr(0) || {key}::varchar"
            database.execute(
                f"insert into support select ('0x' || sha256({text})[1:15])::bigint, {shard}, i - {low} "
                f"from range({low}, {high}) t(i)"
            )
        bounds = [shard << (60 - 6) for shard in range(_SHARDS + 1)]
        for shard, (low, high) in enumerate(pairwise(bounds)):
            path = place / "support" / f"support-{shard:05}.parquet"
            rows = (
                "select hash, format('counts-{:05d}.parquet', shard) as file, row::bigint as row from support "
                f"where hash >= {low} and hash < {high} order by hash, shard, row"
            )
            database.execute(f"copy ({rows}) to '{path}' {how}")
    digests = {}
    for path in place.rglob("*.parquet"):
        with path.open("rb") as file:
            digests[path.name] = hashlib.file_digest(file, "sha256").hexdigest()
    register_parts(directory, place.as_uri(), _groups(size), digests, [pl.Int64()], durable=False)


def opened(directory: Path, size: int) -> SeriesFiles:
    """What was written, checked as opening a series does."""
    parts = CountsInParts(directory / "parts", SALT)
    parts.check()
    return SeriesFiles(_groups(size), parts)


def measured(size: int) -> dict[str, object]:
    """Write, and release four times in a process of its own."""
    with tempfile.TemporaryDirectory() as name:
        directory, begun = Path(name), time.process_time()
        written(directory, size)
        on_disk = sum(path.stat().st_size for path in (directory / "place").rglob("*.parquet"))
        writing = time.process_time() - begun
        run = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", _RELEASES, str(size), name],
            cwd=CHECKOUT, stdout=subprocess.PIPE, text=True, check=True, timeout=300,
        )  # fmt: skip
    return {"keys": size, "bytes": on_disk, "writing_cpu_s": writing, **json.loads(run.stdout)}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(measured(int(sys.argv[1])), indent=1) + "\n")
