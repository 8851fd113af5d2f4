"""Logs in Spark are counted inside Spark, and only counts reach the driver."""

import polars as pl
import pytest

import sparsehist as sh
from sparsehist.counting import with_spark
from sparsehist.counting.contract import request_of
from sparsehist.counting.count import sorted_keys
from sparsehist.counting.log import Log
from sparsehist.domain import Domain
from sparsehist.errors import DataError, DeclarationError
from tests.counting import spark
from tests.counting.logs import MEASURES, SALT, a_log, count, measured_log
from tests.counting.one_histogram import CASES
from tests.test_docs import CHECKOUT, _blocks

pytestmark = pytest.mark.spark
DECLARED = {"name": "queries", "unit": "user_id", "key": "query", "max_keys": 3, "domain": "strings(max_bytes=32)"}


@pytest.mark.parametrize(
    ("changes", "said", "remedy"),
    [
        ({"user_id": [1, None]}, "unit column 'user_id'", "on_null"),
        ({"query": ["secret", "x" * 33]}, "outside", "on_outside"),
    ],
)
def test_bad_rows_are_refused_or_dropped_and_never_quoted(changes, said, remedy):
    """Bad rows are dropped or refused, as declared. The error names the column and the remedy, and quotes no row."""
    log = spark.frame(pl.DataFrame({"user_id": [1, 2], "query": ["secret", "plum"], **changes}))
    with pytest.raises(DataError, match=said) as refused:
        count(log, portable=True)
    assert remedy in str(refused.value) and "secret" not in repr(refused.value)
    assert refused.value.__context__ is None and refused.value.__cause__ is None
    assert count(log, portable=True, **{remedy: "drop"}).frame.rows() == [("secret", 1)]


def test_what_spark_cannot_count_is_refused():
    """A Spark log is refused if its units are floating-point numbers, or if portable=True is not declared."""
    log = spark.frame(pl.DataFrame({"user_id": [0.5], "query": ["2026-01-01"], "id": [1]}))
    with pytest.raises(DataError, match=r"'user_id' has dtype .* several ways"):
        count(log, portable=True)
    with pytest.raises(DeclarationError, match="cannot count a Spark frame"):
        count(log, unit="id")


def test_sorted_keys_come_in_parts(monkeypatch, tmp_path):
    """Keys reach the driver in batches, sorted by count; the salt determines the order of keys with equal counts."""
    log = a_log(900, 60)
    source = spark.frame(log)
    expected = count(log, max_keys=3, portable=True).frame.filter(pl.col("count") > 0)
    declared = {"unit": "user_id", "key": ["query"], "max_keys": 3, "domain": Domain.parse("strings(max_bytes=32)")}
    declared |= {"salt": SALT, "temporary_directory": tmp_path, "portable": True}
    monkeypatch.setattr(with_spark, "PART_KEYS", 4)
    orders = []
    for salt in (SALT, SALT[::-1]):
        _, parts = sorted_keys(source, salt, **declared)
        frames = list(parts)
        whole = pl.concat(frames)
        assert len(frames) == -(-expected.height // 4) and max(map(len, frames)) < expected.height
        assert whole.sort(pl.all()).equals(expected.sort(pl.all())) and whole["count"].is_sorted()
        orders.append(whole["key_0"].to_list())
    assert orders[0] != orders[1]
    series = sh.create(tmp_path / "store", source, **DECLARED)
    released = series.release("all", level=10**4, threshold=0.5).frame
    assert released["noisy_count"].round().sum() == expected["count"].sum()  # for every salt


def test_no_python_runs_where_the_log_is():
    """Spark counts a log without Python, shuffles each row once, and hashes only keys of units with too many keys."""
    log = CASES["text by integers"].log
    opened = Log(spark.frame(log), dict(log.schema), "the frame")
    request = request_of(
        unit="u", key=("k",), max_keys=3, domain=Domain.parse("strings(max_bytes=8)"), salt=SALT, on_null="drop",
        on_outside="drop", temporary_directory=".", portable=True,
    )  # fmt: skip
    plan = with_spark.counted(opened, request, [])._jdf.queryExecution().executedPlan().toString()
    assert "Python" not in plan and "Pandas" not in plan
    assert plan.count("Exchange hashpartitioning(unit") == 1 and plan.count("Exchange") == 2
    assert plan.count("sha2(") == plan.count("CASE WHEN (size") == 1


def test_the_page_runs(tmp_path, monkeypatch, capsys):
    """The examples in docs/spark.md run without an error."""
    spark.session()
    monkeypatch.chdir(tmp_path)
    names = {}
    for block in _blocks(CHECKOUT / "docs/spark.md", "py"):
        exec(block, names)
    assert "noisy_count" in capsys.readouterr().out


@pytest.mark.parametrize("kind", ["spark", "connect"])
@pytest.mark.parametrize("weights", [None, pytest.param([(64, 2), (45, 4), (32, 8)], marks=pytest.mark.slow)])
def test_sums_are_those_of_the_local_engine(kind, weights):
    """Spark computes the same counts, weighted or not, and the same sums as the in-memory engine."""
    log = measured_log()
    told = {"max_keys": 2, "domain": sh.Integers(6), "portable": True, "weights": weights}
    for measures, dtype in zip(MEASURES, (pl.Float64, pl.Float32), strict=True):
        log = log.with_columns(pl.col("price").cast(dtype))
        by_spark, by_polars = (
            count(given, **told, on_null="drop", measures=measures).frame.sort("key_0")
            for given in (spark.frame(log, kind), log)
        )
        assert by_spark.equals(by_polars)
    with pytest.raises(DataError, match="null, NaN, not numbers, infinite or negative") as refused:
        count(spark.frame(log, kind), **told, measures=MEASURES[1])
    assert refused.value.__context__ is None
