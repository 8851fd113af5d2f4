"""Which queries the check lets through and which it refuses, and what it says."""

import duckdb
import polars as pl
import pytest

import sparsehist as sh
from sparsehist.errors import GuaranteeError, StatementError
from tests.sqlfront.breaking_queries import BAD
from tests.sqlfront.harmless_queries import GOOD, PUBLIC
from tests.sqlfront.oracle import AREAS, fill, tables


@pytest.fixture(scope="module")
def there(tmp_path_factory):
    """A connection that has the tables, in a directory that has the files."""
    home = tmp_path_factory.mktemp("files")
    with pytest.MonkeyPatch.context() as patch, duckdb.connect(config={"threads": 1}) as connection:
        patch.chdir(home)
        fill(connection, tables(1))
        connection.execute("create sequence s")
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
        yield connection


def _check(query, there, **changed):
    sh.check_query(query, **({"unit": "user_id", "public_tables": PUBLIC, "connection": there} | changed))


@pytest.mark.parametrize("name", GOOD)
def test_a_harmless_query_is_accepted(there, name):
    """What keeps each unit to its own rows and to public tables is let through."""
    _check(GOOD[name], there)


@pytest.mark.parametrize("name", BAD)
def test_a_query_that_breaks_the_guarantee_is_refused(there, name):
    """What may mix units, or hang on the order of rows, is refused for that reason."""
    query, reason = BAD[name]
    with pytest.raises(GuaranteeError, match=reason):
        _check(query, there)


def test_types_are_those_the_engine_computes_with(there):
    """Sums of what DuckDB adds as doubles are refused, however exact the literals look."""
    for added in ("n // 1.5", "w % 1.5", "n * 170141183460469231731687303715884105728", "w", "n / 2", "n * 1e0"):
        with pytest.raises(GuaranteeError, match=r"floating-point|cannot be written"):
            _check(f"select user_id, sum({added})::varchar as query from log group by user_id", there)
    for added in ("n", "n * 1.5", "n % 1.5", "n * 2", "(n // 1.5)::decimal(18, 3)", "n % 2"):
        _check(f"select user_id, sum({added})::varchar as query from log group by user_id", there)


def test_values_that_are_equal_but_not_alike_are_told(there):
    """Which of 0.0 and -0.0 is kept depends on what came first."""
    for query in (
        "select distinct user_id, w::varchar as query from (select distinct user_id, w from log)",
        "select user_id, max(w)::varchar as query from log group by user_id",
        "select user_id, w::varchar as query from log group by user_id, w",
        "select user_id, w::varchar as query from (select user_id, w from log intersect from log_b select user_id, w)",  # noqa: E501
    ):
        with pytest.raises(GuaranteeError, match="not alike"):
            _check(query, there)


@pytest.fixture
def of_enums(there):
    """A table with an ENUM that was made from the log, and a variable that was counted from it."""
    there.execute("create type mood as enum (select query from log group by query order by min(n), query)")
    there.execute("create table moods as select *, query::mood as mood from log")
    yield there
    there.execute("drop table moods; drop type mood")


