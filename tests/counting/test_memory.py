from __future__ import annotations

import os
import re
import resource
import subprocess
import sys
from collections import Counter
from functools import partial
from types import SimpleNamespace

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import parquet

from sparsehist.counting import count as counting
from sparsehist.counting import memory, with_polars
from sparsehist.counting.in_memory import batches
from sparsehist.counting.memory import ADDRESSES_PER_BYTE, LITTLE, available_memory, memory_needed, needs_text
from sparsehist.counting.sources import open_log
from sparsehist.entropy import seeded
from sparsehist.errors import DataError
from tests.counting.logs import a_log, count

MACHINE = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
MEMORY = 1 << 28
COLUMNS = ["user_id", "query"]
SIZES = re.compile(r"([\d.]+) (MB|GB)")


@pytest.mark.parametrize(
    ("listed", "limits", "expected"),
    [
        ("0::/\n", {"memory.max": MEMORY}, MEMORY),
        ("0::/a/b\n", {"memory.max": "max", "a/memory.max": MEMORY, "a/b/memory.max": "max"}, MEMORY),
        ("0::/a/b\n", {"a/memory.max": 2 * MEMORY, "a/b/memory.max": MEMORY, "c/memory.max": 1}, MEMORY),
        ("5:cpu:/x\n4:memory:/a\n0::/\n", {"memory/a/memory.limit_in_bytes": MEMORY}, MEMORY),
        ("4:memory:/a\n", {"memory/a/memory.limit_in_bytes": 2**63 - 4096, "memory.max": 1}, MACHINE),
        ("", {}, MACHINE),
    ],
)
def test_the_least_limit_of_all_groups_counts(tmp_path, listed, limits, expected):
    """Groups of either version, those around them, and the machine; other groups do not matter."""
    for name, limit in limits.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"{limit}\n")
    (tmp_path / "listed").write_text(listed)
    assert available_memory(tmp_path / "listed", tmp_path) == expected


def test_no_groups_at_all_leave_the_machine(tmp_path):
    """Where the system has no control groups, its memory is what there is."""
    assert available_memory(tmp_path / "none", tmp_path) == MACHINE


