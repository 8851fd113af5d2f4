from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sparsehist.entropy import seeded
from sparsehist.errors import StoreDamagedError, StoreInUseError
from sparsehist.store import NewRound, PathRecord, create_store, open_state
from sparsehist.store.database import Database
from tests.store.example import SALT, Model, add_series, make_store

M = 50
ROUND = st.tuples(st.sampled_from(["1/3", "0.1", "2", "0.5"]), st.booleans(), st.integers(0, 30), st.integers(0, 3))


def workload_round(path, name, level, noise, **more):
    """Return a round of a workload. `path` is its noise path, or a series in which the round starts a new path."""
    if not isinstance(path, int):
        integer = noise is not None and noise.dtype == np.int64
        path = PathRecord(path.series_id, "workload", "prefix(50)", "spectral", integer)
    return NewRound(path, name, Fraction(level), {"level": str(level)}, {"std": 1.5}, noise, **more)


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rounds=st.lists(ROUND, max_size=8), integer_noise=st.booleans())
def test_state_gives_back_what_was_committed(tmp_path_factory, rounds, integer_noise):
    """Rounds of cells and of a workload are read back exactly when a store is opened again."""
    path = tmp_path_factory.mktemp("store") / "s"
    create_store(path, durable=False)
    spent, path_id, names = {}, None, []
    with open_state(path, durable=False) as state:
        model = Model(add_series(state, integer_noise=integer_noise), integer_noise)
        record = state.series("queries")
        for number, (level, of_cells, n_new, n_empty) in enumerate(rounds):
            if of_cells:
                state.commit_round(model.make_round(level, n_new, min(n_new, n_empty)))
                names.append(model.names[-1])
                continue
            draw = (100 * seeded(number).normal(size=M)).astype(np.int64 if integer_noise else np.float64)
            names.append(f"prefix_{number}")
            noise = None if level in spent else draw
            state.commit_round(workload_round(path_id or record, names[-1], level, noise))
            spent.setdefault(level, draw)
            path_id = state.paths(record)[1].path_id
    with open_state(path, durable=False) as state:
        model.check(state)
        state.verify()
        assert state.generation == 1 + len(rounds)
        made = state.releases(state.series("queries"))
        assert [release.name for release in made] == names
        assert all(release.threshold == -math.inf for release in made if release.name.startswith("prefix"))
        assert not spent or list(state._history(path_id).levels) == [Fraction(level) for level in spent]
        for level, noise in spent.items():
            found = state.noise(path_id, Fraction(level), M)
            assert found.dtype == noise.dtype and found.tolist() == noise.tolist()


@pytest.mark.parametrize("of_cells", [True, False])
def test_state_refuses_a_round_built_on_an_older_generation(tmp_path, of_cells):
    """A round that was built on an older generation of the store is refused and leaves nothing behind."""
    path = make_store(tmp_path / "s")
    with open_state(path) as state:
        record = state.series("queries")
        files = set(record.directory.iterdir())
        if of_cells:
            new = Model(record.path_id).make_round("1", 5)
        else:
            file = state.write_attachment(record, ".npz", b"matrix")
            new = workload_round(record, "prefix", "1", np.zeros(M), attachments=[file])
        state.generation -= 1
        with pytest.raises(StoreInUseError, match="try again"):
            state.commit_round(new)
    with open_state(path) as state:
        assert set(record.directory.iterdir()) == files
        assert state.releases(record) == [] and state.generation == 1 and len(state.ledger()) == 1


def test_dropped_series_leaves_its_ledger_and_no_secret(tmp_path):
    """After a series is dropped, the ledger shows its cost, but no file contains its keys, salt or noise."""
    path = make_store(tmp_path / "s")
    with open_state(path) as state:
        record = state.series("queries")
        state.commit_round(Model(record.path_id).make_round("1/3", 5, 2))
        file = state.write_attachment(record, ".npz", b"planted matrix")
        noise = np.full(M, 1234567.25)
        state.commit_round(workload_round(record, "prefix", "1", noise, attachments=[file]))
        for damaged in (*record.directory.glob("round-3-*"), record.directory / file.name):
            whole = damaged.read_bytes()
            damaged.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
            with pytest.raises(StoreDamagedError, match=damaged.name):
                state.verify()
            damaged.write_bytes(whole)
        other = Model(add_series(state, "other"))
        state.commit_round(other.make_round("0.5", 3))
        state.drop_series("queries")
        state.commit_round(other.make_round("0.7", 0))
    with open_state(path) as state:
        other.check(state)
        ledger = state.ledger()
        assert [row["finest"] for row in ledger] == [Fraction(1, 3), 1, Fraction(7, 10)]
        assert [row["dropped"] is None for row in ledger] == [False, False, True]
        state.drop_series("other")
    content = everything_in(path)
    assert b"queries" in content
    for planted in (b"planted", b"empty-key", SALT, b'"threshold"', noise.tobytes()):
        assert planted not in content


def test_a_drop_that_dies_halfway_leaves_nothing_after_the_next_opening(tmp_path, monkeypatch):
    """If a process dies while it drops a series, the next opening deletes what remains of the series."""
    path = make_store(tmp_path / "s")
    with open_state(path) as state:
        model = Model(state.series("queries").path_id)
        for _ in range(40):  # enough rows for several pages, so that SQLite moves rows
            state.commit_round(model.make_round("1/3", 2, 1))
    run = Database.run

    def die(self, name, /, **values):
        if name == "vacuum;":
            raise KeyboardInterrupt
        return run(self, name, **values)

    with monkeypatch.context() as patch:
        patch.setattr(Database, "run", die)
        with open_state(path) as state, pytest.raises(KeyboardInterrupt):
            state.drop_series("queries")
    assert b"planted-key" in everything_in(path)
    with open_state(path) as state:
        assert state.all_series() == [] and [row["releases"] for row in state.ledger()] == [40]
    for planted in (b"planted-key", b"empty-key", SALT, b'"threshold"'):
        assert planted not in everything_in(path)


def everything_in(path):
    """Return the bytes of all files of a store, including SQLite's free pages and journals."""
    return b"".join(file.read_bytes() for file in path.rglob("*") if file.is_file())