@pytest.mark.parametrize(
    ("query", "accepted"),
    [
        ("select user_id, typeof(mood) as query from moods", False),
        ("select user_id, query from log where len(enum_range(null::mood)) > 3", False),
        ("select user_id, query from log where length(\"typeof\" /* */ (null::mood)) > 3", False),
        ("select user_id, query from log where 3 < (select n from query('select len(type' || 'of(null::mood)) n'))",
         False),
        ("select user_id, get_type(null::mood)::varchar as query from log", False),
        ("select user_id, query from log where query::mood > 'b'", False),
        ("select user_id, list(query order by mood, query)[1] as query from moods group by user_id", False),
        ("select user_id, first(n order by mood, n)::varchar as query from moods group by user_id", False),
        ("select user_id, max(mood)::varchar as query from moods group by user_id", False),
        ("select a.user_id, a.query from moods a join moods b on a.user_id = b.user_id and a.mood < b.mood", False),
        ("select user_id, query from moods a where mood > any (select mood from moods b where b.user_id = a.user_id)",
         False),
        ("select l.user_id, query from log l join (from areas order by region::mood limit 1) using (country)", False),
        ("select l.user_id, query from log l join (from areas order by random() limit 1) a using (country)", False),
        ("select user_id, mood::varchar as query from moods where mood = 'a'", True),
        ("select user_id, mood::varchar as query, count(*) from moods group by user_id, mood", True),
        ("select a.user_id, b.query from moods a join moods b using (user_id, mood)", True),
    ],
)  # fmt: skip
def test_what_an_enum_holds_and_how_it_sorts_is_of_all_units(of_enums, query, accepted):
    """Its values may be those of the log: they may be compared for equality and cast to text, and no more."""
    if accepted:
        _check(query, of_enums)
        return
    with pytest.raises(GuaranteeError, match=r"ENUM|random|not alike"):
        _check(query, of_enums)


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
        ("select user_id, n, query from log where user_id in (select user_id from log_b)", False),
        ("select user_id, n, query from log l where n not in (select n from log_b b where b.user_id = l.user_id)",
         False),
        ("select user_id, n, query from log union select user_id, n, query from log_b", True),
        ("select user_id, n, query from log union all select n, user_id, query from log_b", False),
        ("select user_id, n::bigint as n, query from log", True),
        ("select user_id, n + 0 as n, query from log", False),
    ],
)  # fmt: skip
def test_a_unit_of_several_columns_is_kept_whole(there, query, accepted):
    """Every part has to be kept, in its place and from one row: a part alone names no unit."""
    if accepted:
        _check(query, there, unit=("user_id", "n"))
        return
    with pytest.raises(GuaranteeError):
        _check(query, there, unit=("user_id", "n"))


def test_a_variable_is_refused_however_it_is_read(there):
    """DuckDB puts its value into the plan: by its name, in quotes, behind a comment, in a text that is made up."""
    there.execute("set variable counted = (select count(*) from log)")
    there.execute("create macro read_it() as table select * from query('select getvari' || 'able(''counted'') as v')")
    try:
        for reading in (
            "getvariable('counted')",
            "\"getvariable\" /* */ ('counted')",
            "'counted'.getvariable()",
            "(select v from query('select getvari' || 'able(''counted'') as v'))",
            "(select v from \"query\" /* */ ('select getvari' || 'able(''counted'') as v'))",
            "(select v from read_it())",
        ):
            with pytest.raises(GuaranteeError, match="variable was computed"):
                _check(f"select user_id, query from log where n < {reading}", there)
    finally:
        there.execute("reset variable counted; drop macro table read_it")


@pytest.mark.parametrize("schema", ["", "aside."])
def test_a_macro_that_is_named_like_a_reader_is_read_as_a_macro(there, schema):
    """DuckDB puts its body in the place of the call, with files beside it: the rows of the body are looked at."""
    query = "select user_id, query from parquet_scan('l.parquet') union all from {}read_parquet('l/a.parquet')"
    _check(query.format(""), there)
    there.execute("create schema aside")
    there.execute(f"create macro {schema}read_parquet(x) as table select 'all' as user_id, query from log")
    try:
        with pytest.raises(GuaranteeError):
            _check(query.format(schema), there)
    finally:
        there.execute(f"drop macro table {schema}read_parquet; drop schema aside")


def test_a_value_that_cannot_be_written_is_refused(there):
    """NaN has no like in the plan's JSON: the query is refused, and nothing else happens."""
    with pytest.raises(GuaranteeError, match="cannot be written"):
        _check(
            "select user_id, sum(n * $x)::varchar as query from log group by user_id",
            there, parameters={"x": float("nan")},
        )  # fmt: skip


def test_two_windows_in_opposite_directions_pair_numbers_of_tied_rows(there):
    """Each by itself leaves no choice, the two together do."""
    both = """select user_id, query, row_number() over (partition by user_id order by query) as a,
        row_number() over (partition by user_id order by query desc) as b from log"""
    with pytest.raises(GuaranteeError, match="two windows"):
        _check(both, there)
    _check("select user_id, query, row_number() over (partition by user_id order by query) as a from log", there)