def test_a_limit_of_the_process_counts():
    """A limit on addresses counts, less what is reserved and never touched."""
    limit = 3 << 30
    code = (
        "from sparsehist.counting.memory import available_memory as a; from pathlib import Path; print(a(Path('/-')))"
    )
    run = subprocess.run(
        [sys.executable, "-c", code],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(run.stdout) == min(MACHINE, limit // ADDRESSES_PER_BYTE)


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_a_log_too_large_for_the_memory_goes_to_duckdb(tmp_path, monkeypatch, suffix):
    """The automatic choice goes by the memory there is, and DuckDB is held to half of that."""
    path = tmp_path / f"log.{suffix}"
    log = a_log(400)
    log.write_parquet(path) if suffix == "parquet" else log.write_csv(path)
    needed = memory_needed(open_log(path, COLUMNS))
    assert count(path).engine.startswith("polars")
    monkeypatch.setattr(counting, "available_memory", lambda: 2 * needed - 1)
    assert count(path).engine.startswith("duckdb")


def test_what_a_log_needs_grows_with_it(tmp_path):
    """Twice the rows are guessed to need twice the memory, and never less than the codes take; frames are there."""
    needed = []
    for rows in (1000, 2000):
        a_log(rows).write_parquet(tmp_path / "log.parquet")
        needed.append(memory_needed(open_log(tmp_path / "log.parquet", COLUMNS)))
        assert needed[-1] > 24 * rows
    assert needed[0] < needed[1] < 3 * needed[0]
    assert memory_needed(open_log(a_log(), COLUMNS)) == 0


def test_what_a_long_count_takes_is_said_before_it(tmp_path, monkeypatch):
    """Nothing for a short one; with rows on disk no more memory than a limit; what may not do is named."""
    gigabyte = 10**9
    assert needs_text(LITTLE - 1, tmp_path, spills=False, limit=None) is None
    monkeypatch.setattr(memory, "available_memory", lambda: 8 * gigabyte)
    monkeypatch.setattr(memory, "disk_usage", lambda _: SimpleNamespace(free=10 * gigabyte))
    told = partial(needs_text, spill=tmp_path)
    expected = "about 2.1 GB of memory (8.0 GB there), up to 2.0 GB of disk (10.0 GB free)"
    assert told(2 * gigabyte, spills=False, limit=None) == expected
    spilling = "about 2.1 GB of memory (8.0 GB there), up to 4.0 GB of disk (10.0 GB free)"
    assert told(2 * gigabyte, spills=True, limit=None) == spilling
    assert told(2 * gigabyte, spills=True, limit="500 MB").startswith("about 650 MB of memory")
    assert told(8 * gigabyte, spills=True, limit="1GiB").startswith("about 1.2 GB")
    assert told(8 * gigabyte, spills=False, limit=None).endswith("; memory may not do")
    assert told(9 * gigabyte, spills=True, limit=None).endswith("; disk may not do")


TAKEN = """
import resource, sys
import sparsehist as sh
said = []
sh.create(sys.argv[1], sys.argv[2], name="v", unit="user_id", key="query", max_keys=20, engine=sys.argv[3],
          domain=sh.Strings(max_bytes=40), progress=said.append)
print(said[1], resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, sep="|")
"""


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["polars", "duckdb"])
@pytest.mark.parametrize(("suffix", "rows"), [("parquet", 10_000_000), ("csv", 10_000_000)])
def test_what_is_said_is_taken_to_a_factor_of_two(tmp_path, engine, suffix, rows):
    """Two logs, of whole numbers in Parquet and of text in CSV: the most memory a process takes; disk is enough."""
    rng = seeded(3)
    users = pl.Series("user_id", rng.integers(rows // 10, size=rows))
    keys = pl.Series("query", (rng.random(rows) ** 4 * rows / 2).astype(int))
    log = pl.DataFrame([users, keys.cast(pl.String)])
    path = tmp_path / f"log.{suffix}"
    log.write_parquet(path) if suffix == "parquet" else log.write_csv(path)
    command = [sys.executable, "-c", TAKEN, str(tmp_path / "store"), str(path), engine]
    told, taken = subprocess.run(command, capture_output=True, text=True, check=True, timeout=500).stdout.split("|")
    memory_said, disk_said = (
        float(number) * {"MB": 1e6, "GB": 1e9}[unit] for number, unit in SIZES.findall(told)[::2]
    )
    print(f"{suffix} {engine}: said {memory_said:.3g}, taken {int(taken):.3g}")  # noqa: T201 - the figure itself
    assert 1 / 2 < int(taken) / memory_said < 2
    stored = sum(file.stat().st_size for file in (tmp_path / "store").rglob("*") if file.is_file())
    assert stored < disk_said


def test_pieces_are_whole_row_groups_and_all_of_them(tmp_path, monkeypatch):
    """Every row is in exactly one piece; pieces are as large as asked but for the last of a file."""
    log = a_log(100)
    files = [str(tmp_path / name) for name in ("x.parquet", "y.parquet", "z.parquet")]
    for file, part in zip(files, (log, log[:7], log.clear()), strict=True):
        part.write_parquet(file, row_group_size=30)
    for least, expected in ((1, [30, 30, 30, 10, 7]), (31, [60, 40, 7]), (1000, [100, 7])):
        monkeypatch.setattr(batches, "BATCH_ROWS", least)
        found = open_log(files, COLUMNS)
        read = [batches.read(piece, COLUMNS, found.dtypes) for piece in batches.unread(found, COLUMNS)]
        sizes = [batch.columns[0].values.len() for batch in read]
        assert [size for size in sizes if size] == expected
        units = [unit for batch in read for unit in batch.columns[0].values]
        assert units == [*log["user_id"], *log["user_id"][:7]]


@pytest.mark.parametrize("unit", ["number", "text", "category"])
def test_files_in_pieces_and_as_a_stream_count_alike(tmp_path, monkeypatch, unit):
    """Large row groups are streamed, others read in pieces by any number of threads; all counts are the frame's."""
    dtypes = {"number": pl.Int64, "text": pl.String, "category": pl.Categorical}
    log = a_log(500).with_columns(pl.col("user_id").cast(pl.String).cast(dtypes[unit]))
    for i in range(3):
        log[i::3].write_parquet(tmp_path / f"{i}.parquet", row_group_size=40, use_pyarrow=i == 1)
    expected = count(log).frame.sort(pl.all())
    monkeypatch.setattr(with_polars, "PART_ROWS", 20)
    ways = ((10, 1000, 1, 1), (10**6, 1000, 3, 3), (100, 10, 2, 99), (50, 1000, 3, 2))
    for batch, largest, threads, hashed in ways:
        monkeypatch.setattr(with_polars, "HASHED_AT_ONCE", hashed)
        monkeypatch.setattr(batches, "BATCH_ROWS", batch)
        monkeypatch.setattr(batches, "LARGEST_ROW_GROUP", largest)
        counted = count(str(tmp_path / "*.parquet"), engine="polars", threads=threads)
        assert counted.frame.sort(pl.all()).equals(expected)


def test_nulls_and_empty_units_of_parquet_files_are_left_out_or_refused(tmp_path):
    """Whether a file holds a column as a dictionary or as it is, its gaps are seen."""
    log = a_log(300).with_columns(pl.col("user_id").cast(pl.String))
    holes = pl.when(pl.int_range(pl.len()) % 3 == 0)
    for number, gap in enumerate((holes.then(None), holes.then(pl.lit("")))):
        for column in COLUMNS:
            partly = log.with_columns(gap.otherwise(pl.col(column)).alias(column))
            for dictionary in (True, False):
                path = tmp_path / f"{number}.parquet"
                partly.write_parquet(path, use_pyarrow=True, pyarrow_options={"use_dictionary": dictionary})
                kept = partly.filter(pl.col(column).is_not_null() & (pl.col(column) != ""))
                dropped = count(path, on_null="drop").frame.sort(pl.all())
                assert dropped.equals(count(kept).frame.sort(pl.all()))
                with pytest.raises(DataError, match=column):
                    count(path)


def test_text_of_a_file_that_is_no_utf8_is_refused(tmp_path):
    """Arrow takes any bytes for text: they are looked at."""
    broken = pa.table({"user_id": [1, 2], "query": pa.array([b"a", b"\xff\xfe"]).view(pa.string())})
    for dictionary in (True, False):
        parquet.write_table(broken, tmp_path / "x.parquet", use_dictionary=dictionary)
        with pytest.raises(DataError, match="cannot be read"):
            count(tmp_path / "x.parquet")


def _cut(rng):
    """Texts of characters of one to four bytes, some with a byte changed or left out, as an array and as a slice."""
    texts = ["".join(rng.choice(list("aé漢😀"), rng.integers(3))).encode() for _ in range(rng.integers(1, 6))]
    for place in np.flatnonzero(rng.random(len(texts)) < 0.3):
        at, other = rng.integers(len(texts[place]) + 1), rng.integers(256, size=rng.integers(2), dtype=np.uint8)
        texts[place] = texts[place][:at] + other.tobytes() + texts[place][at + 1 :]
    ends = np.cumsum([0, *map(len, texts)], dtype=np.int32)
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(b"".join(texts))]
    array = pa.Array.from_buffers(pa.string(), len(texts), buffers)
    return array.slice(rng.integers(len(texts)))


def test_no_bytes_pass_for_text_that_arrow_refuses():
    """Whole buffers are looked at, and where they are cut: either alone would let some pass."""
    rng, seen = seeded(3), Counter()
    for _ in range(4000):
        array = _cut(rng)
        try:
            array.validate(full=True)
            valid = True
        except pa.ArrowInvalid:
            valid = False
        seen[valid, batches._is_text(array)] += 1
    assert not seen[False, True]
    assert min(seen[False, False], seen[True, True]) > 500
