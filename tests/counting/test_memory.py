"""How much memory a count may take: the least of what the machine and its control groups allow."""

from __future__ import annotations

import os

import pytest

from sparsehist.counting.memory import allowed_memory, available_memory

MACHINE = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
MEMORY = 1 << 28


@pytest.mark.parametrize(
    ("listed", "limits", "expected"),
    [
        ("0::/\n", {"memory.max": MEMORY}, MEMORY),
        ("0::/a/b\n", {"a/memory.max": 2 * MEMORY, "a/b/memory.max": MEMORY, "c/memory.max": 1}, MEMORY),
        ("", {}, MACHINE),
    ],
)
def test_the_least_limit_of_all_groups_counts(tmp_path, listed, limits, expected):
    """The group, those around it, and the machine; other groups do not matter."""
    for name, limit in limits.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"{limit}\n")
    (tmp_path / "listed").write_text(listed)
    assert available_memory(tmp_path / "listed", tmp_path) == expected


def test_a_limit_is_a_text_in_powers_of_1000_or_1024():
    """As DuckDB reads them."""
    assert [allowed_memory(text) for text in ("7B", "2 kB", "1.5MiB")] == [7, 2000, 1572864]
