from __future__ import annotations

import errno
import os
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from sparsehist.errors import StoreDamagedError, StoreError, StoreInUseError
from sparsehist.store import open_state, write_file
from sparsehist.store.database import Database
from sparsehist.store.private_files import check_file
from tests.store.example import Model, make_store

FULL_DISK = """
import resource, signal, sys
from dataclasses import replace
from pathlib import Path
from sparsehist.errors import StoreError
from sparsehist.store import create_store, open_state
from tests.store.example import Model, add_series
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
path, what = Path(sys.argv[1]), sys.argv[2]
if what == "create":
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[3]), resource.RLIM_INFINITY))
    try:
        create_store(path)
    except StoreError as error:
        print(error)
else:
    with open_state(path) as state:
        model = Model(state.series("queries").path_id)
        new = replace(model.make_round("1", 300, 100), metadata={"padding": "x" * 50_000})
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[3]), resource.RLIM_INFINITY))
        try:
            state.commit_round(new)
        except StoreError as error:
            print(error)
"""


def files_under(path):
    """A directory and everything in it."""
    return [path, *path.rglob("*")]


def test_nothing_in_a_store_can_be_read_by_others(tmp_path):
    """Whatever the umask, every directory has mode 0700 and every file 0600, journals included."""
    before = os.umask(0)
    try:
        path = make_store(tmp_path / "s")
        with open_state(path) as state:
            model = Model(state.series("queries").path_id)
            state.commit_round(model.make_round("1", 5, 1))
            with state._database.transaction():
                state._database.change("update store set home = $home", home="elsewhere")
                during = {place.name: stat.S_IMODE(place.stat().st_mode) for place in files_under(path)}
        after = {place.name: stat.S_IMODE(place.stat().st_mode) for place in files_under(path)}
    finally:
        assert os.umask(before) == 0
    assert during["state.sqlite-journal"] == 0o600
    for modes in (during, after):
        directories = {"s", "series", "tmp", next(name for name in modes if name.startswith("00"))}
        assert {name: mode for name, mode in modes.items() if mode != 0o600} == dict.fromkeys(directories, 0o700)
    assert stat.S_IMODE((tmp_path / "s.generation").stat().st_mode) == 0o600


@pytest.mark.parametrize("call", ["write", "fsync", "replace"])
def test_a_file_that_cannot_be_written_is_not_there(tmp_path, monkeypatch, call):
    """When the system refuses a write, a sync or the rename, the old file stays and nothing lies about."""
    write_file(tmp_path / "f", b"old", durable=True)

    def refuse(*_args, **_named):
        raise OSError(errno.ENOSPC, "planted text")

    monkeypatch.setattr(os, call, refuse)
    with pytest.raises(StoreError, match="disk is full") as caught:
        write_file(tmp_path / "f", b"new", durable=True)
    assert "planted" not in str(caught.value)
    assert "released" not in str(caught.value)  # whoever writes knows what became of the release, the file does not
    assert {place.name: place.read_bytes() for place in tmp_path.iterdir()} == {"f": b"old"}


def run_with_little_room(path, what, limit):
    """Let a process that may not write files beyond a limit make a store or release, and return what it says."""
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(path), what, str(limit)],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[2],
    )
    return done.stdout


@pytest.mark.parametrize("limit", [2000, 30_000])
def test_a_full_disk_leaves_the_store_before_the_round(tmp_path, limit):
    """When the file of a round or the state has no room, the error says so and nothing is released."""
    path = make_store(tmp_path / "s")
    shown = run_with_little_room(path, "release", limit)
    assert "full" in shown and "planted" not in shown and "empty-key" not in shown
    with open_state(path) as state:
        model = Model(state.series("queries").path_id)
        assert state.generation == 1 and state.releases(model.path_id) == []
        state.verify()
        state.commit_round(model.make_round("1", 3))


@pytest.mark.parametrize("limit", [0, 5000, 20_000])
def test_a_full_disk_leaves_no_half_store(tmp_path, limit):
    """When a store has no room, nothing is left of it."""
    shown = run_with_little_room(tmp_path / "s", "create", limit)
    assert "full" in shown and "damaged" not in shown
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("SQLITE_FULL", StoreError),
        ("SQLITE_IOERR_WRITE", StoreError),
        ("SQLITE_CANTOPEN", StoreError),
        ("SQLITE_BUSY", StoreInUseError),
        ("SQLITE_IOERR_READ", StoreDamagedError),
        ("SQLITE_CORRUPT_INDEX", StoreDamagedError),
    ],
)
def test_errors_of_the_engine_are_told_apart_and_say_nothing_of_it(tmp_path, monkeypatch, name, kind):
    """A full disk is not called damage, nor damage a full disk, and the engine's own words do not get out."""

    def refuse():
        error = sqlite3.OperationalError("planted text")
        error.sqlite_errorname = name
        raise error

    database = Database(tmp_path, durable=False, create=True)
    monkeypatch.setattr(database, "_owned", refuse)
    with pytest.raises(StoreError) as caught:
        database.rows("read_events")
    assert type(caught.value) is kind and "planted" not in str(caught.value)
    assert caught.value.__context__ is None
    database.close()


def test_another_program_that_holds_the_state_is_told_of(tmp_path):
    """A browser of databases left open within a transaction: no round is lost, the next one is made."""
    path = make_store(tmp_path / "s")
    with open_state(path) as state, closing(sqlite3.connect(path / "state.sqlite", isolation_level=None)) as other:
        model = Model(state.series("queries").path_id)
        new = model.make_round("1", 3)
        other.execute("begin exclusive")
        with pytest.raises(StoreInUseError, match="another program"):
            state.commit_round(new)
        other.execute("rollback")
        state.commit_round(new)
        model.check(state)


def test_settings_of_the_state_are_in_force(tmp_path):
    """Each pragma took: one that is misspelt or refused is passed over by SQLite without a word."""
    wanted = {"synchronous": 3, "secure_delete": 1, "temp_store": 2, "trusted_schema": 0, "cell_size_check": 1}
    database = Database(tmp_path, durable=True, create=True)
    found = {name: database._connection.execute(f"pragma {name}").fetchone()[0] for name in wanted}
    assert found == wanted
    assert database._connection.execute("pragma journal_mode").fetchone() == ("delete",)
    database.close()


def test_a_file_that_was_cut_is_named_without_its_length(tmp_path):
    """Sizes tell how many keys and units there are: neither the true one nor what is left of it is said."""
    written = write_file(tmp_path / "counts", bytes(4321), durable=False)
    (tmp_path / "counts").write_bytes(bytes(1234))
    with pytest.raises(StoreDamagedError, match="not as long as it was written; restore") as told:
        check_file(tmp_path, written)
    said = str(told.value).removeprefix(str(tmp_path))
    assert not any(digit.isdigit() for digit in said)
