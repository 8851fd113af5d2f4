from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from sparsehist.errors import (
    NameTakenError,
    NotFoundError,
    StoreDamagedError,
    StoreError,
    StoreRolledBackError,
    StoreVersionError,
)
from sparsehist.store import (
    adopt,
    backup,
    create_store,
    ensure_store,
    layout,
    lifecycle,
    open_state,
    publish,
)
from sparsehist.store.witnesses import Mark, raise_mark, read_mark
from tests.store.example import Model, make_store


def release(path, level="1"):
    """Commit one more round and return its generation."""
    with open_state(path) as state:
        model = Model(state.series("queries").path_id)
        known = state.releases(model.path_id)
        model.names = [f"earlier_{at}" for at in range(len(known))]
        model.position = [0] * len(state.tracked(model.path_id).position)
        model.noise = {release.level: [] for release in known}
        return state.commit_round(model.make_round(level, 2))


def published(state, generation):
    """An entry of a public ledger."""
    said = {"series": "queries", "release": "r", "level": "1", "noise": "gaussian", "threshold": 3.0, "digest": "00"}
    return {"store": state.store_id, "generation": generation, "round": f"round {generation}", **said}


def test_only_a_store_is_opened(tmp_path):
    """Nothing, a file, an empty and a foreign directory are no stores."""
    (tmp_path / "file").write_text("x")
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "series").mkdir()
    for name in ("nothing", "file", "foreign", "file/below"):
        with pytest.raises(NotFoundError, match="no store"), open_state(tmp_path / name):
            pass
    assert sorted(place.name for place in (tmp_path / "foreign").iterdir()) == ["series"]


def test_a_store_is_made_only_where_nothing_is(tmp_path):
    """A store, a file or a full directory in the place is left alone; an empty directory is taken."""
    path = make_store(tmp_path / "s")
    (tmp_path / "file").write_text("x")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").write_text("x")
    (tmp_path / "empty").mkdir()
    for name in ("s", "file", "full"):
        with pytest.raises(NameTakenError, match="exists already"):
            create_store(tmp_path / name)
    for name in ("no/s", "file/s"):
        with pytest.raises(NotFoundError, match="make it first"):
            create_store(tmp_path / name)
    with pytest.raises(StoreError, match="cannot be read or written"):
        create_store(Path("/proc/s"))
    create_store(tmp_path / "empty")
    with open_state(tmp_path / "empty") as state:
        assert state.generation == 0 and state.all_series() == []
    with open_state(path) as state:
        assert state.generation == 1
    assert sorted(place.name for place in tmp_path.iterdir()) == ["empty", "file", "full", "s", "s.generation"]


def test_of_two_runs_that_make_a_store_one_makes_it(tmp_path, monkeypatch):
    """Whoever comes second, at whatever moment, takes what the first one made; something else is in the way."""
    assert ensure_store(tmp_path / "s") and not ensure_store(tmp_path / "s")
    made = lifecycle.create_store

    def overtaken(path):
        made(path)
        made(path)

    monkeypatch.setattr(lifecycle, "create_store", overtaken)
    assert not ensure_store(tmp_path / "another")
    (tmp_path / "file").touch()
    with pytest.raises(NameTakenError):
        ensure_store(tmp_path / "file")


@pytest.mark.parametrize("version", [2, "x"])
def test_another_version_is_refused(tmp_path, version):
    """A store of another format is refused with the remedy, and not touched."""
    path = make_store(tmp_path / "s")
    (path / "format").write_text(json.dumps({"sparsehist store": version}))
    with pytest.raises(StoreVersionError, match="upgrade"), open_state(path):
        pass


