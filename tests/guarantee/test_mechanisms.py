"""A name, type or macro means the same when a query is checked and when it runs.

Each test covers a former bug of the query check.
"""

import logging

import duckdb
import polars as pl
import pytest

import sparsehist as sh
from sparsehist.counting.contract import Query
from sparsehist.counting.sources import checked_query
from sparsehist.errors import GuaranteeError, SparsehistError, StatementError
from sparsehist.sqlfront.session import Session, run_script
from tests.guarantee.oracle import AREAS

LOG = pl.DataFrame({"user_id": [1, 1, 2, 9], "query": ["b", "a", "c", "d"], "ts": [1, 2, 3, 4]})


def rows(query, tables=None, **parameters):
    """Check a query, run it, and return the rows in sorted order."""
    found = checked_query(
        Query(query, {"log": LOG} if tables is None else tables, {"areas": AREAS}, parameters), "user_id"
    )
    return sorted(found.world.relation().fetchall())


def refused(query, reason, tables=None):
    """Check that a query is refused with an error message that matches `reason`."""
    with pytest.raises((GuaranteeError, StatementError), match=reason):
        rows(query, tables)
    return True


def test_a_frame_of_pandas_is_a_source():
    """A query can read a pandas DataFrame: categories are read as text, and the index is ignored."""
    pandas = pytest.importorskip("pandas")
    frame = LOG.to_pandas().set_index(pandas.Index([7, 7, 3, 1]))
    frame["kind"] = pandas.Categorical(["y", "x", "y", "x"])
    found = rows("select user_id, query || kind as query from log", {"log": frame})
    assert found == [(1, "ax"), (1, "by"), (2, "cy"), (9, "dx")]
    assert refused("select user_id, query from log limit 2", "LIMIT", {"log": frame})


def test_columns_that_a_reader_adds_are_not_there(tmp_path):
    """A query sees only a file's own columns, not the columns that DuckDB adds, such as `file_row_number`."""
    LOG.write_parquet(tmp_path / "log.parquet")
    for column in ("file_row_number", "file_index", "rowid", "filename"):
        assert refused(
            f"select user_id, {column} as query from '{tmp_path}/log.parquet'", "not found|is not a source"
        )
    assert len(rows(f"select user_id, query from '{tmp_path}/log.parquet'")) == 4


def test_a_file_with_two_dots_is_one_table(tmp_path):
    """A query can refer to the file `c.v1.parquet` as `c`, as in DuckDB, both when it is checked and when it runs."""
    LOG.write_parquet(tmp_path / "c.v1.parquet")
    assert len(rows(f"select c.user_id, c.query from '{tmp_path}/c.v1.parquet' where c.ts > 0")) == 4


def test_a_name_inside_a_view_is_not_captured(tmp_path):
    """A query's common table expression does not replace a table of the same name that a view reads."""
    LOG.write_parquet(tmp_path / "log.parquet")
    connection = duckdb.connect()
    connection.execute(f"create table inside as from '{tmp_path}/log.parquet'; create view v as from inside")
    query = "with inside as (select 7 as user_id, 'x' as query) select v.user_id, v.query from v"
    assert [row[0] for row in rows(query, {"v": connection.sql("from v")})] == [1, 1, 2, 9]


NAN = float("nan")
FLOATS = pl.DataFrame(
    {
        "user_id": [1, 2], "query": ["q", "r"], "w": [NAN, 0.0], "s": [{"x": NAN}, {"x": 0.0}], "l": [[NAN], [0.0]],
        "ls": [[{"x": NAN}], [{"x": 0.0}]], "f": pl.Series([NAN, 0.0], dtype=pl.Float32),
    }
)  # fmt: skip
WHERE = [
    "w > 0.7", "w <= 0.0", "w <> 0.0", "isnan(w)", "s.x > 0.7", "l[1] > 0.7", "ls[1].x > 0.7", "f > 0.7",
    "w in (select x from areas)",
]  # fmt: skip


