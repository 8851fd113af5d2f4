from __future__ import annotations

import os
import resource
import subprocess
import sys

import polars as pl
import pytest

from sparsehist.counting import count as counting
from sparsehist.counting.room import ADDRESSES_PER_BYTE, available_memory, memory_needed
from sparsehist.counting.row_groups import pieces, row_group_sizes
from sparsehist.counting.sources import open_log
from tests.counting.logs import a_log, count

MACHINE = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
MEMORY = 1 << 28
COLUMNS = ["user_id", "query"]


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
        "from sparsehist.counting.room import available_memory as a; from pathlib import Path; print(a(Path('/-')))"
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


def test_pieces_are_whole_row_groups_and_all_of_them(tmp_path):
    """Every row is in exactly one piece, whatever the sizes; pieces are as large as asked but for the last."""
    sizes = {"a": [3, 3, 3, 1], "b": [0], "c": [10], "d": [1], "e": [1, 4]}
    for least in (1, 2, 4, 100):
        found = list(pieces(sizes, least))
        rows = [(file, row) for piece in found for file, start, size in piece for row in range(start, start + size)]
        assert rows == [(file, row) for file, parts in sizes.items() for row in range(sum(parts))]
        assert all(sum(size for _, _, size in piece) >= least for piece in found[:-1])
    a_log(100).write_parquet(tmp_path / "x.parquet", row_group_size=30)
    assert row_group_sizes(str(tmp_path / "x.parquet")) == [30, 30, 30, 10]
    a_log(100).clear().write_parquet(tmp_path / "x.parquet")
    assert sum(row_group_sizes(str(tmp_path / "x.parquet"))) == 0
    (tmp_path / "x.parquet").write_text("no Parquet")
    assert row_group_sizes(str(tmp_path / "x.parquet")) is None


def test_files_in_pieces_and_as_a_stream_count_alike(tmp_path, monkeypatch):
    """Large row groups are streamed, others read in pieces; the counts are those of the frame."""
    log = a_log(500)
    for i in range(3):
        log[i::3].write_parquet(tmp_path / f"{i}.parquet", row_group_size=40)
    expected = count(log).frame.sort(pl.all())
    for batch, largest in ((10, 1000), (10**6, 1000), (100, 10)):
        monkeypatch.setattr("sparsehist.counting.with_polars.BATCH_ROWS", batch)
        monkeypatch.setattr("sparsehist.counting.with_polars.LARGEST_PIECE", largest)
        assert count(str(tmp_path / "*.parquet"), engine="polars").frame.sort(pl.all()).equals(expected)
