# ruff: noqa: E501  the queries are those of tests, and easier to read in one line
"""Ways around the check: statements before a series that change what its query reads, or what it means."""

import polars as pl
import pytest

import sparsehist as sh
from sparsehist.sqlfront.running import run_script
from sparsehist.sqlfront.session import Session

OPTIONS = "unit = user_id, key = query, max_keys = 3, domain = 'strings(max_bytes=16)'"
LOG = pl.DataFrame({"user_id": [f"u{i}" for i in range(30)], "query": ["a", "b", "c"] * 10})
CLICKS = pl.DataFrame({"user_id": [f"u{i}" for i in range(5)], "query": ["a"] * 5})
AREAS = pl.DataFrame({"country": ["DE", "FR"], "weight": [1.0, 2.0]})
BAD = "select max(user_id) as user_id, query from log group by query"
GOOD = "select user_id, query from log"
OF_T = "select user_id, query from t"
IF_T = "select user_id, query from clicks where exists (select 1 from t)"
VISITS = f"create series visits with ({OPTIONS}) as from log; release public from visits at level 1 expecting 1 false keys;"


@pytest.fixture
def made(here):
    """Run statements, then make a series from a query: whether it was made, and what was said of it."""

    def run(before, query, *, options=OPTIONS, keep_going=False):
        with (
            sh.open(":memory:", seed=1) as store,
            Session(store, tables={"log": LOG, "clicks": CLICKS, "areas": AREAS}) as session,
        ):
            text = f"{before};\ncreate series x with ({options}, public_tables = 'areas') as {query}"
            outcomes = run_script(session, text, keep_going=keep_going)
            errors = " ".join(str(outcome.error) for outcome in outcomes if outcome.error is not None)
            return "x" in store.series_names(), errors

    return run


