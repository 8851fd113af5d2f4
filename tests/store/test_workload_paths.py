"""Noise paths of workloads: opened with their first round, kept, dropped and copied with their series."""

from __future__ import annotations

import math
import shutil
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sparsehist.entropy import seeded
from sparsehist.errors import StoreDamagedError, StoreInUseError
from sparsehist.store import NewRound, PathRecord, adopt, backup, create_store, open_state
from tests.store.example import Model, add_series, make_store

M = 50


def workload_round(path, name, level, noise, **more):
    """A round of a workload; `path` is a number or the series to open one for."""
    if not isinstance(path, int):
        integer = noise is not None and noise.dtype == np.int64
        path = PathRecord(path.series_id, "workload", "prefix(50)", "spectral", integer)
    return NewRound(path, name, Fraction(level), {"level": str(level)}, {"std": 1.5}, noise, **more)


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(levels=st.lists(st.sampled_from(["1/3", "0.1", "2", "0.5"]), min_size=1, max_size=6), integer=st.booleans())
def test_noise_of_a_workload_comes_back(tmp_path_factory, levels, integer):
    """Whatever levels are spent on a workload path, in any order, the next opening reads exactly their noise."""
    path = tmp_path_factory.mktemp("store") / "s"
    create_store(path, durable=False)
    spent, path_id = {}, None
    with open_state(path, durable=False) as state:
        cells = Model(add_series(state))
        state.commit_round(cells.make_round("0.7", 5))
        record = state.series("queries")
        for number, level in enumerate(levels):
            noise = None
            if level not in spent:
                draw = 100 * seeded(number).normal(size=M)
                noise = spent[level] = draw.astype(np.int64) if integer else draw
            state.commit_round(workload_round(path_id or record, f"prefix_{number}", level, noise))
            path_id = state.paths(record)[1].path_id
    with open_state(path, durable=False) as state:
        cells.check(state)
        assert list(state._history(path_id).levels) == [Fraction(level) for level in spent]
        for level, noise in spent.items():
            found = state.noise(path_id, Fraction(level), M)
            assert found.dtype == noise.dtype and found.tolist() == noise.tolist()
        with pytest.raises(StoreInUseError):
            state.noise(path_id, Fraction(levels[0]), M - 1)
        made = state.series_releases(state.series("queries"))
        assert [release.name for release in made] == ["release_0", *(f"prefix_{i}" for i in range(len(levels)))]
        assert made[1].threshold == -math.inf and state._history(path_id).n_tracked == M
        state.verify()
        assert state.generation == 2 + len(levels)


def test_a_path_is_there_with_its_first_round_or_not_at_all(tmp_path):
    """A first round that is refused leaves no path, no file and no attachment."""
    path = make_store(tmp_path / "s")
    with open_state(path) as state:
        record = state.series("queries")
        files = set(record.directory.iterdir())
        file = state.write_attachment(record, ".npz", b"matrix")
        state.generation -= 1
        with pytest.raises(StoreInUseError):
            state.commit_round(workload_round(record, "prefix", "1", np.zeros(M), attachments=[file]))
        assert len(state.paths(record)) == 1
        assert set(record.directory.iterdir()) == files
    with open_state(path) as state:
        assert state.generation == 1 and len(state.ledger()) == 1


def test_verify_drop_and_backup_include_workload_paths(tmp_path):
    """Damage of a round or an attachment of a workload is found, a backup holds both, a drop erases both."""
    path = make_store(tmp_path / "s")
    with open_state(path) as state:
        record = state.series("queries")
        file = state.write_attachment(record, ".npz", b"planted matrix")
        noise = np.full(M, 1234567.25)
        state.commit_round(workload_round(record, "prefix", "1", noise, attachments=[file]))
        (round_file,) = record.directory.glob("round-*")
        for damaged in (round_file, record.directory / file.name):
            whole = damaged.read_bytes()
            damaged.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
            with pytest.raises(StoreDamagedError, match=damaged.name):
                state.verify()
            damaged.write_bytes(whole)
        state.verify()
    backup(path, tmp_path / "copy")
    shutil.rmtree(path)
    adopt(tmp_path / "copy", home_is_gone=True)
    with open_state(tmp_path / "copy") as state:
        state.verify()
        assert state.noise(2, Fraction(1), M).tolist() == noise.tolist()
        state.drop_series("queries")
        assert [row["finest"] for row in state.ledger()] == [0, 1]
    content = b"".join(found.read_bytes() for found in (tmp_path / "copy").rglob("*") if found.is_file())
    assert b"planted matrix" not in content and noise.tobytes() not in content
