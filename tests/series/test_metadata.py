"""What a release says about itself: one record for each kind, a plain dict for people."""

from __future__ import annotations

import json
from dataclasses import FrozenInstanceError, fields
from pathlib import Path

import polars as pl
import pytest

import sparsehist as sh
from sparsehist.errors import BudgetExceededError, CapExceededError, InputError
from sparsehist.release.metadata import CellMetadata, WorkloadMetadata, read_metadata

LOG = pl.DataFrame({"user": range(600), "hour": [i % 24 for i in range(600)]})


def _released(kind: str, store: object = ":memory:") -> sh.Release:
    if kind == "open":
        domain, noise = sh.Open("integer", delta="1e-6"), "gaussian"
    else:
        domain, noise = sh.Integers(24), "laplace"
    series = sh.create(store, LOG, name="visits", unit="user", key="hour", max_keys=1, domain=domain, noise=noise)
    return series.release("r", workload="ranges()", level=1) if kind == "workload" else series.release("r", level=1)


@pytest.mark.parametrize("kind", ["cells", "open", "workload"])
def test_metadata_is_a_plain_dict_in_the_order_of_its_record(kind: str, tmp_path: Path) -> None:
    """json.dumps takes it, keys come in one order from the round, the store and the file, and it is a copy."""
    release = _released(kind, tmp_path / "s")
    shown = release.metadata
    assert type(shown) is dict
    assert json.loads(json.dumps(shown)) == shown
    record = read_metadata(shown)
    named = [field.name for field in fields(record)]
    assert list(shown) == ["kind", *(name for name in named if name in shown)]
    series = sh.open(tmp_path / "s").series("visits")
    again = series.release("r")
    release.write_parquet(tmp_path / "r.parquet")
    for other in (again, sh.read(tmp_path / "r.parquet")):
        assert list(other.metadata.items()) == list(shown.items())
    shown["level"] = "9"
    assert release.metadata["level"] == "1"


def test_a_record_is_frozen_and_reads_itself_back() -> None:
    """What `as_dict` gives is read back as the same record; something missing is refused by name."""
    record = read_metadata(_released("cells").metadata)
    assert type(record) is CellMetadata
    assert read_metadata(record.as_dict()) == record
    assert type(read_metadata(_released("workload").metadata)) is WorkloadMetadata
    with pytest.raises(FrozenInstanceError):
        record.level = "2"  # type: ignore[misc]
    with pytest.raises(InputError, match="effective_threshold"):
        read_metadata({name: value for name, value in record.as_dict().items() if name != "effective_threshold"})


def test_a_guarantee_is_stated_once_no_check_can_refuse(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond a cap, a budget or a delta a release is refused before its statement is computed; within, it is."""

    def stated(*_: object) -> str:
        raise ZeroDivisionError

    monkeypatch.setattr(sh.noise.Laplace, "statement", stated)
    domain = sh.Integers(24)
    store = sh.open(":memory:", create=True)
    store.set_budget(epsilon=3, delta=0, reason="a test")
    given = {"unit": "user", "key": "hour", "max_keys": 1, "noise": "laplace"}
    series = sh.create(store, LOG, name="visits", domain=domain, cap=2, **given)
    other = sh.create(store, LOG, name="other", domain=domain, cap=100, **given)
    opened = sh.create(":memory:", LOG, name="open", domain=sh.Open("integer", delta="1e-6"), **given)
    for release in (series.release, lambda name, level: series.release(name, workload="ranges()", level=level)):
        with pytest.raises(CapExceededError):
            release("beyond", level=2.5)
        with pytest.raises(ZeroDivisionError):
            release("within", level=1)
    with pytest.raises(BudgetExceededError):
        other.release("beyond", level=4)
    with pytest.raises(BudgetExceededError):
        opened.release("beyond", level=1, open_delta=1e-3)
    with pytest.raises(ZeroDivisionError):
        opened.release("within", level=1)
    assert len(series.releases()) == 0


@pytest.mark.parametrize(("max_keys", "said"), [(1, "units"), (4, "units once per cell they are in")])
def test_a_workload_says_what_its_answers_count(max_keys: int, said: str) -> None:
    """A sum over cells is one over units only where a unit is in one cell."""
    log = pl.DataFrame({"user": [i // 4 for i in range(400)], "key": [i % 4 for i in range(400)]})
    series = sh.create(
        sh.open(":memory:", seed=1),
        log,
        name="v",
        unit="user",
        key="key",
        max_keys=max_keys,
        domain=sh.Integers(4),
    )
    release = series.release("total", workload=sh.workload.Total(), level=100)
    assert release.metadata["counts"].startswith(said)
    assert abs(release.frame["noisy_answer"][0] - 100 * max_keys) < 10