WAYS = {
    # a table that may be two
    "a table of the name of a frame": (
        "create table log as select 1 as one",
        "select user_id, query from clicks where exists (select 1 from log)",
        "two tables",
    ),
    "a temporary table first": (
        f"create temp table t as {BAD}; create table t as {GOOD}",
        OF_T,
        "gathers the rows of all units",
    ),
    "a temporary table instead": (
        f"create table t as {BAD}; create or replace temp table t as {GOOD}; drop table t",
        OF_T,
        "gathers the rows of all units",
    ),
    "one table in each schema": (
        f"create schema s; use s; create table t as {BAD}; use memory.main; create table t as {GOOD}; use s",
        OF_T,
        "gathers the rows of all units",
    ),
    "a schema set": (
        f"create schema s; set schema = 's'; create table t as {BAD}; set schema = 'main'; create table t as {GOOD}; set search_path = 's'",
        OF_T,
        "gathers the rows of all units",
    ),
    "tables that differ in one letter": (
        f'create table "\u00c4" as {BAD}; create table "\u00e4" as {GOOD}',
        'select user_id, query from "\u00c4"',
        "GROUP BY",
    ),
    "a database copied": (
        f"attach ':memory:' as a; attach ':memory:' as b; create table a.t as {BAD}; copy from database a to b",
        "select user_id, query from b.t",
        "may have changed",
    ),
    "a database under another name": (
        f"attach 'w.duckdb' as a; create table a.t as {BAD}; detach a; attach 'w.duckdb' as b",
        "select user_id, query from b.t",
        "under another name of its database",
    ),
    "a temporary view by its catalogue": (
        f"create temp view main.t as {BAD}",
        "from temp.t",
        "gathers the rows of all units",
    ),
    "a table by its catalogue": (f"create table memory.t as {BAD}", "from main.t", "gathers the rows of all units"),
    "a table by the catalogue alone": (
        f"attach ':memory:' as o; create table o.main.t as {BAD}",
        "select user_id, query from o.t",
        "gathers the rows of all units",
    ),
    "a table of one schema of two catalogues": (
        f"create table main.t as {BAD}; attach ':memory:' as o; use o; create table k as {GOOD.replace('log', 'temp.log')}; use memory",
        "from main.t",
        "gathers the rows of all units",
    ),
    # a table that stays what it was
    "if not exists, with columns": (
        f"create table t as {BAD}; create table if not exists t (user_id varchar, query varchar)",
        OF_T,
        "GROUP BY",
    ),
    "if not exists, with a query": (
        f"create table t (user_id varchar, query varchar); insert into t {BAD}; create table if not exists t as {GOOD}",
        OF_T,
        "cannot be followed",
    ),
    "dropped in another schema": (
        f"create schema s; create table s.t (i int); create table t (user_id varchar, query varchar); insert into t {BAD}; drop table s.t",
        OF_T,
        "cannot be followed",
    ),
    "a schema of the name dropped": (f"create table t as {BAD}; create schema t; drop schema t", OF_T, "GROUP BY"),
    "made before it was replaced": (
        f"create table k as {BAD}; create table t as from k; create or replace table k as {GOOD}",
        OF_T,
        "GROUP BY",
    ),
    "made before it was dropped": (
        f"create table k as {BAD}; create table t as from k; drop table k",
        OF_T,
        "GROUP BY",
    ),
    "made of what was cleared later": (
        f"create table k (user_id varchar, query varchar); insert into k {BAD}; create table t as from k; create or replace table k as {GOOD}",
        OF_T,
        "k was made or changed",
    ),
    "made of what was cleared, named by a text": (
        f"create table k (user_id varchar, query varchar); insert into k {BAD}; create table t as from 'k'; create or replace table k as {GOOD}",
        OF_T,
        "k was made or changed",
    ),
    "written before it was replaced": (
        f"create table k as {BAD}; copy k to 'f.parquet'; create or replace table k as {GOOD}",
        "select user_id, query from 'f.parquet'",
        "GROUP BY",
    ),
    "a view of what was replaced": (
        f"create table k as {GOOD}; create view t as from k; create or replace table k as {BAD}",
        OF_T,
        "GROUP BY",
    ),
    "a type of the log": (
        "create type e as enum (select query from log group by query having count(*) > 3)",
        "select user_id, query from log where try_cast(query as e) is not null",
        "ENUM",
    ),
    "a type of the log, in a table": (
        "create type e as enum (select query from log group by query having count(*) > 3); create view t as select user_id, query::e as query from log",
        OF_T,
        "ENUM",
    ),
    "taken back": (
        f"create table t as {BAD}; begin; create or replace table t as {GOOD}; rollback",
        OF_T,
        "GROUP BY",
    ),
    # what is put into a table
    "named by a text": (
        f"create table t (user_id varchar, query varchar); insert into t {BAD}",
        "select user_id, query from 't'",
        "cannot be followed",
    ),
    "values of a macro": (
        "create macro f() as (select count(*) from log); create table t as select 1 as n where false; insert into t values (f())",
        IF_T,
        "cannot be followed",
    ),
    "values of a variable": (
        "set variable v = (select count(*) from log); create table t as select 1 as n where false; insert into t values (getvariable('v'))",
        IF_T,
        "cannot be followed",
    ),
    "rows of a file": (
        f"copy ({BAD}) to 'f.parquet'; create table t (user_id varchar, query varchar); copy t from 'f.parquet'",
        OF_T,
        "filled",
    ),
    "rows of a file into a public table": (
        "create table t as select 1 as n where false; copy (select count(*) as n from log) to 'f.parquet'; copy t from 'f.parquet'",
        IF_T,
        "filled",
    ),
    "guessed rows": (
        "copy log to 'f.csv'; create table t (user_id varchar, query varchar); copy t from 'f.csv'",
        OF_T,
        "filled",
    ),
    "rows put in on the way to a table": (
        f"create table t as {GOOD}; create table k as with a as (insert into t {BAD} returning *) from a",
        OF_T,
        "may have changed",
    ),
    "rows put in on the way to a file": (
        f"create table t as {GOOD}; copy (with a as (insert into t {BAD} returning *) from a) to 'f.parquet'",
        OF_T,
        "may have changed",
    ),
    "a database read by a pragma": (
        f"create table t as {GOOD}; export database 'f'; create or replace table t as {GOOD}; pragma import_database('f')",
        OF_T,
        "already exists",
    ),
    "rows of a prepared copy": (
        f"create table t as {GOOD}; copy ({BAD}) to 'f.parquet'; prepare p as copy t from 'f.parquet'; execute p",
        OF_T,
        "may have changed",
    ),
    "rows in the place of a release": (
        f"{VISITS} copy (select query, 1.0 as n from clicks) to 'f.parquet'; copy visits.public from 'f.parquet'",
        "select user_id, query from log where query in (select query from visits.public)",
        "filled",
    ),
    "a release of another database": (
        f"{VISITS} attach ':memory:' as o; use o",
        "select user_id, query from memory.main.clicks semi join visits.public using (query)",
        "does not exist",
    ),
    # what a function or a comparison means
    "a macro beside a table": (
        "create macro lower(x) as x || (select count(*) from log); create table lower(i int); drop table lower",
        "select user_id, lower(query) as query from log",
        "in a macro",
    ),
    "texts that are alike": (
        "set default_collation = 'nocase'",
        "select user_id, query from log group by all",
        "default_collation",
    ),
    "texts that are alike to a pragma": (
        "pragma default_collation = 'nocase'",
        "select user_id, query from log group by all",
        "default_collation",
    ),
    "texts that are alike to a column": (
        "create table t (user_id varchar collate nocase, query varchar); insert into t values ('a', 'b')",
        OF_T,
        "names no unit exactly",
    ),
    "units of two types": (
        "create table k (user_id bigint, query varchar); insert into k values (1, 'a'); create table t (user_id varchar); insert into t values ('01')",
        "select k.user_id, k.query from k join t on k.user_id = t.user_id",
        "one type",
    ),
    "public, but of the log": (
        "create table areas as select query from log group by query having count(*) > 3",
        "select user_id, query from log semi join areas using (query)",
        "does not exist",
    ),
    # files that were written
    "a file by a longer path": (
        f"copy ({BAD}) to 'f.parquet'",
        "select user_id, query from './f.parquet'",
        "as this session made it",
    ),
    "a file by a pattern": (
        f"copy ({BAD}) to 'f.parquet'",
        "select user_id, query from read_parquet('*.parquet')",
        "as this session made it",
    ),
    "a file without quotes": (
        f"copy ({BAD}) to 'f.parquet'",
        "select user_id, query from f.parquet",
        "reads files or a frame",
    ),
    "a file behind a view": (
        f"copy ({BAD}) to 'f.parquet'; create view t as from 'f.parquet'",
        OF_T,
        "as this session made it",
    ),
    "a file in a folder": (
        f"copy ({BAD}) to 'f' (format parquet, partition_by (query))",
        "select user_id, query from read_parquet('f/query=a/*.parquet')",
        "as this session made it",
    ),
    "a file written from itself": (
        f"copy ({BAD}) to 'f.parquet'; copy (from 'f.parquet') to 'f.parquet'",
        "select user_id, query from 'f.parquet'",
        "as this session made it",
    ),
    "a file written and taken back": (
        f"begin; copy ({BAD}) to 'f.parquet'; rollback",
        "select user_id, query from 'f.parquet'",
        "as this session made it",
    ),
    "a database in files": (
        f"create table t as {BAD}; export database 'f' (format parquet)",
        "select user_id, query from 'f/t.parquet'",
        "cannot be followed",
    ),
}