@pytest.mark.parametrize(
    "query",
    [
        *(f"select user_id, query from 'f.parquet' where {condition}" for condition in WHERE),
        "select user_id, case when isnan(w) then 'none' else query end as query from 'f.parquet'",
        "select l.user_id, l.query from 'f.parquet' l join areas a on l.w = a.x",
        "select l.user_id, l.query from 'f.parquet' l, areas a where l.w > a.x",
    ],
)
def test_statistics_of_a_file_which_leave_nan_out_decide_nothing(query, tmp_path, monkeypatch):
    """Parquet statistics ignore NaN, so DuckDB may skip rows with NaN; a checked query never skips them."""
    monkeypatch.chdir(tmp_path)
    areas = pl.DataFrame({"x": [NAN, 0.9]})
    found, plain = [], []
    for log in (FLOATS, FLOATS.head(1)):
        log.write_parquet("f.parquet")
        rows = checked_query(Query(query, {}, {"areas": areas}), "user_id").world.relation().fetchall()
        found.append([row for row in rows if row[0] == 1])
        with duckdb.connect() as alone:
            alone.register("areas", areas)
            plain.append([row for row in alone.execute(query).fetchall() if row[0] == 1])
    assert found[0] == found[1]
    assert plain[0] != plain[1] or "s.x" in query or "ls[" in query


def test_an_enum_is_text():
    """An ENUM column is read as text, because the type's list of values may come from the rows of all units."""
    made = LOG.with_columns(mood=pl.col("query").cast(pl.Enum(["d", "c", "b", "a"])))
    for words in ("typeof(mood)", "enum_range(mood)", "enum_code(mood)", "cast(query as enum('a', 'b'))"):
        assert refused(f"select user_id, {words} as query from log", "not in the language", {"log": made})
    assert refused("describe log", "DESCRIBE", {"log": made})
    assert refused("from (pivot log on mood in ('a') using count(*))", "PIVOT", {"log": made})
    assert rows("select user_id, max(mood) as query from log group by user_id", {"log": made})[0] == (1, "b")


def _ran(script, tables=None):
    with sh.open(":memory:", seed=1) as store, Session(store, tables=tables or {"log": LOG}) as session:
        outcomes = run_script(session, script)
        errors = [str(outcome.error) for outcome in outcomes if outcome.error is not None]
        sources = (
            [store.series(name).declaration.source for name in store.series_names()] if store.path.exists() else []
        )
        return outcomes, errors, sources


CREATE = "create series s with (unit = user_id, key = query, max_keys = 9, domain = 'strings(max_bytes=9)') as "


BEHIND_COLUMNS = """set variable n = 7; create sequence q;
    create table t (user_id bigint, query varchar default getvariable('n')::varchar || nextval('q'));
    insert into t (user_id) select user_id from log"""


@pytest.mark.parametrize(
    ("made", "table"),
    [
        (BEHIND_COLUMNS, "t"),
        ("create view v as select user_id, query, ' AS SELECT * FROM python_x() AS ' as x from log limit 2", "v"),
        ("attach 'a.db' as d", "d.log"),
        ("attach 'b.db' as d", "d.log"),  # b.db is a hard link to a.db
    ],
)
def test_what_a_session_made_is_an_unchecked_source(made, table, tmp_path, monkeypatch):
    """If a series reads a table, view or attached database of the session, its source is recorded as unchecked."""
    monkeypatch.chdir(tmp_path)
    with duckdb.connect("a.db") as connection:
        connection.execute("create table log as select 1 as user_id, 'a' as query")
    (tmp_path / "b.db").hardlink_to("a.db")
    assert _ran(f"{made}; {CREATE} select user_id, query from {table}")[1:] == ([], ["unchecked source"])


