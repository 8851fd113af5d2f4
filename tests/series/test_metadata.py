"""Tests that the metadata of a release are a plain dict, equal in memory, in the store and in a file."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields, replace
from pathlib import Path

import polars as pl
import pytest

import sparsehist as sh
from sparsehist.declaration import Declaration
from sparsehist.declaration.parameters import parameter, parameters, sql_words
from sparsehist.errors import DeclarationError
from sparsehist.release.metadata import declaration_rows, read_metadata

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
    """Release, store and file return equal metadata dicts in a fixed order; changing a dict changes no release."""
    release = _released(kind, tmp_path / "s")
    shown = release.metadata
    assert type(shown) is dict
    assert json.loads(json.dumps(shown)) == shown
    record = read_metadata(shown)
    named = [field.name for field in fields(record)]
    assert list(shown) == ["kind", "series", "noise", *(name for name in named if name in shown)]
    series = sh.open(tmp_path / "s").series("visits")
    assert shown["declaration"] == series.declaration.as_json()
    with series.store.hold() as state:
        assert shown["generation"] == state.generation
    again = series.release("r")
    release.write_parquet(tmp_path / "r.parquet")
    for other in (again, sh.read(tmp_path / "r.parquet")):
        assert list(other.metadata.items()) == list(shown.items())
    shown["level"] = "9"
    assert release.metadata["level"] == "1"


def test_a_new_parameter_of_a_series_is_one_field() -> None:
    """A field that is added to `Declaration` appears in options, SQL, tables and metadata without further code."""

    @dataclass(frozen=True, kw_only=True)
    class More(Declaration):
        flavour: str = parameter("Which flavour.", "plain", choices=("plain", "sweet"))

    made = More(name="a", key="k", max_keys=1, domain="hash64()", flavour="sweet")
    assert parameters(More)["flavour"].option is str and "flavour" in sql_words(More)
    assert ("flavour", "sweet") in declaration_rows(made)
    record = replace(read_metadata(_released("cells").metadata), declaration=made)
    assert record.as_dict()["declaration"] == made.as_json() and made.as_json()["flavour"] == "sweet"
    with pytest.raises(DeclarationError, match="flavour must be one of"):
        replace(made, flavour="sour")
