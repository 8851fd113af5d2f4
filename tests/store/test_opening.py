from __future__ import annotations

import ctypes
import errno
import fcntl
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

import sparsehist as sh
from sparsehist.errors import (
    NameTakenError,
    NotFoundError,
    StoreDamagedError,
    StoreError,
    StoreInUseError,
    StoreRolledBackError,
    StoreVersionError,
)
from sparsehist.ledger.public_ledger import publish
from sparsehist.store import (
    adopt,
    backup,
    create_store,
    ensure_store,
    layout,
    lifecycle,
    migrate,
    open_state,
    opening,
)
from tests.store.example import Model, add_series, make_store


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


def put_back(path, kept):
    """Restore the content of a directory without replacing it: its inode stays."""
    for place in list(path.iterdir()):
        shutil.rmtree(place) if place.is_dir() else place.unlink()
    shutil.copytree(kept, path, dirs_exist_ok=True)


def test_only_a_store_is_opened(tmp_path):
    """Nothing, a file, an empty and a foreign directory are no stores."""
    (tmp_path / "file").write_text("x")
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "series").mkdir()
    for name in ("nothing", "file", "foreign", "file/below"):
        with pytest.raises(NotFoundError, match="no store"), open_state(tmp_path / name):
            pass
    assert sorted(place.name for place in (tmp_path / "foreign").iterdir()) == ["series"]


def test_a_place_that_may_not_be_looked_at_is_no_internal_error(tmp_path, monkeypatch):
    """The directory of another user is told by its name and the remedy."""

    def refuse(_):
        raise PermissionError(errno.EACCES, "engine text")

    monkeypatch.setattr(Path, "is_file", refuse)
    told = r"theirs: it cannot be read or written; check .* its owner"
    with pytest.raises(StoreError, match=told), open_state(tmp_path / "theirs"):
        pass


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

    def overtaken(path, *, anchor=None):
        made(path, anchor=anchor)
        made(path, anchor=anchor)

    monkeypatch.setattr(lifecycle, "create_store", overtaken)
    assert not ensure_store(tmp_path / "another")
    (tmp_path / "file").touch()
    with pytest.raises(NameTakenError):
        ensure_store(tmp_path / "file")


@pytest.mark.parametrize(("version", "remedy"), [(2, "upgrade"), (0, "upgrade"), ("x", "upgrade")])
def test_another_version_is_refused(tmp_path, version, remedy):
    """A store of another format is refused with the remedy, and not touched."""
    path = make_store(tmp_path / "s")
    (path / "format").write_text(json.dumps({"sparsehist store": version}))
    with pytest.raises(StoreVersionError, match=remedy), open_state(path):
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
    file = min(directory.glob("round-1-2-*"))
    whole = file.read_bytes()
    for at in [*range(0, 130, 10), *range(130, len(whole), 97), len(whole) - 1]:
        file.write_bytes(whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :])
        with open_state(path) as state, pytest.raises(StoreDamagedError, match="round-1-2"):
            model.check(state)
    file.write_bytes(whole[:-1])
    with open_state(path) as state, pytest.raises(StoreDamagedError, match="round-1-2"):
        state.verify()
    file.unlink()
    with open_state(path) as state, pytest.raises(StoreDamagedError, match="missing"):
        state.tracked(model.path_id)


def test_leftovers_of_dead_runs_are_removed(tmp_path):
    """Files no commit vouches for are gone after the next opening; all others stay."""
    path = make_store(tmp_path / "s")
    release(path)
    with open_state(path) as state:
        directory = state.series("queries").directory
    before = sorted(place.name for place in directory.iterdir())
    (directory / "round-1-9-0.new").write_text("x")
    (directory / "round-1-9-0").write_text("x")
    (path / "series" / "dead").mkdir()
    (path / "series" / "dead" / "counts").write_text("x")
    (path / "tmp" / "spill").write_text("x")
    with open_state(path) as state:
        state.verify()
    assert sorted(place.name for place in directory.iterdir()) == before
    assert [place.name for place in (path / "series").iterdir()] == [directory.name]
    assert list((path / "tmp").iterdir()) == []


