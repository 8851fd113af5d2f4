"""How much memory a count may take: the least of what the machine and its control groups allow."""

import os

import pytest

from sparsehist.counting.memory import available_memory

MACHINE = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
MEMORY = 1 << 28


@pytest.mark.parametrize(("listed", "expected"), [("0::/a/b\n", MEMORY), ("0::/c\n", 1), ("", MACHINE)])
def test_the_least_limit_of_all_groups_counts(tmp_path, listed, expected):
    """The group, those around it, and the machine limit the memory; other groups do not."""
    for name, limit in {"a": 2 * MEMORY, "a/b": MEMORY, "c": 1}.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "memory.max").write_text(f"{limit}\n")
    (tmp_path / "listed").write_text(listed)
    assert available_memory(tmp_path / "listed", tmp_path) == expected