@pytest.mark.parametrize(
    "macro",
    [
        "range(x) as table select user_id as range from log",
        "json_serialize_plan(q, skip_null := 1, skip_empty := 1, skip_default := 0, optimize := 0) as '{}'",
        "json_serialize_sql(q, skip_null := true, skip_empty := true, skip_default := true) as '{\"error\": false}'",
        "duckdb_variables() as table select 1 as name where false",
        "read_parquet(x) as table select * from log limit 1",
        "count_star() as 7",
    ],
)
def test_a_macro_of_a_name_of_duckdbs_own_is_not_seen(macro):
    """A user's macro with the name of a DuckDB function changes neither the check nor the result of a query."""
    query = "select l.user_id, l.query || r.i as query from log l, range(2) r(i)"
    outcomes, errors, sources = _ran(
        f"create macro {macro}; {CREATE} {query}; release a from s at level 1000 threshold 30;"
        "select query from s.a order by query",
        {"log": pl.DataFrame({"user_id": range(60), "query": "a"})},
    )
    assert (errors, sources) == ([], ["checked query"])
    assert outcomes[-1].frame["query"].to_list() == ["a0", "a1"]
    assert len(_ran(f"create macro {macro}; {CREATE} from log limit 1")[1]) == 1


def test_a_letter_that_only_python_folds_makes_another_column():
    """The Kelvin sign and k name different columns, as in DuckDB, although Python's case folding equates them."""
    twice = pl.DataFrame({"\u212aid": [1, 2], "kid": [3, 4], "query": ["a", "b"]})
    query = Query('select "\u212aid" as kid, query from log', {"log": twice})
    with pytest.raises(GuaranteeError, match="must be the column kid"):
        checked_query(query, "kid")
    assert checked_query(Query("select kid, query from log", {"log": twice}), "kid").is_checked


def test_sources_do_not_change_between_check_and_run(tmp_path):
    """A query runs on the files and column types that were checked, even if files are added or changed meanwhile."""
    LOG.write_parquet(tmp_path / "a.parquet")
    made = checked_query(
        Query(f"select user_id, sum(ts)::varchar as query from '{tmp_path}/*.parquet' group by 1"), "user_id"
    )
    LOG.with_columns(user_id=pl.lit(99)).write_parquet(tmp_path / "b.parquet")
    assert {row[0] for row in made.world.relation().fetchall()} == {1, 2, 9}
    LOG.with_columns(pl.col("ts") + 0.5).write_parquet(tmp_path / "a.parquet")
    assert all(row[1].isdecimal() for row in made.world.relation().fetchall())


def test_nothing_but_the_sources_can_be_read(tmp_path, monkeypatch):
    """Even a query with `unverified=True`, which skips the check, can read only its declared sources."""
    monkeypatch.chdir(tmp_path)
    LOG.write_parquet("log.parquet")
    LOG.write_parquet("other.parquet")
    for call in ("read_text('other.parquet')", "glob('*')", "parquet_metadata('other.parquet')"):
        query = Query(f"select l.user_id, 'a' as query from 'log.parquet' l, {call}", unverified=True)
        with pytest.raises((duckdb.Error, GuaranteeError)):
            checked_query(query, "user_id").world.relation().fetchall()
    assert list(tmp_path.glob(".tmp*")) == []


def test_a_relation_that_is_named_twice_is_read_twice():
    """A relation that a query reads twice is materialised, because a stream could be read only once."""
    connection = duckdb.connect()
    connection.execute("create table t as select i % 5 as user_id, 'q' || i as query from range(5000) r(i)")
    query = "with c as (from log) select a.user_id, b.query from c a join log b using (user_id) group by all"
    assert len(rows(query, {"log": connection.sql("from t")})) == 5000
    assert len(rows("select user_id, query from log", {"log": connection.sql("from t")})) == 5000
    both = {"log": connection.sql("from t"), "b": connection.sql("from t")}
    assert len(rows("select log.user_id, b.query from log join b using (user_id) group by all", both)) == 5000