def test_a_restored_store_is_refused_by_its_mark(tmp_path):
    """A store put back in place from before a release is refused, until the newest is back and adopted."""
    path = make_store(tmp_path / "s")
    shutil.copytree(path, tmp_path / "older")
    assert release(path) == 2
    shutil.copytree(path, tmp_path / "newest")
    put_back(path, tmp_path / "older")
    with (
        pytest.raises(StoreRolledBackError, match=r"generation 1, but .*s\.generation .*2.*Restore"),
        open_state(path),
    ):
        pass
    put_back(path, tmp_path / "newest")
    with pytest.raises(StoreRolledBackError, match="put back"), open_state(path):
        pass
    adopt(path)
    with open_state(path) as state:
        assert state.generation == 3


def test_a_restored_store_is_refused_by_a_public_ledger(tmp_path):
    """A public ledger is enough to refuse an older store when its mark is lost."""
    path = make_store(tmp_path / "s")
    out = tmp_path / "out"
    out.mkdir()
    with open_state(path) as state:
        state.record_publication(out)
    shutil.copytree(path, tmp_path / "older")
    generation = release(path)
    with open_state(path) as state:
        publish(out, published(state, generation))
    put_back(path, tmp_path / "older")
    (tmp_path / "s.generation").unlink()
    with pytest.raises(StoreRolledBackError, match="sparsehist-ledger"), open_state(path):
        pass
    (out / "sparsehist-ledger.json").unlink()
    with open_state(path):
        pass


def test_a_mark_that_a_dead_run_did_not_raise_is_raised_by_the_next(tmp_path, monkeypatch):
    """A round that was committed but not marked counts as published once the store is opened again."""
    path = make_store(tmp_path / "s")
    shutil.copytree(path, tmp_path / "older")
    with monkeypatch.context() as patch:
        patch.setattr("sparsehist.store.state.raise_mark", lambda *_: None)
        release(path)
    with open_state(path):
        pass
    put_back(path, tmp_path / "older")
    with pytest.raises(StoreRolledBackError), open_state(path):
        pass


def test_a_mark_that_cannot_be_read_is_not_guessed_around(tmp_path):
    """A damaged mark is an error; the marks of a store removed from the place stay beside those of the next."""
    path = make_store(tmp_path / "s")
    mark = tmp_path / "s.generation"
    first = json.loads(mark.read_text())["generations"]
    shutil.rmtree(path)
    make_store(path)
    assert first.items() < json.loads(mark.read_text())["generations"].items()
    mark.write_text("{}")
    with pytest.raises(StoreDamagedError, match="generation"), open_state(path):
        pass


def test_a_copy_is_refused_until_it_is_adopted(tmp_path):
    """A copy is refused while and after the original stands; adopted once that is gone, it shuts out all others."""
    path, copy, other = make_store(tmp_path / "s"), tmp_path / "copy", tmp_path / "other"
    release(path)
    for place in (copy, other):
        shutil.copytree(path, place)
    with pytest.raises(StoreRolledBackError, match=r"copy of .*sparsehist adopt"), open_state(copy):
        pass
    with pytest.raises(StoreRolledBackError, match="still stands"):
        adopt(copy)
    shutil.rmtree(path)
    adopt(copy)
    adopt(copy)
    with open_state(copy) as state:
        assert state.generation == 3
        state.verify()
    assert release(copy, "2") == 4
    with pytest.raises(StoreRolledBackError, match=r"s\.generation"):
        adopt(other)


