"""The query check accepts queries that keep privacy units separate, and refuses others with a reason."""

import polars as pl
import pytest

import sparsehist as sh
from sparsehist.errors import GuaranteeError, StatementError
from tests.guarantee.breaking_queries import BAD
from tests.guarantee.harmless_queries import FILES, GOOD
from tests.guarantee.oracle import AREAS, DAYS, tables


@pytest.fixture(scope="module")
def there(tmp_path_factory):
    """Change to a temporary directory that contains every log and table file that the test queries read."""
    home = tmp_path_factory.mktemp("files")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(home)
        plain = pl.DataFrame({"user_id": ["1"], "query": ["a"]})
        for name in ("log/day.parquet", "l/a.parquet", "l.parquet"):
            (home / name).parent.mkdir(parents=True, exist_ok=True)
            plain.write_parquet(home / name)
        (home / "log" / "day=1").mkdir()
        plain.write_parquet(home / "log" / "day=1" / "a.parquet")
        for name in ("log.csv", "l.csv"):
            plain.write_csv(home / name)
        plain.write_ndjson(home / "log.json")
        AREAS.write_csv(home / "areas.csv")
        yield home


LOGS = tables(1)
PUBLIC = {"areas": AREAS, "days": DAYS, "areas.csv": "areas.csv"}


def _check(query, there, **changed):
    sh.check_query(query, **({"unit": "user_id", "tables": LOGS, "public": PUBLIC} | changed))


@pytest.mark.parametrize("name", [name for name, query in GOOD.items() if any(word in query for word in FILES)])
def test_a_harmless_query_of_files_is_accepted(there, name):
    """`sh.check_query` accepts each listed query that reads files and keeps privacy units separate."""
    _check(GOOD[name], there)


@pytest.mark.parametrize("name", BAD)
def test_a_query_that_breaks_the_guarantee_is_refused(there, name):
    """`sh.check_query` refuses queries that may mix privacy units or depend on row order, and the error says why."""
    query, reason = BAD[name]
    with pytest.raises((GuaranteeError, StatementError), match=reason):
        _check(query, there)


def test_types_are_those_the_engine_computes_with(there):
    """`sh.check_query` refuses sums that depend on rounding, and accepts exact sums.

    For an integer n, DuckDB computes n // 1.5 in floating point, but n * 1.5 as an exact decimal.
    """
    floats = ("n // 1.5", "w % 1.5", "n * 170141183460469231731687303715884105728", "w", "n / 2", "n * 1e0", "0.1e0")
    for call in (*(f"sum({added})" for added in floats), "avg(0.1e0)", "sum(n::hugeint)"):
        with pytest.raises(GuaranteeError, match=r"floating-point|cannot be written"):
            _check(f"select user_id, {call}::varchar as query from log group by user_id", there)
    with pytest.raises(GuaranteeError, match="floating-point sum"):
        _check("select user_id, (sum(0.1e0) over (partition by user_id))::varchar as query from log", there)
    for added in ("n", "n * 1.5", "n % 1.5", "n * 2", "(n // 1.5)::decimal(18, 3)", "n % 2", "0.1"):
        _check(f"select user_id, sum({added})::varchar as query from log group by user_id", there)


