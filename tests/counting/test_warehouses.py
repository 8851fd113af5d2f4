"""`sh.counting_sql` writes an SQL query that counts a log in a warehouse. A series can be created from the counts."""

from __future__ import annotations

import polars as pl
import pytest
import sqlglot
from sqlglot import exp

import sparsehist as sh
from sparsehist.counting.with_sql import DIALECTS
from sparsehist.errors import DeclarationError
from tests.counting.logs import MEASURES, SALT, a_log, count, measured_log
from tests.counting.warehouses import WAREHOUSES

ON_SPARK = pytest.param("spark", marks=[pytest.mark.spark, pytest.mark.slow])
HERE = [ON_SPARK if name == "spark" else name for name in WAREHOUSES]
DECLARED = {"unit": "user_id", "key": "query", "max_keys": 5, "domain": "strings(max_bytes=32)"}
OF_LOG = {"user_id": "integer"}
HOSTILE_NAMES = (
    '"; drop table log; --', "it's /* or */ -- not", "unit", "key_0", "size", "a.b", "Größe 梨", "select",
    "%s %(salt)s $1 :salt ? @salt {salt:String}",
)  # fmt: skip
HOSTILE_VALUES = (
    "'", "''", '"', "\\", "\\'", "'; drop table log; --", "%s", "%(salt)s", "$1", ":salt", "?", "@salt",
    "{salt:String}", "${spark.app.name}", "${env:HOME}", "$${x}", "\n\t\r", "\\n", "\\u0041", "\\x41", "`",
    "a\0b", "\0", "{{ x }}", "/*",
)  # fmt: skip


def _made(dialect: str, table: str = "log", **changed: object) -> sh.CountingSql:
    return sh.counting_sql(dialect, table, **{"unit_types": OF_LOG, **DECLARED, **changed})


@pytest.mark.parametrize("engine", HERE)
def test_names_are_quoted(engine: str) -> None:
    """A counting query quotes column and table names, even names that look like SQL or like a parameter."""
    for number, name in enumerate(HOSTILE_NAMES):
        log = a_log(60, 9).rename({"user_id": name, "query": f"{name}2"})
        other = _made(
            engine, ["log" if engine == "spark" else name], unit=name, key=f"{name}2", unit_types={name: "integer"},
            count=HOSTILE_NAMES[number - 1] + "3",
        )  # fmt: skip
        found = WAREHOUSES[engine](log, other, "log" if engine == "spark" else name)
        assert found.columns == [f"{name}2", HOSTILE_NAMES[number - 1] + "3"]
        assert found[found.columns[1]].sum() > 9


@pytest.mark.parametrize("engine", HERE)
def test_values_of_a_domain_are_quoted(engine: str) -> None:
    """Domain values that contain quotes, escapes or placeholders are compared literally in a counting query."""
    holds = [value for value in HOSTILE_VALUES if engine != "postgres" or "\0" not in value]
    log = pl.DataFrame({"user_id": range(len(holds) * 2), "query": [*holds, *(f"{value}~" for value in holds)]})
    found = WAREHOUSES[engine](log, _made(engine, domain=sh.Catalogue(HOSTILE_VALUES)))
    assert sorted(found.rows()) == sorted((value, 1) for value in holds)
    letters = "".join(sorted({letter for value in HOSTILE_VALUES for letter in value} - {"~"}))
    found = WAREHOUSES[engine](log, _made(engine, domain=sh.Strings(max_chars=30, alphabet=letters)))
    assert sorted(found.rows()) == sorted((value, 1) for value in holds)


