from __future__ import annotations

import os
import resource
import stat
from dataclasses import replace

import pytest

from sparsehist.errors import StoreDamagedError, StoreError
from sparsehist.store import open_state, write_file
from sparsehist.store.database import Database
from sparsehist.store.private_files import check_file
from tests.store.example import Model, make_store


def modes(path):
    """Return the file modes of a directory and of everything in it."""
    return {place.name: stat.S_IMODE(place.stat().st_mode) for place in [path, *path.rglob("*")]}


def test_nothing_in_a_store_can_be_read_by_others(tmp_path):
    """Whatever the umask, a store's directories have mode 0700, and its files, including journals, mode 0600."""
    before = os.umask(0)
    try:
        path = make_store(tmp_path / "s")
        with open_state(path) as state:
            model = Model(state.series("queries").path_id)
            state.commit_round(model.make_round("1", 5, 1))
            with state._database.transaction():
                state._database.run("update store set home = $home", home="elsewhere")
                during = modes(path)
    finally:
        assert os.umask(before) == 0
    assert during["state.sqlite-journal"] == 0o600
    for found in (during, modes(path)):
        directories = {"s", "series", "tmp", next(name for name in found if name.startswith("00"))}
        assert {name: mode for name, mode in found.items() if mode != 0o600} == dict.fromkeys(directories, 0o700)
    assert stat.S_IMODE((tmp_path / "s.generation").stat().st_mode) == 0o600


@pytest.mark.parametrize("limit", [2000, 30_000])
def test_a_full_disk_leaves_the_store_before_the_round(tmp_path, limit):
    """If the disk is too full to write a round, the error says so and nothing is released."""
    path = make_store(tmp_path / "s")
    with open_state(path) as state:
        new = replace(Model(1).make_round("1", 300, 100), metadata={"padding": "x" * 50_000})
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
        try:
            with pytest.raises(StoreError, match="full") as caught:
                state.commit_round(new)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert "planted" not in str(caught.value) and "empty-key" not in str(caught.value)
    with open_state(path) as state:
        assert state.generation == 1 and state.releases(state.series("queries")) == []
        state.verify()
        state.commit_round(Model(1).make_round("1", 3))


def test_settings_of_the_state_are_in_force(tmp_path):
    """All SQLite pragmas of a store's database have taken effect; SQLite silently ignores a misspelt pragma."""
    wanted = {"synchronous": 3, "secure_delete": 1, "temp_store": 2, "trusted_schema": 0, "cell_size_check": 1}
    wanted["journal_mode"] = "delete"
    database = Database(tmp_path, durable=True, create=True)
    assert {name: database.run(f"pragma {name}")[0][0] for name in wanted} == wanted
    database.close()


def test_a_truncated_file_is_named_without_its_length(tmp_path):
    """An error about a truncated file omits the length, which would reveal the number of keys or units."""
    written = write_file(tmp_path / "counts", bytes(4321), durable=False)
    (tmp_path / "counts").write_bytes(bytes(1234))
    with pytest.raises(StoreDamagedError, match="its size has changed; restore") as caught:
        check_file(tmp_path, written)
    assert not any(digit.isdigit() for digit in str(caught.value).removeprefix(str(tmp_path)))
