from __future__ import annotations

from datetime import UTC, datetime
from fractions import Fraction

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sparsehist.errors import NameTakenError, NotFoundError, StoreInUseError
from sparsehist.store import create_store, open_state
from sparsehist.store.database import Database
from tests.store.example import SALT, Model, add_series, make_store

rounds = st.lists(
    st.tuples(st.sampled_from(["1/3", "0.1", "2", "0.5"]), st.integers(0, 30), st.integers(0, 3)), max_size=6
)


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rounds=rounds, integer_noise=st.booleans())
def test_state_gives_back_what_was_committed(tmp_path_factory, rounds, integer_noise):
    """Whatever rounds are committed, in any order of levels, the next opening reads exactly them."""
    path = tmp_path_factory.mktemp("store") / "s"
    create_store(path, durable=False)
    with open_state(path, durable=False) as state:
        model = Model(add_series(state, integer_noise=integer_noise), integer_noise)
        for level, n_new, n_empty in rounds:
            state.commit_round(model.make_round(level, n_new, min(n_new, n_empty)))
            model.check(state)
    with open_state(path, durable=False) as state:
        model.check(state)
        state.verify()
        assert state.generation == 1 + len(rounds)


def test_series_and_releases_come_back_whole(tmp_path):
    """A series keeps its declaration, salt and files, and a release all it was made from."""
    path = make_store(tmp_path / "s")
    before = datetime.now(UTC).replace(tzinfo=None)
    with open_state(path) as state:
        record = state.series("queries")
        model = Model(record.path_id)
        state.commit_round(model.make_round("1/3", 5))
        state.commit_round(model.make_round("1/3", 2))
    with open_state(path) as state:
        record = state.series("queries")
        assert record.declaration["key"] == ["query"] and record.salt.startswith(b"salt")
        assert {file.name for file in record.files} == {"counts", "index", "support"}
        assert record.paths[0].kind == "cells" and not record.paths[0].integer_noise
        assert state.series_files(record).n_nonzero == 400
        assert state.series("other") is None
        first, second = state.releases(record.path_id)
        assert first.level == second.level == Fraction(1, 3)
        assert (first.threshold, first.request["threshold"], first.metadata) == (3.0, 3.0, {"std": 1.5})
        assert (first.generation, second.generation) == (2, 3)
        assert len(state.tracked(record.path_id).position) == 7
        (row,) = state.ledger()
    assert before <= row["first_release"] <= row["last_release"] <= datetime.now(UTC).replace(tzinfo=None)


def test_names_are_taken_once(tmp_path):
    """A second series or release of a name is refused and changes nothing."""
    path = make_store(tmp_path / "s")
    with open_state(path) as state:
        model = Model(state.series("queries").path_id)
        new = model.make_round("1", 5)
        state.commit_round(new)
        with pytest.raises(NameTakenError, match="release_0"):
            state.commit_round(new)
        with pytest.raises(NameTakenError, match="queries"):
            add_series(state)
    with open_state(path) as state:
        model.check(state)
        assert len(state.all_series()) == 1
        state.verify()
    assert len(list((path / "series").iterdir())) == 1


def test_state_refuses_a_round_built_on_an_older_generation(tmp_path):
    """When somebody else committed meanwhile, nothing of the round stays, not even its file."""
    path = make_store(tmp_path / "s")
    with open_state(path) as state:
        model = Model(state.series("queries").path_id)
        state.generation -= 1
        with pytest.raises(StoreInUseError, match="begin again"):
            state.commit_round(model.make_round("1", 5))
        directory = state.series("queries").directory
        assert not list(directory.glob("round-*"))
    with open_state(path) as state:
        assert state.releases(model.path_id) == [] and state.generation == 1


def test_noise_is_read_for_spent_levels_only(tmp_path):
    """A level that was never spent has no noise to read."""
    path = make_store(tmp_path / "s")
    with open_state(path) as state:
        model = Model(state.series("queries").path_id)
        state.commit_round(model.make_round("1", 5))
        with pytest.raises(NotFoundError):
            state.noise(model.path_id, Fraction(2), 5)
        with pytest.raises(StoreInUseError):
            state.noise(model.path_id, Fraction(1), 4)