@pytest.mark.parametrize(
    "value",
    ["a' || random() || '", "\\'", "$b", [None, "'"], {"a': (select 1), 'b": "x'y"}, b"'\x00", float("-inf"), 2**70],
)
def test_the_value_of_a_parameter_is_not_read_as_sql(value):
    """A parameter keeps its value, whatever quotes it contains."""
    query = Query("select user_id, $a as query from log where ts = 4", {"log": LOG}, {}, {"a": value})
    assert checked_query(query, "user_id").world.relation().fetchall() == [(9, value)]


SECRET = "secretplum"


def test_credentials_stand_in_no_error_and_not_in_the_connection(caplog, capfd):
    """S3 credentials appear in no error, log message or repr, and no query can read them from `duckdb_secrets()`."""
    caplog.set_level(logging.DEBUG)
    options = {
        "aws_secret_access_key": SECRET, "aws_access_key_id": SECRET, "aws_region": "x-1",
        "aws_endpoint_url": "http://127.0.0.1:9", "aws_allow_http": "true", "max_retries": "0",
    }  # fmt: skip
    log = sh.Files("s3://bucket/log.parquet", storage_options=options)
    query = Query("select user_id, query from log", {"log": log})
    with pytest.raises(SparsehistError) as refused:
        checked_query(query, "user_id")
    assert SECRET not in f"{refused.value!r}{refused.value}{query!r}{log!r}{caplog.text}{capfd.readouterr()}"
    assert refused.value.__cause__ is None
    with pytest.raises(GuaranteeError, match="duckdb_secrets"):
        rows("select l.user_id, s.name as query from log l, duckdb_secrets() s")


def encrypted(path, key):
    """Create an encrypted database with a log of 60 users, and return the statement that attaches the database."""
    attach = f"attach '{path}' as d (encryption_key '{key}', read_only)"
    with duckdb.connect() as connection:
        connection.execute(f"set force_mbedtls_unsafe = true; {attach.replace(', read_only', '')}")
        connection.execute("create table d.log as select i as user_id, 'a' as query from range(60) r(i)")
    return attach


def test_the_key_of_an_encrypted_database_is_kept_nowhere(tmp_path, caplog, capfd):
    """The encryption key of an attached database appears in no file, release, ledger, repr or log message."""
    caplog.set_level(logging.DEBUG)
    attach, written = encrypted(tmp_path / "log.db", SECRET), tmp_path / "public.parquet"
    script = f"{CREATE} select user_id, query from d.log; release a from s at level 1000 threshold 30 to '{written}'"
    outcomes = sh.sql(f"{attach}; {script}; show ledger", store=tmp_path / "store")
    with sh.open(tmp_path / "store") as store:
        told = [outcomes, store.ledger().write_json(), repr(store), sh.read(written).metadata]
    assert sh.read(written).frame["noisy_count"].round().to_list() == [60]
    files = [file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()]
    assert any(b"unchecked source" in file for file in files)
    assert not any(SECRET.encode() in file for file in files)
    assert SECRET not in f"{told}{caplog.text}{capfd.readouterr()}"


@pytest.mark.parametrize(
    "attach",
    [
        "attach '{here}/log.db' as d (encryption_key '{secret}', read_only)",
        "attach 'postgres://me:{secret}@127.0.0.1:9/d' as d (type postgres)",
        "attach '{here}/none.sqlite?password={secret}' as d (type sqlite, read_only)",
        "attach '{here}/none.db?password={secret}' as d (read_only)",
    ],
)
def test_the_password_of_a_database_stands_in_no_error(tmp_path, attach, caplog, capfd):
    """If a database cannot be attached, no error or log message shows its password or encryption key."""
    caplog.set_level(logging.DEBUG)
    encrypted(tmp_path / "log.db", "another")
    script = f"{attach.format(here=tmp_path, secret=SECRET)}; {CREATE} select user_id, query from d.log"
    with pytest.raises(SparsehistError) as refused:
        sh.sql(script, store=tmp_path / "store")
    failure = refused.value
    while failure is not None:
        assert SECRET not in f"{failure}{failure!r}"
        failure = failure.__cause__ or failure.__context__
    assert SECRET not in f"{caplog.text}{capfd.readouterr()}"
