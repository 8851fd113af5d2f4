from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from fractions import Fraction

import pytest

from sparsehist.errors import (
    NameTakenError,
    NotFoundError,
    StoreDamagedError,
    StoreError,
    StoreRolledBackError,
)
from sparsehist.store import adopt, create_store, open_state
from sparsehist.store import state as state_module
from sparsehist.store.layout import SPILL
from sparsehist.store.witnesses import Mark, raise_mark, read_mark
from tests.store.example import Model, make_store


def release(path):
    """Commit one more round to a store and return the store's new generation."""
    with open_state(path) as state:
        known = state.releases(state.series("queries"))
        model = Model(1, noise={Fraction(1): []} if known else {}, names=[""] * len(known))
        return state.commit_round(model.make_round("1", 0))


def flip(file, at):
    """Flip one bit of a file."""
    content = bytearray(file.read_bytes())
    content[at] ^= 4
    file.write_bytes(content)


def die(*_, **__):
    """Raise KeyboardInterrupt to simulate the end of the process."""
    raise KeyboardInterrupt


@pytest.fixture
def path(tmp_path):
    """Create a store with one series, and return its path."""
    return make_store(tmp_path / "s")


def test_a_store_is_made_only_where_nothing_is(tmp_path, path):
    """A store is created only at an unused path or in an empty directory; existing files stay unchanged."""
    (tmp_path / "file").write_text("x")
    (tmp_path / "full" / "x").mkdir(parents=True)
    (tmp_path / "empty").mkdir()
    for name in ("s", "file", "full"):
        with pytest.raises(NameTakenError, match="exists already"):
            create_store(tmp_path / name)
    with pytest.raises(NotFoundError, match="create it first"):
        create_store(tmp_path / "no" / "s")
    with pytest.raises(NotFoundError, match="no store"), open_state(tmp_path / "no"):
        pass
    create_store(tmp_path / "empty")
    with open_state(path) as state:
        assert state.generation == 1
    assert sorted(place.name for place in tmp_path.iterdir()) == ["empty", "file", "full", "s", "s.generation"]


def test_another_version_is_refused(path):
    """A store of another format version is refused, and the error recommends a remedy."""
    (path / "format").write_text(json.dumps({"sparsehist store": 2}))
    with pytest.raises(StoreError, match="upgrade"), open_state(path):
        pass


@pytest.mark.parametrize("name", ["format", "state.sqlite", "series"])
@pytest.mark.parametrize("damage", ["missing", "truncated", "garbage"])
def test_damage_to_the_directory_is_named(path, name, damage):
    """An error names the missing, truncated or overwritten part of a store, and the part is not recreated."""
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


def test_damage_to_a_round_is_named(path):
    """Reading a round file that is missing, truncated or altered raises an error that names the file."""
    with open_state(path) as state:
        model = Model(1)
        state.commit_round(model.make_round("1", 20, 5))
        state.commit_round(model.make_round("2", 10))
        (file,) = state.series("queries").directory.glob("round-2-*")
    whole = file.read_bytes()
    for at in [*range(0, 130, 10), *range(130, len(whole), 97), len(whole) - 1]:
        flip(file, at)
        with open_state(path) as state, pytest.raises(StoreDamagedError, match="round-2"):
            model.check(state)
        file.write_bytes(whole)
    file.write_bytes(whole[:-1])
    with open_state(path) as state, pytest.raises(StoreDamagedError, match="round-2"):
        state.verify()
    file.unlink()
    with open_state(path) as state, pytest.raises(StoreDamagedError, match="missing"):
        state.tracked(1)


@pytest.mark.parametrize(
    "change",
    [
        "update release set threshold = threshold - 1",
        "update release set level = '7'",
        "update release set spends = 0",
        "update release set name = name || 'x'",
        "update release set spends = 0 where name = 'release_1'",
        "update release set level = '1/100' where name = 'release_1'",
        "update release set n_new = n_new - 1, n_past = n_past + 1 where name = 'release_0'",
        "update release set n_past = n_past - 1 where name = 'release_1'",
        "create trigger planted after insert on release begin delete from release; end",
        "create view planted as select 1 as one",
    ],
)
def test_an_altered_state_is_refused(path, change):
    """A store with an altered release, an added trigger or an added view is refused, even without a digest file."""
    with open_state(path) as state:
        model = Model(1)
        state.commit_round(model.make_round("2", 20, 5))
        state.commit_round(model.make_round("3", 0))
    with closing(sqlite3.connect(path / "state.sqlite", isolation_level=None)) as connection:
        connection.execute(change)
    (path / "state.digest").unlink()
    with pytest.raises(StoreDamagedError, match=r"round-|altered"), open_state(path) as state:
        model.check(state)


def test_leftovers_of_dead_runs_are_erased_by_the_next_opening(path):
    """Opening a store deletes exactly those files and directories that its state does not list."""
    with open_state(path) as state:
        directory = state.series("queries").directory
    before = sorted(place.name for place in directory.iterdir())
    unlisted = [directory / "round-9-0.new", directory / "round-9-0", directory.parent / "dead" / "counts"]
    for file in (*unlisted, path / SPILL / "dead" / "rows"):
        file.parent.mkdir(exist_ok=True)
        file.write_text("x")
    with open_state(path) as state:
        assert not list((path / "tmp").iterdir())
        state.verify()
    assert sorted(place.name for place in directory.iterdir()) == before
    assert [place.name for place in (path / "series").iterdir()] == [directory.name]


@pytest.mark.parametrize("part", ["index", "counts"])
def test_a_check_notices_a_flipped_bit_of_any_file(path, part):
    """`verify` detects a flipped bit in any file, because it compares every file with its digest."""
    with open_state(path) as state:
        flip(state.series("queries").directory / part, -1)
        with pytest.raises(StoreDamagedError, match=part):
            state.verify()


def test_a_damaged_mark_is_an_error(tmp_path, path):
    """A store with a damaged generation file is refused.

    If a store is removed and a new one is created at its path, the generation file keeps the lines of the old store.
    """
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


def test_a_mark_that_a_power_cut_left_unfinished_is_written_anew(tmp_path, path):
    """Opening a store completes the last line of its generation file if a power cut truncated the line.

    A generation file that has grown to many lines is reduced to one line.
    """
    mark, store_id = tmp_path / "s.generation", json.loads((path / "format").read_text())["store_id"]
    for generation, cut in ((2, 1), (3, 5), (4, 30)):
        assert release(path) == generation
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


def test_of_two_copies_adopted_at_one_generation_one_goes_on(tmp_path, path, monkeypatch):
    """If the adoption of a copy is interrupted, a second copy can be adopted. The first one is then refused."""
    copy, other = tmp_path / "copy", tmp_path / "other"
    for place in (copy, other):
        shutil.copytree(path, place)
    shutil.rmtree(path)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):  # noqa: PT012
        patch.setattr(state_module, "raise_mark", die)
        adopt(copy, home_is_gone=True)
    adopt(other, home_is_gone=True)
    with pytest.raises(StoreRolledBackError, match="must be at least 3"), open_state(copy):
        pass
    assert release(other) == 3
