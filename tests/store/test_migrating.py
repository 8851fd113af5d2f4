"""Stores of every format that was ever released come to this one.

`formats/format-1.tar.xz` holds a store made by the code of format 1 for a user `ann`, and beside it two of its
releases: `visits` (gaussian, cap 2: `first` at 0.5, `second` at 0.1), `whole` (discrete Laplace, population `others`:
1/3 and 1), and `gone` (Poisson at 0.02), dropped.
"""

from __future__ import annotations

import json
import tarfile
from fractions import Fraction
from pathlib import Path

import pytest

import sparsehist as sh
from sparsehist.cli.running import run
from sparsehist.errors import StoreError, StoreRolledBackError, StoreVersionError
from sparsehist.store import adopt, migrate, migrating, open_state
from sparsehist.store.layout import FORMAT_VERSION

OLD = Path(__file__).parent / "formats" / "format-1.tar.xz"


@pytest.fixture
def old(tmp_path):
    """A store of format 1, put back from a backup as its owner would."""
    with tarfile.open(OLD) as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path / "logs.sparsehist"


def test_an_old_store_is_migrated_then_adopted_then_used(old, capsys):
    """A user follows the errors: migrate, then adopt, and every release is the one it was, to the last digit."""
    assert run(["show", str(old)]) == 2 and "sparsehist migrate" in capsys.readouterr().err
    with pytest.raises(StoreVersionError, match="migrate"):
        adopt(old)
    assert run(["migrate", str(old)]) == 0
    assert run(["show", str(old)]) == 2 and "sparsehist adopt" in capsys.readouterr().err
    assert run(["adopt", str(old)]) == 0
    assert run(["migrate", str(old), "--json"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["status"] == "unchanged"
    store = sh.open(old)
    for name in ("first", "second"):
        assert store.series("visits").release(name).frame.write_csv() == (
            old.with_name("published") / f"{name}.csv"
        ).read_text(encoding="utf-8")
    store.series("visits").release("third", level=1, false_keys=1)
    with open_state(old) as state:
        state.verify()


def test_nothing_is_lost_on_the_way(old):
    """Levels, caps, times, users, what a dropped series spent and for how many keys: all as before."""
    assert migrate(old) == 1
    adopt(old)
    with open_state(old) as state:
        ledger, events = state.ledger(), state.events()
    assert ledger["series"].to_list() == ["visits", "gone", "whole"]
    assert ledger["level"].to_list() == ["0.5", "0.02", "1"]
    assert ledger["n_releases"].to_list() == [2, 1, 2]
    assert ledger["cap"].to_list() == ["2", None, None]
    assert ledger["max_keys"].to_list() == [5, 5, 5] and ledger["unit"].to_list() == ["user", None, "user"]
    assert ledger["dropped"].is_null().to_list() == [True, False, True]
    assert events["number"].to_list() == list(range(1, events.height + 1))
    assert events["who"].to_list()[:10] == ["ann"] * 10
    assert events["release"].drop_nulls().to_list() == ["first", "second", "only", "first", "third"]
    assert events["what"].to_list()[-2:] == ["migrate store", "adopt store"]
    assert Fraction(ledger["level"][0]) == Fraction(1, 2)


@pytest.mark.parametrize("moment", ["_change", "insert_event", "write_format"])
def test_a_migration_that_dies_is_done_by_the_next(old, monkeypatch, moment):
    """Stopped before, within or after the change of the tables, a store is refused until it is migrated again."""

    def die(*_, **__):
        raise StoreError("no")

    with monkeypatch.context() as patch:
        patch.setattr(migrating, moment, die)
        with pytest.raises(StoreError, match="no"):
            migrate(old)
    with pytest.raises(StoreVersionError, match="migrate"), open_state(old):
        pass
    migrate(old)
    with pytest.raises(StoreRolledBackError, match="adopt"), open_state(old):
        pass
    adopt(old)
    with open_state(old) as state:
        state.verify()
        assert state.events()["what"].to_list().count("migrate store") == 1


def test_a_migrated_store_has_the_tables_of_a_new_one(old, tmp_path):
    """Column for column, in the same order: statements that insert by place cannot tell them apart."""
    sh.open(tmp_path / "new", create=True)
    migrate(old)
    assert _columns(old) == _columns(tmp_path / "new")
    assert json.loads((old / "format").read_text())["sparsehist store"] == FORMAT_VERSION


def _columns(store):
    import duckdb

    with duckdb.connect(store / "state.duckdb", read_only=True) as connection:
        rows = connection.execute(
            "select table_name, column_name, data_type, is_nullable from information_schema.columns "
            "order by table_name, ordinal_position"
        ).fetchall()
    assert len(rows) > 40
    return rows
