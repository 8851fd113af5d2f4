from __future__ import annotations

import errno
import inspect
import os
import stat
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest

from sparsehist.errors import StoreDamagedError, StoreError
from sparsehist.store import open_state, write_file
from sparsehist.store.database import Database
from sparsehist.store.private_files import private_umask
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
    """Whatever the umask, every directory has mode 0700 and every file 0600, the log of an open state included."""
    before = os.umask(0)
    try:
        path = make_store(tmp_path / "s")
        with open_state(path) as state:
            model = Model(state.series("queries").path_id)
            state.commit_round(model.make_round("1", 5, 1))
            during = {place.name: stat.S_IMODE(place.stat().st_mode) for place in files_under(path)}
            state._database.rows("state_read_events")
        after = {place.name: stat.S_IMODE(place.stat().st_mode) for place in files_under(path)}
    finally:
        assert os.umask(before) == 0
    assert during["state.duckdb.wal"] == 0o600
    for modes in (during, after):
        directories = {"s", "series", "tmp", next(name for name in modes if name.startswith("00"))}
        assert {name: mode for name, mode in modes.items() if mode != 0o600} == dict.fromkeys(directories, 0o700)
    assert stat.S_IMODE((tmp_path / "s.generation").stat().st_mode) == 0o600


def test_umask_is_given_back_by_the_last(tmp_path):
    """Nested uses of the private umask leave the caller's."""
    before = os.umask(0o022)
    try:
        with private_umask():
            with private_umask():
                (tmp_path / "a").touch()
            (tmp_path / "b").touch()
        (tmp_path / "c").touch()
    finally:
        assert os.umask(before) == 0o022
    assert [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in "abc"] == [0o600, 0o600, 0o644]


@pytest.mark.parametrize("instant", range(1, 40))
def test_umask_survives_an_interrupt(tmp_path, instant):
    """Whichever call of the private umask is interrupted, the caller's comes back, and the next files are private."""
    calls = 0

    def trace(frame, event, _):
        nonlocal calls
        if event == "call" and not frame.f_code.co_flags & inspect.CO_GENERATOR:
            calls += 1
            if calls == instant:
                sys.settrace(None)
                raise KeyboardInterrupt

    before = os.umask(0o022)
    try:
        sys.settrace(trace)
        try:
            with private_umask():
                os.open(tmp_path / "a", os.O_CREAT | os.O_WRONLY)
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(None)
        assert os.umask(0) == 0o022
        with private_umask():
            (tmp_path / "b").touch()
        assert os.umask(0o022) == 0
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "b").stat().st_mode) == 0o600
    assert calls < 40


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
    """When the file of a round or the log of the state has no room, the error says so and nothing is released."""
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


@pytest.mark.parametrize(("code", "kind"), [(errno.ENOSPC, StoreError), (errno.EIO, StoreDamagedError)])
def test_a_state_without_room_is_not_called_damaged(tmp_path, monkeypatch, code, kind):
    """An engine that finds the disk full while it opens a state says so in its text alone, which does not get out."""

    def refuse():
        raise duckdb.IOException(f'Could not write file "planted": {os.strerror(code)}')

    database = Database(tmp_path / "state.duckdb", durable=False)
    monkeypatch.setattr(database, "_owned", refuse)
    with pytest.raises(StoreError) as caught:
        database.rows("state_read_events")
    assert type(caught.value) is kind and "planted" not in str(caught.value)
    database.close()
