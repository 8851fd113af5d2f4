"""Writes are synchronised in a safe order, and a store that other users can write to is refused."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import sparsehist as sh
from sparsehist.errors import StoreDamagedError, StoreError, StoreRolledBackError
from sparsehist.store import NewRound, PathRecord, adopt, backup, create_store, open_state, state
from sparsehist.store.database import Database
from sparsehist.store.witnesses import listed_in_ledger, publish, read_mark
from tests.store.example import Model, add_series, make_store


@pytest.fixture
def calls(monkeypatch):
    """Record renames, fsyncs and SQLite transactions in order, as pairs (call, path)."""
    made: list[tuple[str, Path]] = []

    def recorded(place, name, *words):
        call = getattr(place, name)

        def wrapped(*arguments):
            for word, argument in zip(words, arguments, strict=False):
                path = {int: lambda fd: Path(f"/proc/self/fd/{fd}").readlink(), Database: lambda it: it._path}
                made.append((word, path.get(type(argument), Path)(argument)))
            return call(*arguments)

        monkeypatch.setattr(place, name, wrapped)

    recorded(os, "fsync", "fsync")
    recorded(os, "replace", "from", "name")
    recorded(os, "rename", "from", "name")
    recorded(Database, "transaction", "commit")
    return made


def check_order(calls: list[tuple[str, Path]], final: Path) -> None:
    """Check that a file is synchronised before its rename, and its directory before the next rename or commit."""
    for at, (call, path) in enumerate(calls):
        if call != "name" or path.name == "state.digest":
            continue
        source, after = calls[at - 1][1], calls[at + 1 :]
        if not path.is_dir():
            assert ("fsync", source) in calls[:at], f"{path} is renamed before it is synchronised"
        until = next((n for n, (later, _) in enumerate(after) if later in ("commit", "from")), len(after))
        assert ("fsync", path.parent) in after[:until], f"the directory of {path} is not synchronised"
    assert any(path == final for _, path in calls)


def test_every_name_is_on_the_disk_before_anything_relies_on_it(tmp_path, calls):
    """The files of a store, its generation file and published files are synchronised in a safe order."""
    path, out = tmp_path / "s", tmp_path / "out"
    out.mkdir()
    create_store(path)
    check_order(calls, path)
    calls.clear()
    with open_state(path) as opened:
        add_series(opened)
        check_order(calls, opened.series("queries").directory)
        calls.clear()
        opened.commit_round(Model(1).make_round("1", 3))
    check_order(calls, path / "state.sqlite")
    kinds = [call for call, _ in calls]
    assert kinds.index("commit") > kinds.index("name")
    assert [call for call in calls if call[0] == "fsync"][-1] == ("fsync", tmp_path / "s.generation")
    assert kinds.count("fsync") == 3  # SQLite itself makes five more fsyncs, which are not recorded
    calls.clear()
    counts = sh.Counts(pl.DataFrame({"k": ["a"], "count": [900]}), largest=1)
    series = sh.create(tmp_path / "t", counts, name="t", key="k", max_keys=1, domain=sh.Strings(max_bytes=4))
    with open_state(tmp_path / "t") as opened:
        check_order(calls, opened.series("t").directory)
    calls.clear()
    series.release("r", level=1).write_parquet(out / "r.parquet")
    names = [place.name for call, place in calls if call == "name" and place.name != "state.digest"]
    assert names[0].startswith("round-")
    assert names[1:] == ["sparsehist-ledger.json", "r.parquet"]
    assert calls.index(("fsync", tmp_path / "t.generation")) < calls.index(("name", out / "sparsehist-ledger.json"))
    check_order(calls, out / "r.parquet")


def test_a_backup_is_on_the_disk_and_is_no_second_store(tmp_path, calls):
    """A backup is synchronised before its rename, and cannot be adopted while the original exists."""
    path, copy = make_store(tmp_path / "s"), tmp_path / "copy"
    calls.clear()
    backup(path, copy)
    synchronised = {place.name for call, place in calls[: calls.index(("name", copy))] if call == "fsync"}
    assert {place.name for place in copy.rglob("*")} <= synchronised
    with pytest.raises(StoreRolledBackError, match="still exists"):
        adopt(copy, home_is_gone=True)


def test_a_public_ledger_lists_one_release_per_generation(tmp_path):
    """A public ledger lists each release once, and refuses a different release or digest for the same generation."""
    entry = {"store": "s", "generation": 1, "round": "a", "digest": "0"}
    publish(tmp_path, entry)
    publish(tmp_path, entry)
    for other in ({"round": "b"}, {"digest": "1"}):
        with pytest.raises(StoreRolledBackError):
            publish(tmp_path, entry | other)
    assert listed_in_ledger(tmp_path, "s")["releases"] == [{"generation": 1, "round": "a", "digest": "0"}]


@pytest.mark.parametrize("forgotten", ["directory", "content", "order"])
def test_a_forgotten_synchronisation_is_seen(tmp_path, calls, forgotten):
    """Negative control: the check of the order of writes fails if a synchronisation is missing or late."""
    path = make_store(tmp_path / "s")
    calls.clear()
    with open_state(path) as opened:
        opened.commit_round(Model(1).make_round("1", 3))
        directory = opened.series("queries").directory
    if forgotten == "directory":
        left = [call for call in calls if call != ("fsync", directory)]
    elif forgotten == "content":
        left = [call for call in calls if not (call[0] == "fsync" and "round-" in call[1].name)]
    else:
        at = calls.index(("fsync", directory))
        left = [*calls[:at], *calls[at + 1 :], calls[at]]
    with pytest.raises(AssertionError, match="synchronised"):
        check_order(left, path / "state.sqlite")


def test_a_commit_whose_mark_fails_is_an_error_until_the_mark_is_raised(tmp_path, monkeypatch):
    """If the generation file cannot be updated after a commit, the release and later openings of the store fail."""
    path = make_store(tmp_path / "s")

    def refuse(*_):
        raise StoreError("the disk is full")

    with monkeypatch.context() as patch:
        with open_state(path) as opened:
            model = Model(1)
            patch.setattr(state, "raise_mark", refuse)
            with pytest.raises(StoreError, match="full"):
                opened.commit_round(model.make_round("1", 3))
        with pytest.raises(StoreError, match="full"), open_state(path):
            pass
    with open_state(path) as opened:
        model.check(opened)
        assert opened.generation == 2 == read_mark(path, opened.store_id).generation


@pytest.mark.parametrize("damage", ["missing", "cut"])
def test_a_path_is_not_opened_without_its_attachment(tmp_path, damage):
    """If a file of a new noise path is missing or truncated, the first commit to the path fails without effect."""
    path = make_store(tmp_path / "s")
    with open_state(path) as opened:
        record = opened.series("queries")
        file = opened.write_attachment(record, ".npz", b"matrix")
        place = record.directory / file.name
        place.unlink() if damage == "missing" else place.write_bytes(b"mat")
        new = PathRecord(record.series_id, "workload", "total", "identity")
        with pytest.raises(StoreDamagedError, match="path-"):
            opened.commit_round(NewRound(new, "total", 1, {}, {}, np.zeros(2), attachments=[file]))
        assert opened.generation == 1 and len(opened.paths(record)) == 1


@pytest.mark.parametrize("mode", [0o720, 0o702])
def test_a_store_that_others_can_write_to_is_refused(tmp_path, mode):
    """A store is refused if its group or other users can write to its directory."""
    path = make_store(tmp_path / "s")
    path.chmod(mode)
    with pytest.raises(StoreError, match="other users can write"), open_state(path):
        pass


def test_a_directory_in_which_any_user_can_replace_the_store_is_warned_of(tmp_path):
    """Opening a store warns if any user can write to its parent directory, unless the sticky bit is set."""
    path = make_store(tmp_path / "s")
    tmp_path.chmod(0o777)
    with pytest.warns(UserWarning, match="any user can replace the store"), open_state(path):
        pass
    tmp_path.chmod(0o1777)
    with open_state(path):  # no warning, because the tests turn warnings into errors
        pass