@pytest.mark.parametrize(
    ("query", "accepted"),
    [
        ("select user_id, n, max(query) as query from log group by user_id, n", True),
        ("select user_id, max(n) as n, max(query) as query from log group by user_id", False),
        ("select user_id, n, count(*) over (partition by n, user_id) as query from log", True),
        ("select user_id, n, count(*) over (partition by user_id) as query from log", False),
        ("select a.user_id, b.n, b.query from log a join log_b b on a.user_id = b.user_id and a.n = b.n", True),
        ("select a.user_id, b.n, b.query from log a join log_b b using (user_id)", False),
        ("select a.user_id, a.n, b.query from log a join log_b b on a.user_id = b.n and a.n = b.user_id", False),
        ("select n as user_id, user_id as n, query from log", False),
        ("select user_id, n, query from log where (n, user_id) in (select n, user_id from log_b)", True),
        ("select user_id, n, query from log union select user_id, n, query from log_b", True),
        ("select user_id, n, query from log union all select n, user_id, query from log_b", False),
        ("select user_id, n::bigint as n, query from log", True),
        ("select user_id, n + 0 as n, query from log", False),
        ("select user_id, n::varchar as n, query from log", True),
    ],
)  # fmt: skip
def test_a_unit_of_several_columns_is_kept_whole(there, query, accepted):
    """If a privacy unit has several columns, a query must return them all from one row, each under its own name."""
    if accepted:
        _check(query, there, unit=("user_id", "n"))
        return
    with pytest.raises((GuaranteeError, StatementError)):
        _check(query, there, unit=("user_id", "n"))


def test_units_as_logs_have_them():
    """A query may rename the unit's column or cast it without loss; an expression that may merge units is refused."""
    log = pl.DataFrame({"UserID": [1, 2], "day": ["x", "y"], "ip": [1, 1], "query": ["a", "b"], "n": [1.0, 2.0]})
    tables = {"log": log, "other": log}
    for query in (
        "select UserID as user_id, query from log",
        "select UserID::varchar as user_id, query from log",
        "select UserID as user_id, max(query) as query from log group by UserID",
        "select a.UserID as user_id, b.query from log a join other b using (UserID)",
        "select a.UserID::hugeint::varchar as user_id, b.query from log a join other b on a.UserID = b.UserID",
    ):
        sh.check_query(query, unit="user_id", key="query", tables=tables)
    for query in (
        "select UserID // 2 as user_id, query from log",
        "select UserID::double as user_id, query from log",
        "select try_cast(UserID as tinyint) as user_id, query from log",
        "select UserID::double::bigint as user_id, query from log",
        "select upper(day) as user_id, query from log",
        "select a.UserID as user_id, b.query from log a join other b on a.UserID = b.ip",
        "select a.UserID as user_id, b.query from log a join other b on a.UserID::varchar = b.UserID",
        "select UserID as user_id, query from log group by all having count(*) over () > 1",
        "select UserID as user_id, query from log union all select ip as user_id, query from log",
    ):
        with pytest.raises((GuaranteeError, StatementError)):
            sh.check_query(query, unit="user_id", tables=tables)


@pytest.mark.parametrize("unit", ["user_id", "cast(user_id as varchar) as user_id"])
def test_units_of_two_types_are_refused(unit):
    """A union of number and text privacy units is refused: the number 1 and the text 1 may be the same user."""
    numbers = pl.DataFrame({"user_id": [1, 2], "query": ["a", "b"]})
    logs = {"log": numbers, "visits": numbers.cast({"user_id": pl.String})}
    query = f"select {unit}, query from log union all select user_id, query from visits"
    with pytest.raises(GuaranteeError, match="store it in one type"):
        sh.check_query(query, unit="user_id", tables=logs)


def test_parameters_are_checked_with_their_values(tmp_path):
    """The query check uses the values of parameters, such as a file name or a floating-point factor in a sum."""
    file = str(tmp_path / "log.parquet")
    pl.DataFrame({"user_id": [1, 2], "query": ["a", "b"], "n": [1, 2]}).write_parquet(file)
    query = "select user_id, query from read_parquet($file) where n > $n"
    sh.check_query(query, unit="user_id", parameters={"file": file, "n": 1})
    with pytest.raises(GuaranteeError, match="floating-point"):
        sh.check_query(
            "select user_id, sum(n * $x)::varchar as query from read_parquet($file) group by user_id",
            unit="user_id", parameters={"file": file, "x": 0.5},
        )  # fmt: skip


def test_a_key_that_is_missing_is_named(there):
    """A query that does not return a declared key column is refused, and the error names the column."""
    with pytest.raises(GuaranteeError, match="one column word"):
        _check("select user_id, query from log", there, key="word")
