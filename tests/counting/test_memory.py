"""How much memory a count may take: the least of what the machine, its control groups and the process allow."""

from __future__ import annotations

import os
import resource
import subprocess
import sys

import pytest

from sparsehist.counting.memory import ADDRESSES_PER_BYTE, allowed_memory, available_memory

MACHINE = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
MEMORY = 1 << 28


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


def test_a_limit_is_a_text_in_powers_of_1000_or_1024():
    """As DuckDB reads them."""
    assert [allowed_memory(text) for text in ("7B", "2 kB", "1.5MiB")] == [7, 2000, 1572864]