@pytest.mark.parametrize("name", ["format", "state.sqlite", "series"])
@pytest.mark.parametrize("damage", ["missing", "truncated", "garbage"])
def test_damage_to_the_directory_is_named(tmp_path, name, damage):
    """A missing, truncated or overwritten part is refused by name, and no new state is made in its place."""
    path = make_store(tmp_path / "s")
    place = path / name
    if place.is_dir():
        shutil.rmtree(place)
    elif damage == "missing":
        place.unlink()
    elif damage == "truncated":
        place.write_bytes(place.read_bytes()[: place.stat().st_size // 3])
    else:
        place.write_bytes(b"garbage" * 3000)
    with pytest.raises(StoreDamagedError, match=name) as caught, open_state(path):
        pass
    assert caught.value.__cause__ is None and "garbage" not in str(caught.value)


def test_damage_to_a_round_is_named(tmp_path):
    """A round file that is missing, truncated or altered in any block is refused where it is read."""
    path = make_store(tmp_path / "s")
    with open_state(path) as state:
        model = Model(state.series("queries").path_id)
        state.commit_round(model.make_round("1", 20, 5))
        state.commit_round(model.make_round("2", 10))
        directory = state.series("queries").directory
    file = min(directory.glob("round-2-*"))
    whole = file.read_bytes()
    for at in [*range(0, 130, 10), *range(130, len(whole), 97), len(whole) - 1]:
        file.write_bytes(whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :])
        with open_state(path) as state, pytest.raises(StoreDamagedError, match="round-2"):
            model.check(state)
    file.write_bytes(whole[:-1])
    with open_state(path) as state, pytest.raises(StoreDamagedError, match="round-2"):
        state.verify()
    file.unlink()
    with open_state(path) as state, pytest.raises(StoreDamagedError, match="missing"):
        state.tracked(model.path_id)


@pytest.mark.parametrize("change", ["threshold = threshold - 1", "level = '7'", "spends = 0", "name = 'other'"])
def test_a_round_whose_row_was_altered_is_refused(tmp_path, change):
    """A round file is compared with its row, also where the digest of the state is gone."""
    path = make_store(tmp_path / "s")
    with open_state(path) as state:
        model = Model(state.series("queries").path_id)
        state.commit_round(model.make_round("2", 20, 5))
    with sqlite3.connect(path / "state.sqlite") as connection:
        connection.execute(f"update release set {change} where generation = (select max(generation) from release)")
    connection.close()
    (path / "state.digest").unlink()
    with open_state(path) as state, pytest.raises(StoreDamagedError, match="round-"):
        model.check(state)


def test_leftovers_of_dead_runs_stay_until_a_check_finds_the_store_whole(tmp_path):
    """What the state does not know is not deleted by opening, and by a check only if nothing is damaged."""
    path = make_store(tmp_path / "s")
    release(path)
    with open_state(path) as state:
        directory = state.series("queries").directory
    before = sorted(place.name for place in directory.iterdir())
    leftovers = [directory / "round-9-0.new", directory / "round-9-0", path / "series" / "dead" / "counts"]
    leftovers[-1].parent.mkdir()
    for file in leftovers:
        file.write_text("x")
    (path / "tmp" / "spill").mkdir()
    (path / "tmp" / "spill" / "rows").write_text("x")
    index = (directory / "index").read_bytes()
    (directory / "index").write_bytes(index[:-1] + b"?")
    with open_state(path) as state, pytest.raises(StoreDamagedError, match="index"):
        state.verify()
    assert all(file.exists() for file in leftovers) and list((path / "tmp").iterdir()) == []
    (directory / "index").write_bytes(index)
    with open_state(path) as state:
        state.verify()
    assert sorted(place.name for place in directory.iterdir()) == before
    assert [place.name for place in (path / "series").iterdir()] == [directory.name]


def test_a_mark_that_cannot_be_read_is_not_guessed_around(tmp_path):
    """A damaged mark is an error; the marks of a store removed from the place stay beside those of the next."""
    path = make_store(tmp_path / "s")
    mark = tmp_path / "s.generation"
    first = mark.read_bytes()
    shutil.rmtree(path)
    make_store(path)
    whole = mark.read_bytes()
    assert whole.startswith(first) and len(whole) > len(first)
    for damaged in (b"{}\n", whole.replace(b" 1 ", b" 0 "), whole[:40] + b"\n" + whole[40:], b"\xff" + whole[1:]):
        mark.write_bytes(damaged)
        with pytest.raises(StoreDamagedError, match="generation"), open_state(path):
            pass


def test_a_mark_that_a_power_cut_left_unfinished_is_written_anew(tmp_path):
    """An unfinished line was not relied upon: the next opening writes its mark; many lines become one."""
    path = make_store(tmp_path / "s")
    mark, store_id = tmp_path / "s.generation", json.loads((path / "format").read_text())["store_id"]
    for generation, cut in ((2, 1), (3, 5), (4, 30)):
        assert release(path, str(generation)) == generation
        mark.write_bytes(mark.read_bytes()[:-cut])
        with open_state(path):
            pass
        assert read_mark(path, store_id).generation == generation
    sizes = []
    for generation in range(5, 90):
        raise_mark(path, store_id, Mark(generation, "1:2"))
        sizes.append(mark.stat().st_size)
        assert read_mark(path, store_id) == (generation, "1:2")
    assert max(sizes) < 5000 and sizes != sorted(sizes)
    raise_mark(path, store_id, Mark(89, "3:4"))
    assert read_mark(path, store_id) == (89, "1:2")


@pytest.mark.parametrize("dies_in", ["raise_mark", "insert_event", "raise_published_generation"])
def test_an_adoption_that_died_is_finished_by_the_next(tmp_path, monkeypatch, dies_in):
    """Killed anywhere in it, an adoption shuts out other copies, and the next try finishes it."""
    path, copy, other, out = make_store(tmp_path / "s"), tmp_path / "copy", tmp_path / "other", tmp_path / "out"
    out.mkdir()
    with open_state(path) as state:
        state.record_publication(out)
        publish(out, published(state, 1))
    shutil.copytree(path, other)
    path.rename(copy)
    shutil.copytree(copy, path)
    shutil.rmtree(copy)
    path.rename(copy)

    def dies(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):  # noqa: PT012
        patch.setattr(lifecycle, dies_in, dies)
        adopt(copy, home_is_gone=True)
    adopt(copy, home_is_gone=True)
    with open_state(copy) as state:
        assert state.generation >= 2
        state.verify()
    with pytest.raises(StoreRolledBackError, match="shows that"):
        adopt(other, home_is_gone=True)
    assert release(copy) >= 3


def test_of_two_copies_adopted_at_one_generation_one_goes_on(tmp_path, monkeypatch):
    """An adoption that died before its mark is overtaken by another one, whose mark has the same generation."""
    path, copy, other = make_store(tmp_path / "s"), tmp_path / "copy", tmp_path / "other"
    for place in (copy, other):
        shutil.copytree(path, place)
    shutil.rmtree(path)

    def dies(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):  # noqa: PT012
        patch.setattr(lifecycle, "raise_mark", dies)
        adopt(copy, home_is_gone=True)
    adopt(other, home_is_gone=True)
    with pytest.raises(StoreRolledBackError, match="shows that"), open_state(copy):
        pass
    assert release(other) == 3


def test_a_backup_is_private_and_replaces_nothing(tmp_path):
    """Its files are for the owner alone, and a place that is taken is refused."""
    path, kept = make_store(tmp_path / "s"), tmp_path / "kept"
    backup(path, kept)
    with pytest.raises(NameTakenError):
        backup(path, kept)
    assert not [place for place in kept.rglob("*") if place.stat().st_mode & 0o077]


def test_the_remains_of_a_killed_backup_are_removed_by_the_next_one(tmp_path):
    """A run that dies while it copies leaves half a store at another place, with its secrets; a living one stays."""
    path = make_store(tmp_path / "s")
    (tmp_path / "disk").mkdir()
    script = (
        "import os, sys, pathlib; from sparsehist.store import backup, lifecycle\n"
        "copy = lifecycle._copy_durably\n"
        "lifecycle._copy_durably = lambda source, target: (copy(source, target), os.kill(os.getpid(), 9))\n"
        "backup(*map(pathlib.Path, sys.argv[1:]))"
    )
    killed = subprocess.run(
        [sys.executable, "-c", script, path, tmp_path / "disk" / "copy"], check=False, timeout=120
    )
    assert killed.returncode == -9
    (left,) = (tmp_path / "disk").iterdir()
    assert any(file.stat().st_size for file in left.rglob("*") if file.is_file())
    living = tmp_path / "disk" / ".copy.living.new"
    with layout.locked_directory(living):
        backup(path, tmp_path / "disk" / "copy")
        assert sorted((tmp_path / "disk").iterdir()) == [living, tmp_path / "disk" / "copy"]