@pytest.mark.parametrize("dies_in", ["raise_mark", "insert_event", "raise_published_generation"])
@pytest.mark.parametrize("moved", [False, True])
def test_a_change_of_place_that_died_is_finished_by_the_next_opening(tmp_path, monkeypatch, dies_in, moved):
    """Killed anywhere in it, an adoption or a move shuts out other copies, and is done by the next try."""
    path, copy, other, out = make_store(tmp_path / "s"), tmp_path / "copy", tmp_path / "other", tmp_path / "out"
    out.mkdir()
    with open_state(path) as state:
        state.record_publication(out)
        publish(out, published(state, 1))
    shutil.copytree(path, other)
    if moved:
        path.rename(copy)
    else:
        shutil.copytree(path, copy)
        shutil.rmtree(path)

    def take():
        if moved:
            with open_state(copy):
                pass
        else:
            adopt(copy)

    def dies(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):  # noqa: PT012
        patch.setattr(opening, dies_in, dies)
        take()
    take()
    with open_state(copy) as state:
        assert state.generation >= 2
        state.verify()
        assert not (copy / "adopting").exists()
    with pytest.raises(StoreRolledBackError, match="shows that"):
        adopt(other)
    assert release(copy) >= 3


def test_a_moved_store_is_the_same_store(tmp_path):
    """Moving a store needs no adoption, takes its mark along, and shuts out copies made before it."""
    path = make_store(tmp_path / "s")
    release(path)
    shutil.copytree(path, tmp_path / "older")
    moved = path.rename(tmp_path / "moved")
    with open_state(moved) as state:
        assert state.generation == 3
        assert state.events()[-1]["what"] == "move store"
    shutil.copytree(tmp_path / "older", path)
    with pytest.raises(StoreRolledBackError), open_state(path):
        pass
    with pytest.raises(StoreRolledBackError, match="shows that"):
        adopt(path)
    shutil.rmtree(path)
    assert release(moved, "2") == 4
    put_back(moved, tmp_path / "older")
    with pytest.raises(StoreRolledBackError, match=r"moved\.generation"), open_state(moved):
        pass


def test_a_backup_can_take_the_place_of_a_lost_store_only(tmp_path):
    """A backup is whole and private; it is adopted when nothing was released since, and refused otherwise."""
    path, kept = make_store(tmp_path / "s"), tmp_path / "kept"
    release(path)
    backup(path, kept)
    with pytest.raises(NameTakenError):
        backup(path, kept)
    assert not [place for place in kept.rglob("*") if place.stat().st_mode & 0o077]
    with pytest.raises(StoreRolledBackError, match="copy"), open_state(kept):
        pass
    shutil.copytree(kept, tmp_path / "second")
    shutil.rmtree(path)
    adopt(kept)
    with open_state(kept) as state:
        state.verify()
        add_series(state, "another")
    with pytest.raises(StoreRolledBackError):
        adopt(tmp_path / "second")


def test_stores_share_a_public_ledger(tmp_path):
    """Entries of several stores stand side by side; the same round twice is one entry; foreign files are kept."""
    out = tmp_path / "out"
    out.mkdir()
    for name in ("a", "b"):
        with open_state(make_store(tmp_path / name)) as state:
            for generation in (1, 2):
                for _ in range(2):
                    publish(out, published(state, generation))
    ledger = json.loads((out / "sparsehist-ledger.json").read_text())
    assert [len(store["releases"]) for store in ledger["stores"].values()] == [2, 2]
    assert [store["generation"] for store in ledger["stores"].values()] == [2, 2]
    (out / "sparsehist-ledger.json").write_text("[]")
    with open_state(tmp_path / "a") as state, pytest.raises(StoreError, match="move it away"):
        publish(out, published(state, 3))
    assert (out / "sparsehist-ledger.json").read_text() == "[]"


def test_a_state_in_duckdb_is_refused_with_what_to_do(tmp_path):
    """A store made before 0.1 is known for one and refused; nothing in it is touched."""
    path = tmp_path / "s"
    (path / "series").mkdir(parents=True)
    (path / "format").write_text(json.dumps({"sparsehist store": 2, "store_id": "0" * 32}))
    (path / "state.duckdb").write_bytes(b"DUCK")
    before = sorted(place.name for place in path.iterdir())
    for use in (lambda: open_state(path).__enter__(), lambda: adopt(path), lambda: migrate(path)):
        with pytest.raises(StoreVersionError, match="count the log again"):
            use()
    assert sorted(place.name for place in path.iterdir()) == sorted([*before, "lock"])