def test_definitions_of_attached_databases_are_followed(there):
    """Views and macros of another database are what they are there, under whatever name."""
    there.execute("attach ':memory:' as other")
    there.execute("create macro other.main.upper(x) as x || (select count(*) from memory.main.log)")
    there.execute("create view other.main.few as select * from memory.main.log limit 3")
    there.execute("create macro other.main.rows() as table select * from memory.main.log using sample 2")
    try:
        for query in (
            "select user_id, other.upper(query) as query from log",
            "select user_id, query from other.few",
            "select user_id, query from other.main.rows()",
        ):
            with pytest.raises(GuaranteeError):
                _check(query, there)
        there.execute("use other")
        with pytest.raises(GuaranteeError, match="gathers"):
            _check("select user_id, upper(query) as query from memory.main.log", there, public_tables=())
    finally:
        there.execute("use memory")
        there.execute("detach other")


def test_variables_may_hold_rows(there):
    """What a variable was computed from is not in the plan."""
    there.execute("set variable x = (select count(*) from log)")
    try:
        with pytest.raises(GuaranteeError, match="variable"):
            _check("select user_id, getvariable('x')::varchar as query from log", there)
    finally:
        there.execute("reset variable x")


def test_units_as_logs_have_them():
    """A unit may be renamed, cast so that its values stay apart, and be several columns."""
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
    ):
        with pytest.raises((GuaranteeError, StatementError)):
            sh.check_query(query, unit="user_id", tables=tables)
    pair = ("day", "ip")
    for query in (
        "select day, ip, query from log",
        "select day, ip::varchar as ip, max(query) as query from log group by day, ip",
        "select a.day, a.ip, b.query from log a join other b using (day, ip)",
        "select day, ip, query from log where (day, ip) in (select day, ip from other)",
        "select day, ip, count(*) over (partition by ip, day)::varchar as query from log",
    ):
        sh.check_query(query, unit=pair, key="query", tables=tables)
    for query in (
        "select day, ip, max(query) as query from log group by day, ip having max(ip) over () > 1",
        "select a.day, a.ip, b.query from log a join other b using (day)",
        "select day, max(ip) as ip, max(query) as query from log group by day",
        "select ip as day, day as ip, query from log",
        "select day, ip, count(*) over (partition by day)::varchar as query from log",
    ):
        with pytest.raises((GuaranteeError, StatementError)):
            sh.check_query(query, unit=pair, tables=tables)


def test_parameters_are_checked_with_their_values(tmp_path):
    """A file, a number or a text may be a parameter; what is checked is what they mean."""
    file = str(tmp_path / "log.parquet")
    pl.DataFrame({"user_id": [1, 2], "query": ["a", "b"], "n": [1, 2]}).write_parquet(file)
    query = "select user_id, query from read_parquet($file) where n > $n"
    sh.check_query(query, unit="user_id", parameters={"file": file, "n": 1})
    with pytest.raises(GuaranteeError, match="floating-point"):
        sh.check_query(
            "select user_id, sum(n * $x)::varchar as query from read_parquet($file) group by user_id",
            unit="user_id", parameters={"file": file, "x": 0.5},
        )  # fmt: skip
    with pytest.raises(GuaranteeError, match="line 1, column 67: LIMIT"):
        sh.check_query(
            "select user_id, query from read_parquet($file) where n > $n limit 3", unit="user_id",
            parameters={"file": file, "n": 1},
        )  # fmt: skip


def test_a_refusal_says_where(there):
    """The place counts characters of the query; what stands in a view has none in it."""
    query = "select user_id, 'ünï' as query\nfrom log\nlimit 3"
    with pytest.raises(GuaranteeError, match="line 3, column 7") as refused:
        _check(query, there)
    assert query[refused.value.start : refused.value.end] == "3"
    query = "select user_id, random()::varchar as query from log"
    with pytest.raises(GuaranteeError) as refused:
        _check(query, there)
    assert query[refused.value.start : refused.value.end] == "random()"
    with pytest.raises(GuaranteeError, match="one column word"):
        _check("select user_id, query from log", there, key="word")


def test_enough_is_listed():
    """At least sixty queries of either kind."""
    assert len(GOOD) >= 60
    assert len(BAD) >= 60


def test_a_variable_of_the_program_is_no_table() -> None:
    """DuckDB alone would find it; here the error says what to give."""
    with pytest.raises(StatementError, match="variables of your program are not seen: give connection="):
        sh.check_query("select user_id from variable_of_mine", unit="user_id")
