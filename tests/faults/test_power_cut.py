"""The power goes at any moment, and what was not synchronised is lost, in part or as a whole: the store is whole."""

from __future__ import annotations

import random
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sparsehist.errors import SparsehistError
from sparsehist.store import open_state
from tests.faults.power_cut import Call, Cut, Disk, Write, cuts, put, record, written, zeros
from tests.faults.scenario import create, release
from tests.faults.test_killed import check_what_left, command, places, published
from tests.store.crashing import WORK

pytestmark = [
    pytest.mark.faults,
    pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace"),
]
ROOT = Path(__file__).parents[2]
SYNCS, WRITES = ("fsync", "fdatasync"), ("write", "pwrite64")


def recorded(work: str, tmp_path: Path) -> tuple[Path, Disk, list[Call]]:
    """Do a piece of work once; the directory it was done in, as it was before, and the calls."""
    root = tmp_path / "root"
    root.mkdir()
    WORK[work][0](root / "s")
    before = Disk(root)
    command = [sys.executable, "-B", "-m", "tests.store.crashing", "once", work, str(root)]
    return root, before, record(command, tmp_path / "trace", cwd=ROOT)


def moments(root: Path, disk: Disk, calls: list[Call]) -> Iterator[tuple[int, Cut]]:
    """Replay calls, and yield the number of each that changed or synchronised something with each of the cuts.

    Within a run of writes only after the first and the last: cuts keep any part of those before them.
    """
    chance = random.Random(1)
    kinds = [False, *(call.name in WRITES for call in calls), False]
    for number, call in enumerate(calls):
        if disk.replay(call) and not all(kinds[number : number + 3]):
            for cut in cuts(chance):
                put(disk.top, root, cut)
                yield number, cut


@pytest.mark.parametrize("work", ["release", "workload", "create_series", "drop"])
def test_a_store_is_before_or_after_whenever_the_power_goes(tmp_path: Path, work: str) -> None:
    """Whatever is lost between two calls that change or synchronise something; and work that is done stays done."""
    root, disk, calls = recorded(work, tmp_path)
    generations = Counter()
    for number, cut in moments(root, disk, calls):
        try:
            with open_state(root / "s") as state:
                generations[state.generation] += 1
                last = state.generation
            WORK[work][2](root / "s")
        except Exception as error:
            raise AssertionError(f"after {cut.name} at call {number}, {calls[number].name}: {error!r}") from error
    assert len(generations) == 2 and min(generations.values()) > 10, generations
    assert last == max(generations), "work that was done is lost"


def test_what_was_published_is_in_the_state_whenever_the_power_goes(tmp_path: Path) -> None:
    """A release that is committed, then published with its ledger: no file is there that the state does not know."""
    root = tmp_path / "root"
    root.mkdir()
    store, out = places(root)
    create(store)
    release(store, out, "first", level="0.1", false_keys=20)
    disk = Disk(root)
    calls = record(command("release", store, out), tmp_path / "trace", cwd=ROOT)
    seen = Counter()
    for number, cut in moments(root, disk, calls):
        try:
            names = check_what_left(store, out)
        except Exception as error:
            raise AssertionError(f"after {cut.name} at call {number}, {calls[number].name}: {error!r}") from error
        seen[len(names), len(published(out))] += 1
    assert set(seen) == {(1, 1), (2, 1), (2, 2)} and min(seen.values()) > 10, seen


@pytest.mark.parametrize(
    ("work", "forgotten"),
    [
        ("release", lambda path: path.endswith("/s")),
        ("release", lambda path: "/round-" in path),
        ("release", lambda path: path.endswith("state.sqlite-journal")),
        ("drop", lambda path: path.endswith("state.sqlite")),
    ],
    ids=["directory", "round", "journal", "state"],
)
def test_a_forgotten_synchronisation_is_found(tmp_path: Path, work: str, forgotten: Callable[[str], bool]) -> None:
    """Without those of the directory, of the round, of the journal or of the state file, the same search fails."""
    root, disk, calls = recorded(work, tmp_path)
    opened: dict[str, str] = {}
    kept = []
    for call in calls:
        if call.name == "openat":
            opened[str(call.result)] = bytes(call.arguments[1]).decode()
        if not (call.name in SYNCS and forgotten(opened.get(str(call.arguments[0]), ""))):
            kept.append(call)
    assert len(kept) < len(calls)
    failed = 0
    last = None
    for _ in moments(root, disk, kept):
        try:
            with open_state(root / "s") as state:
                last = state.generation
            WORK[work][2](root / "s")
        except (SparsehistError, AssertionError):
            failed += 1
            if failed > 2:
                return
    with open_state(root / "s") as state:
        assert failed or last != state.generation, "nothing was lost"


def test_writes_overlap_as_on_a_disk() -> None:
    """The model of a file: gaps are zero, a cut forgets, later writes win, lost ones leave zeros or nothing."""
    writes = [Write(0, b"abcd"), Write(6, b"ef"), Write(2, b"XY"), Write(5, None)]
    assert written(b"", writes[:2]) == b"abcd\0\0ef"
    assert written(b"", writes) == b"abXY\0"
    assert written(b"123456789", [Write(4, None), Write(6, b"x")]) == b"1234\0\0x"
    assert written(b"12", zeros(writes[:2])) == bytes(8)
    assert written(b"12", []) == b"12"


def test_a_cut_keeps_what_was_synchronised(tmp_path: Path) -> None:
    """A file written, synchronised and renamed without its directory is there under the old name or not at all."""
    root = tmp_path / "root"
    root.mkdir()
    disk = Disk(root)
    path = str(root / "a").encode()
    done = [
        Call("openat", ("AT_FDCWD", path, "O_WRONLY|O_CREAT", "0600"), 5),
        Call("write", ("5", b"text", "4"), 4),
        Call("fsync", ("5",), 0),
        Call("rename", (path, path + b"b"), 0),
    ]
    for call in done:
        assert disk.replay(call)

    def left(changes: int) -> dict[str, bytes]:
        put(disk.top, root, Cut("", lambda _: changes, lambda _: []))
        return {place.name: place.read_bytes() for place in root.iterdir()}

    assert left(0) == {}
    assert left(1) == {"a": b"text"}
    assert left(2) == {"ab": b"text"}