def test_ledger_compares_levels_exactly(tmp_path):
    """The finest level is found among levels that are the same number as floats."""
    path = make_store(tmp_path / "s")
    fine = Fraction(1, 3) + Fraction(1, 10**30)
    with open_state(path) as state:
        assert state.ledger()[0]["finest"] == 0
        model = Model(state.series("queries").path_id)
        for level in (fine, Fraction(1, 3), Fraction(1, 5)):
            state.commit_round(model.make_round(level, 1))
        row = state.ledger()[0]
    assert (row["finest"], row["path"][0], row["releases"], row["declaration"]["cap"]) == (fine, "cells", 3, "2")
    assert row["first_release"] < row["last_release"] and row["dropped"] is None


def test_dropped_series_leaves_its_ledger_and_no_secret(tmp_path):
    """After a drop no file of the store holds a key, the salt or a request, while what was spent is still shown."""
    path = make_store(tmp_path / "s")
    with open_state(path) as state:
        model = Model(state.series("queries").path_id)
        state.commit_round(model.make_round("1/3", 5, 2))
        other = Model(add_series(state, "other"))
        state.commit_round(other.make_round("0.5", 3))
        state.drop_series("queries")
        assert state.series("queries") is None
        state.commit_round(other.make_round("0.7", 0))
        other.check(state)
    with open_state(path) as state:
        ledger = state.ledger()
        assert [row["finest"] for row in ledger] == [Fraction(1, 3), Fraction(7, 10)]
        assert [row["dropped"] is None for row in ledger] == [False, True]
        assert [event["what"] for event in state.events()] == [
            "create store", "create series", "release", "create series", "release", "drop series", "release",
        ]  # fmt: skip
        with pytest.raises(NotFoundError):
            state.drop_series("queries")
        add_series(state, "queries")
        for name in ("other", "queries"):
            state.drop_series(name)
    content = everything_in(path)
    assert b"queries" in content
    for planted in (b"planted-key", b"empty-key", SALT, b'"threshold"'):
        assert planted not in content


def test_a_drop_that_dies_halfway_leaves_nothing_after_the_next_opening(tmp_path, monkeypatch):
    """A run that dies once the drop is committed leaves bytes and files behind: the next opening removes them all."""
    path = make_store(tmp_path / "s")
    with open_state(path) as state:
        model = Model(state.series("queries").path_id)
        for _ in range(40):  # several pages of the state, so that rows have moved
            state.commit_round(model.make_round("1/3", 2, 1))
    run = Database.rows

    def die(self, name, /, **values):
        if name == "vacuum":
            raise KeyboardInterrupt
        return run(self, name, **values)

    with monkeypatch.context() as patch:
        patch.setattr(Database, "rows", die)
        with open_state(path) as state, pytest.raises(KeyboardInterrupt):
            state.drop_series("queries")
    assert b"planted-key" in everything_in(path)
    with open_state(path) as state:
        assert state.all_series() == [] and [row["releases"] for row in state.ledger()] == [40]
    for planted in (b"planted-key", b"empty-key", SALT, b'"threshold"'):
        assert planted not in everything_in(path)


def everything_in(path):
    """The bytes of all files of a store, its free pages and journals included."""
    return b"".join(file.read_bytes() for file in path.rglob("*") if file.is_file())


def test_records_show_no_secret(tmp_path):
    """Nothing that is printed shows a key, a count, a salt or noise."""
    path = make_store(tmp_path / "s")
    with open_state(path) as state:
        record = state.series("queries")
        model = Model(record.path_id)
        new = model.make_round("1", 5, 1)
        state.commit_round(new)
        release = state.releases(record.path_id)[0]
        printed = [record, new, release, state, state.tracked(1), state.series_files(record)]
        history = state._history(record.path_id)
        file = history.open_round(0)
        printed += [record.files, record.paths, history.rounds, file, file._sizes]
        shown = "".join(map(repr, printed))
    for secret in ("salt", "empty-key", "n_tracked", "array", "position", "size", "n_new", "n_empty"):
        assert secret not in shown


def test_publications_are_remembered(tmp_path):
    """A directory is remembered once, whatever path leads to it."""
    path = make_store(tmp_path / "s")
    (tmp_path / "out").mkdir()
    (tmp_path / "link").symlink_to("out")
    with open_state(path) as state:
        for name in ("out", "link", "out"):
            state.record_publication(tmp_path / name)
    with open_state(path) as state:
        assert state.publications == {tmp_path.resolve() / "out"}