@pytest.mark.parametrize("name", WAYS)
def test_a_way_around_the_check_is_closed(made, name):
    """A query that would be harmless by its words alone is refused for what stands behind them."""
    before, query, reason = WAYS[name]
    there, errors = made(before, query)
    assert not there
    assert reason in errors


HARMLESS = {
    "a table made in another database": (
        f"attach 'a.duckdb' as a; use a; create table if not exists t as {GOOD}",
        OF_T,
    ),
    "a macro of another name": ("create macro f(x) as x", "select user_id, query from log"),
    "rows of a Parquet file": (f"copy ({GOOD}) to 'f.parquet'; create table t as from 'f.parquet'", OF_T),
    "literals": (
        "create table t (user_id varchar, query varchar); insert into t values (lower('A'), upper('b')), (concat('u', 1), 'c')",
        OF_T,
    ),
    "one table after another": (f"create table t as {BAD}; drop table t; create table t as {GOOD}", OF_T),
    "made before what it is of was filled": (
        f"create table k as {GOOD}; create table t as from k; insert into k {BAD}",
        OF_T,
    ),
    "made of what was dropped": (f"create table k as {GOOD}; create table t as from k; drop table k", OF_T),
    "in place of another": (f"create table t as {BAD}; create or replace table t as {GOOD}", OF_T),
    "a table by its schema": (f"create schema s; create table s.t as {GOOD}", "select user_id, query from s.t"),
    "a table after a move": (f"create schema s; use s; create table t as {GOOD}", OF_T),
    "whole numbers of two widths": (
        "create table k (user_id bigint, query varchar); insert into k values (1, 'a'); create table t (user_id int); insert into t values (1)",
        "select k.user_id, k.query from k join t on k.user_id = t.user_id",
    ),
    "a comparison by a collation": ("select 1", "select user_id, query from log where query collate nocase = 'A'"),
    "a database attached": (f"attach 'a.duckdb' as a; create table a.t as {GOOD}", "select user_id, query from a.t"),
    "settings": ("set threads = 1; set timezone = 'UTC'; pragma version", GOOD),
    "a good file written from itself": (
        f"copy ({GOOD}) to 'f.parquet'; copy (from 'f.parquet') to 'f.parquet'",
        "select user_id, query from 'f.parquet'",
    ),
    "a commit": (f"begin; create table t as {GOOD}; commit", OF_T),
    "a frame dropped and made": ("create table k as from log; drop view log; create table log as from k", GOOD),
}


