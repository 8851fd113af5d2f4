from __future__ import annotations

import datetime as dt

import polars as pl
import pytest

from sparsehist.domain.base import Domain
from sparsehist.errors import DataError
from tests.counting.logs import as_dict, count

PRODUCT = Domain.parse("product(day=dates('2024-01-01', '2024-12-31'), country=catalogue('NA', 'DE'), n=integers(9))")


def test_csv_ids_and_keys_are_text_and_only_empty_fields_are_null(tmp_path):
    """CSV fields are read as text unless the domain has numbers or dates, and only empty fields are null."""
    path = tmp_path / "log.csv"
    path.write_text('user_id,query\n007,NA\n7,"NA"\n7,\n,x\n8,""\n')
    assert as_dict(count(path, on_null="drop")) == {"NA": 2}
    path.write_text(
        "user_id,day,country,n\n1,2024-02-03,NA,7\n1,2024-02-03,NA,07\n2,2024-02-03,NA,x\n3,2024-2,NA,7\n"
    )
    counted = count(path, key=["day", "country", "n"], domain=PRODUCT, on_outside="drop").frame
    assert counted.rows() == [(dt.date(2024, 2, 3), "NA", 7, 1)]


def test_rows_are_left_out_and_cells_made_equal_before_units_are_bounded(tmp_path):
    """Rows are dropped, and keys are mapped to cells, before units are bounded to `max_keys` keys.

    Therefore neither a dropped row nor a second spelling of a key uses up one of these keys.
    """
    whole = pl.DataFrame({"user_id": [1, 1, None, 2, 0], "query": [99, 5, 5, None, 0]})
    text = pl.DataFrame({"user_id": ["u", "u", "", None, "u"], "query": ["x" * 99, "in", "in", "in", ""]})
    whole.write_parquet(tmp_path / "log.parquet")
    (tmp_path / "log.csv").write_text("user_id,query\n1,1\n1,01\n1,2\n2,01\n")
    integers, dropping = Domain.parse("integers(0, 9)"), {"on_null": "drop", "on_outside": "drop"}
    for source in (whole, whole.lazy(), tmp_path / "log.parquet"):
        assert as_dict(count(source, domain=integers, max_keys=1, **dropping)) == {5: 1, 0: 1}
        with pytest.raises(DataError, match="null"):
            count(source, domain=integers, on_outside="drop")
    assert as_dict(count(text, max_keys=1, **dropping)) == {"in": 1}
    assert as_dict(count(tmp_path / "log.csv", domain=integers, max_keys=2)) == {1: 2, 2: 1}
