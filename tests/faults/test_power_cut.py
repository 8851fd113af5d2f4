"""A power cut at any moment leaves a consistent store, even if unsynchronised data are partly lost."""

from __future__ import annotations

import copy
import os
import random
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import sparsehist as sh
from sparsehist.errors import SparsehistError, StoreRolledBackError
from sparsehist.store import is_store, open_state, opening
from tests.faults.place import Place, inspect
from tests.faults.power_cut import Disk, cuts, put, record
from tests.faults.work import WORK

pytestmark = [
    pytest.mark.faults,
    pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace"),
]
ROOT = Path(__file__).parents[2]
CUTS = int(os.environ.get("SPARSEHIST_CUTS", "100"))
"""Number of power cuts for each kind of work."""
SYNCS, WRITES = ("fsync", "fdatasync"), ("write", "pwrite64")


def recorded(work, tmp_path):
    """Run work under strace; return the directory, a model of the disk before the work, and the system calls."""
    root = tmp_path / "root"
    command = [sys.executable, "-B", "-m", "tests.faults.campaign", str(root), "--work", work, "--step"]
    subprocess.run([*command, "prepare"], cwd=ROOT, check=True, timeout=300)
    place, before = Place(root), Disk(root)
    return place, before, record([*command, "work"], tmp_path / "trace", cwd=ROOT)


@pytest.fixture(autouse=True)
def directories_and_times_are_those_of_the_model(monkeypatch):
    """Disable the check that a store is not a copy, because a replayed disk has different inodes and times."""
    monkeypatch.setattr(opening, "check_is_original", lambda *_: None)


def moments(root, disk, calls, limit=None):
    """Replay calls, cut the power after each, write what survives, and yield the call's number and the kind of cut.

    The power is not cut after a call without effect. In a run of writes, the power is cut only after the first
    and the last write, because the last of these cuts may lose any of the writes. At most `limit` cuts are chosen at
    random. All kinds of cuts after the last call are added.
    """
    chance = random.Random(1)
    rehearsal = copy.deepcopy(disk)
    kinds = [False, *(call.name in WRITES for call in calls), False]
    numbers = [n for n, call in enumerate(calls) if rehearsal.replay(call) and not all(kinds[n : n + 3])]
    all_cuts = [(n, kind) for n in numbers for kind in range(len(cuts(chance)))]
    picked = set(all_cuts if limit is None else chance.sample(all_cuts, min(limit, len(all_cuts))))
    picked |= {(n, kind) for n, kind in all_cuts if n == numbers[-1]}
    for number, call in enumerate(calls):
        disk.replay(call)
        for kind, cut in enumerate(cuts(chance)):
            if (number, kind) in picked:
                put(disk.top, root, cut)
                yield number, cut


def outcome(work, place):
    """Run the next command, check the store, and return a number that is larger if more of the work was done."""
    kept = place.root / "kept"
    if work in ("round", "sums", "session"):
        with open_state(place.store) as opened:
            generation = opened.generation
        WORK[work][2](place)
        return generation
    if work in ("create", "script") and not is_store(place.store):
        WORK[work][1](place)
        inspect(place)
        return -1
    if work in ("adopt", "move"):
        sh.adopt(kept, home_is_gone=True) if work == "adopt" else sh.open(kept)
        shutil.rmtree(place.root / "other", ignore_errors=True)
        kept.rename(place.store)
        inspect(place)
        return 0
    if work == "backup" and not kept.exists():
        WORK[work][1](place)  # a new backup also removes what the interrupted one left
        shutil.rmtree(kept)
    inspect(place)
    if work == "backup" and kept.exists():
        with pytest.raises(StoreRolledBackError, match="still exists"):
            sh.adopt(kept, home_is_gone=True)
        place.store.rename(place.root / "away")
        sh.adopt(kept, home_is_gone=True)
        with open_state(kept) as copied:
            copied.verify()
        return 1
    with sh.open(place.store).hold() as opened:
        return 0 if work == "backup" else opened.generation


@pytest.mark.parametrize("work", sorted(WORK.keys() - {"ask", "store"}))
def test_a_store_is_before_or_after_whenever_the_power_goes(tmp_path, work):
    """After a power cut at any call, the work is complete or not begun, and completed work is not lost."""
    place, disk, calls = recorded(work, tmp_path)
    found = Counter()
    for number, cut in moments(place.root, disk, calls, CUTS):
        try:
            last = outcome(work, place)
        except Exception as error:
            raise AssertionError(f"after {cut.name} at call {number}, {calls[number].name}: {error!r}") from error
        found[last] += 1
    assert found.total() >= min(CUTS, 40 if work == "move" else 100)
    assert len(found) > 1 or work in ("adopt", "clear", "move"), found
    assert last == max(found), "work that was done is lost"


@pytest.mark.parametrize(
    ("work", "forgotten"),
    [
        ("round", lambda path: path.endswith("/store")),
        ("round", lambda path: "/round-" in path),
        ("round", lambda path: path.endswith("state.sqlite-journal")),
        ("drop", lambda path: path.endswith("state.sqlite")),
    ],
    ids=["directory", "round", "journal", "state"],
)
def test_a_forgotten_synchronisation_is_found(tmp_path, work, forgotten):
    """Negative control: a power cut loses data if a file or the directory of the store is never synchronised."""
    place, disk, calls = recorded(work, tmp_path)
    opened, kept = {}, []
    for call in calls:
        if call.name == "openat":
            opened[str(call.result)] = bytes(call.arguments[1]).decode()
        if not (call.name in SYNCS and forgotten(opened.get(str(call.arguments[0]), ""))):
            kept.append(call)
    assert len(kept) < len(calls)
    failed, found = 0, []
    for _ in moments(place.root, disk, kept):
        try:
            found.append(outcome(work, place))
        except (SparsehistError, AssertionError):
            failed += 1
            if failed > 2:
                return
    assert failed or found[-1] < max(found), "nothing was lost"