@pytest.mark.parametrize("name", HARMLESS)
def test_what_changes_nothing_is_let_through(made, name):
    """Statements that leave each unit its own rows are no obstacle."""
    there, errors = made(*HARMLESS[name])
    assert there, errors


def test_a_commit_that_fails_takes_all_back(made):
    """A table made in a transaction that could not be committed is the one from before."""
    before = f"""create table t as {BAD}; create table one (i int primary key); begin;
        create or replace table t as {GOOD}; insert into one values (1); insert into one values (1); commit"""
    there, errors = made(before, OF_T, keep_going=True)
    assert not there
    assert "GROUP BY" in errors


def test_nothing_is_spent_in_a_transaction_that_an_error_has_ended(here):
    """Until it is left, statements are refused before they run, and said to be; then all is as before it."""
    with sh.open(":memory:", seed=1) as store, Session(store, tables={"log": LOG}) as session:
        run_script(session, f"create table one (i int primary key); insert into one values (1); {VISITS}")
        run_script(session, "begin; insert into one values (1)")
        for text in (
            "release more from visits at level 2 expecting 1 false keys",
            "select * from visits.public",
            f"create series x with ({OPTIONS}) as {GOOD}",
            "drop series visits",
        ):
            (outcome,) = run_script(session, text)
            assert "ROLLBACK" in str(outcome.error), text
        assert store.series("visits").releases()["name"].to_list() == ["public"]
        outcomes = run_script(session, f"rollback; create series x with ({OPTIONS}) as {GOOD}; from visits.public")
        assert [outcome.error for outcome in outcomes] == [None] * 3


def test_a_public_table_made_from_the_log_is_none(made):
    """A table this session made is public if all it was made from is, whatever it is declared to be."""
    query = "select user_id, query from log semi join often using (query)"
    for source, public, refused in [("log", "", True), ("clicks", "", True), ("clicks", ", 'clicks'", False)]:
        options = f"{OPTIONS}, public_tables = ('areas', 'often'{public})"
        rows = f"from {source} group by query"
        before = f"create table counted as select query {rows}; create view often as from counted"
        with sh.open(":memory:", seed=1) as store, Session(store, tables={"log": LOG, "clicks": CLICKS}) as session:
            outcomes = run_script(session, f"{before}; create series x with ({options}) as {query}")
            errors = " ".join(str(outcome.error) for outcome in outcomes if outcome.error is not None)
            assert bool(errors) is refused
            assert not refused or "in counted, as this session made it" in errors


def test_public_files_keep_their_spelling(here):
    """A public file is named with its capitals, and no other file is public."""
    AREAS.write_csv("Areas.csv")
    query = "select l.user_id, l.query from log l join 'Areas.csv' a on a.weight > 1"
    with sh.open(":memory:", seed=1) as store, Session(store, tables={"log": LOG}) as session:
        for public, refused in [("areas.csv", True), ("Areas.csv", False)]:
            text = f"create series x with ({OPTIONS}, public_tables = '{public}') as {query}"
            assert any(outcome.error for outcome in run_script(session, text)) is refused


def test_a_parameter_with_capitals_is_followed(here):
    """A table made with a parameter is known by its query, however the parameter is written."""
    text = f"create table t as {GOOD} where query <> $Left; create series x with ({OPTIONS}) as {OF_T} where query <> $LEFT"
    with sh.open(":memory:", seed=1) as store:
        store.sql(text, tables={"log": LOG}, parameters={"left": "c"})
        assert store.series_names() == ["x"]