@pytest.mark.parametrize("engine", HERE)
@pytest.mark.parametrize(("dtype", "told"), [(pl.Float64, "integer"), (pl.String, "integer"), (pl.Int64, "text")])
def test_a_unit_of_another_type_is_an_error(engine: str, dtype: pl.DataType, told: str) -> None:
    """A counting query fails if the privacy unit's column does not have the declared type.

    Spark is an exception: it accepts a column of numbers that is declared as text.
    """
    log = a_log(60, 9).cast({"user_id": dtype})
    made = _made(engine, unit_types={"user_id": told})
    if engine == "spark" and told == "text":
        return
    with pytest.raises(Exception, match=r"(?i)type|match|function|convert|operator|cast"):
        WAREHOUSES[engine](log, made)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_query_is_one_select_of_its_dialect(dialect: str) -> None:
    """A counting query is one SELECT in its dialect, quotes the declared names, and takes the salt as a parameter."""
    table, unit, key = '"x" ; --', "it's", 'a"b'
    told = {"unit": unit, "key": key, "unit_types": {unit: "integer"}, "domain": sh.Catalogue(HOSTILE_VALUES)}
    made = _made(dialect, [table], salt=SALT, **told)
    (tree,) = sqlglot.parse(made.sql, read=dialect, error_level=sqlglot.ErrorLevel.RAISE)
    assert isinstance(tree, exp.Select)
    assert {table, unit, key} <= {one.name for one in tree.find_all(exp.Identifier)}
    assert SALT.hex() not in made.sql + repr(made) and made.parameters == {"salt": SALT.hex()}


def test_counts_come_in_with_what_was_declared() -> None:
    """A series of warehouse counts uses the portable order. It must declare the key and `max_keys` of the query."""
    made = _made("duckdb")
    result = WAREHOUSES["duckdb"](a_log(), made)
    declared = {"name": "queries", "key": "query", "domain": DECLARED["domain"]}
    series = sh.create(":memory:", made.counts(result), max_keys=5, **declared)
    released = series.release("first", level=10**4)
    assert released.metadata["declaration"]["bounding"] == "keep(portable=True)"
    assert released.frame["noisy_count"].round().sum() == result["count"].sum()
    for wrong in ({"max_keys": 4}, {"key": "user_id"}):
        with pytest.raises(DeclarationError, match="counting query: "):
            sh.create(":memory:", made.counts(result), **({"max_keys": 5} | declared | wrong))


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"dialect": "oracle"}, "dialect must be one of"),
        ({"count": "query"}, "must have different names"),
        ({"key": "${x}"}, "names must be strings"),
        ({"table": "a..b"}, "names must be strings"),
        ({"domain": sh.Catalogue(range(10_001))}, "values in SQL: 10000"),
    ],
)
def test_what_cannot_be_said_is_refused(changed: dict[str, object], says: str) -> None:
    """A counting query with an unsupported dialect, name or domain is refused, and the error says what is allowed."""
    told = {"dialect": "duckdb", "table": "log", **DECLARED, **changed}
    with pytest.raises(DeclarationError, match=says):
        sh.counting_sql(told.pop("dialect"), told.pop("table"), **told)


@pytest.mark.parametrize("engine", HERE)
def test_sums_are_those_of_the_local_engine(engine: str) -> None:
    """Sums of measures from a warehouse equal the sums of the in-memory engine, even for NaN and extreme values."""
    log = measured_log()
    told = {"unit": "user_id", "key": "query", "max_keys": 3, "domain": sh.Integers(6)}
    for measures in MEASURES:
        local = count(log, **told, portable=True, on_null="drop", on_outside="drop", salt=SALT, measures=measures)
        made = sh.counting_sql(engine, "log", **told, unit_types=OF_LOG, salt=SALT, measures=measures)
        found = WAREHOUSES[engine](log, made)
        assert found.columns == ["query", "count", "price_steps", "paid_steps", "events_steps"]
        assert sorted(found.rows()) == sorted(local.frame.rows())
        declared = {"name": "v", "key": "query", "max_keys": 3, "domain": "integers(6)"}
        series = sh.create(":memory:", made.counts(found), **declared, measures=measures)
        assert "price_sum" in series.release("one", level=1, measures=1).frame.columns
        other = sh.Measure("price", clip=100, step="0.01")
        with pytest.raises(DeclarationError, match=r"counting query: .*measures"):
            sh.create(":memory:", made.counts(found), **declared, measures=other)