def test_a_store_of_this_format_has_nothing_to_migrate(tmp_path):
    """Its format is given back; a copy that was not adopted may be asked, and stays a copy."""
    path = make_store(tmp_path / "s")
    assert migrate(path) == 1
    shutil.copytree(path, tmp_path / "copy")
    assert migrate(tmp_path / "copy") == 1
    with pytest.raises(StoreRolledBackError), open_state(tmp_path / "copy"):
        pass


def test_the_remains_of_a_killed_backup_are_removed_by_the_next_opening(tmp_path):
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
    lock = layout.make_locked(living)
    with open_state(path) as state:
        assert state.removed == (left,)
    assert list((tmp_path / "disk").iterdir()) == [living]
    os.close(lock)
    with open_state(path) as state:
        assert state.removed == ()
    backup(path, tmp_path / "disk" / "copy")
    assert list((tmp_path / "disk").iterdir()) == [tmp_path / "disk" / "copy"]


def test_a_store_that_cannot_be_written_is_looked_at_and_never_changed(tmp_path):
    """Not even by root: its right to write wherever it likes is taken from the processes started here."""
    store = tmp_path / "s"
    log = pl.DataFrame({"user": range(900), "url": ["/home"] * 900})
    domain = sh.Strings(max_bytes=8)
    sh.create(store, log, name="q", unit="user", key="url", max_keys=1, domain=domain).release("a", level=1)

    def run(*words):
        def lose_the_right():
            for right in (1, 2):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
                ctypes.CDLL(None).prctl(24, right, 0, 0, 0)  # PR_CAPBSET_DROP

        made = subprocess.run(
            [sys.executable, "-m", "sparsehist", *words], cwd=tmp_path, capture_output=True, text=True, check=False,
            timeout=60, preexec_fn=lose_the_right,
        )  # fmt: skip
        return made.returncode, made.stdout + made.stderr

    def content():
        return {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}

    before = content()
    places = [store, *(place for place in store.rglob("*") if place.is_dir())]
    for place in places:
        place.chmod(0o500)
    try:
        for words in (("show", "s"), ("ledger", "s"), ("release", "s", "--series", "q", "--name", "a")):
            assert run(*words)[0] == 0
        with (store / layout.LOCK).open() as held:
            fcntl.flock(held, fcntl.LOCK_SH)
            assert run("show", "s")[0] == 0
            fcntl.flock(held, fcntl.LOCK_EX)
            assert run("show", "s")[0] == StoreInUseError.exit_code
        finer = run("release", "s", "--series", "q", "--name", "b", "--level", "2")
        budget = run("budget", "s", "--epsilon", "9", "--delta", "1e-6")
        assert (finer[0], budget[0]) == (2, 2) and "cannot be" in finer[1] and "cannot be written" in budget[1]
        (tmp_path / "s.generation").rename(tmp_path / "away")
        assert run("show", "s")[0] == 0 and not (tmp_path / "s.generation").exists()
        (tmp_path / "away").rename(tmp_path / "s.generation")
        assert content() == before
        store.chmod(0o700)
        (store / f"{layout.STATE}-journal").write_bytes(b"")
        store.chmod(0o500)
        assert "a run died in store" in run("show", "s")[1]
    finally:
        for place in places:
            place.chmod(0o700)
    assert run("show", "s")[0] == 0 and not (store / f"{layout.STATE}-journal").exists()


def test_who_waited_for_a_store_to_read_does_not_write_once_it_can_be_written(tmp_path, monkeypatch):
    """The lock that is shared is for reading; one that is asked for when the store can be written is not shared."""
    path = make_store(tmp_path / "s")
    answers = iter([False, False])
    monkeypatch.setattr(layout, "is_writable", lambda store: next(answers, True))
    with open_state(path) as one, open_state(path) as other:
        for state in (one, other):
            with pytest.raises(StoreError, match="cannot be"):
                state.record_copy(tmp_path / "copy")
        with pytest.raises(StoreInUseError), open_state(path):
            pass
    with open_state(path), pytest.raises(StoreInUseError), open_state(path):
        pass
