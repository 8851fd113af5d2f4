"""Run counting queries on local warehouses: each function loads a frame as a table and returns the result."""

from __future__ import annotations

import atexit
import getpass
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

import duckdb
import polars as pl
import pytest

import sparsehist as sh
from tests.counting import spark
from tests.counting.logs import SALT
from tests.counting.one_histogram import Case

_OF_POSTGRES = {
    pl.String: "text",
    pl.Date: "date",
    pl.Datetime: "timestamp",
    pl.Int16: "smallint",
    pl.Boolean: "boolean",
    pl.Float64: "double precision",
}
_OF_CLICKHOUSE = {
    pl.String: "String",
    pl.Date: "Date32",
    pl.Int16: "Int16",
    pl.Int32: "Int32",
    pl.Boolean: "Bool",
    pl.Float64: "Float64",
}


def quoted(name: str) -> str:
    """Return a column name in double quotes, which DuckDB, PostgreSQL and ClickHouse accept."""
    return '"' + name.replace('"', '""') + '"'


def by_duckdb(log: pl.DataFrame, made: sh.CountingSql, table: str = "log") -> pl.DataFrame:
    """Run a counting query on DuckDB. Text columns have a collation that ignores case, which must not merge keys."""
    with duckdb.connect() as connection:
        connection.register("frame", log)
        columns = [f"{quoted(name)} {kind}" for name, kind in _typed(connection)]
        connection.execute(f"create table {quoted(table)} ({', '.join(columns)})")
        connection.execute(f"insert into {quoted(table)} from frame")
        return connection.sql(made.sql, params=made.parameters).pl()


def _typed(connection: duckdb.DuckDBPyConnection) -> list[tuple[str, str]]:
    relation = connection.table("frame")
    kinds = [f"{kind} collate nocase" if str(kind) == "VARCHAR" else str(kind) for kind in relation.types]
    return list(zip(relation.columns, kinds, strict=True))


def _postgres_binaries() -> Path | None:
    places = [
        *sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True),
        Path(shutil.which("initdb") or "").parent,
    ]
    return next((place for place in places if (place / "initdb").exists()), None)


@cache
def _postgres() -> str:
    """Start a PostgreSQL server in a temporary directory; it listens on a Unix socket and ends with this process."""
    binaries = _postgres_binaries()
    if binaries is None:
        return "PostgreSQL is not installed: make test-warehouses installs it"
    home = Path(tempfile.mkdtemp(prefix="postgres-"))
    user = getpass.getuser()
    as_user: dict[str, object] = {}
    if os.geteuid() == 0:  # a PostgreSQL server refuses to run as root
        user = next(name for name in ("postgres", "nobody") if any(one.pw_name == name for one in pwd.getpwall()))
        shutil.chown(home, user)
        as_user = {"user": user, "group": pwd.getpwnam(user).pw_gid, "extra_groups": []}

    def run(*words: str) -> None:
        subprocess.run(words, cwd=home, check=True, timeout=120, stdout=subprocess.DEVNULL, **as_user)  # type: ignore[call-overload]

    data = str(home / "data")
    locale = ("--locale-provider=icu", "--icu-locale=en") if _has_icu(binaries) else ()
    run(f"{binaries}/initdb", "-D", data, "-U", "tests", "-A", "trust", "-E", "UTF8", "--no-sync", *locale)
    options = f"-c listen_addresses='' -k {home} -c fsync=off -c autovacuum=off -c shared_buffers=16MB"
    run(f"{binaries}/pg_ctl", "-D", data, "-o", options, "-l", str(home / "log"), "-w", "-t", "60", "start")

    @atexit.register
    def stop() -> None:
        run(f"{binaries}/pg_ctl", "-D", data, "-m", "immediate", "stop")
        shutil.rmtree(home, ignore_errors=True)

    return f"host={home} user=tests dbname=postgres connect_timeout=10"


def _has_icu(binaries: Path) -> bool:
    told = subprocess.run([binaries / "initdb", "--help"], capture_output=True, text=True, timeout=30, check=True)
    return "--icu-locale" in told.stdout


def by_postgres(log: pl.DataFrame, made: sh.CountingSql, table: str = "log") -> pl.DataFrame:
    """Run a counting query on PostgreSQL. The collation is language-specific, which must not affect counts."""
    psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed: make test-warehouses installs it")
    server = _postgres()
    if not server.startswith("host="):
        pytest.skip(server)
    with psycopg.connect(server, cursor_factory=psycopg.RawCursor) as connection:
        kinds = [
            f"{quoted(name)} {_OF_POSTGRES.get(dtype.base_type(), 'bigint')}"
            + "tz" * bool(getattr(dtype, "time_zone", ""))
            for name, dtype in log.schema.items()
        ]
        connection.execute(f"create temp table {quoted(table)} ({', '.join(kinds)})")
        with connection.cursor().copy(f"copy {quoted(table)} from stdin") as rows:
            for row in log.rows():
                rows.write_row(row)
        found = connection.execute(made.sql, list(made.parameters.values()))
        names = [column.name for column in found.description]
        return pl.DataFrame(found.fetchall(), schema=names, orient="row", infer_schema_length=None)


@cache
def _clickhouse() -> object:
    session = pytest.importorskip("chdb.session", reason="chdb is not installed: make test-warehouses installs it")
    home = tempfile.mkdtemp(prefix="clickhouse-")
    here = session.Session(home)
    atexit.register(lambda: (here.close(), shutil.rmtree(home, ignore_errors=True)))
    here.query("create database tests engine = Atomic")  # the default database treats table names as file names
    return here


def by_clickhouse(log: pl.DataFrame, made: sh.CountingSql, table: str = "log") -> pl.DataFrame:
    """Run a counting query on ClickHouse."""
    session = _clickhouse()
    with tempfile.TemporaryDirectory() as directory:
        log.write_parquet(f"{directory}/log.parquet")
        kinds = {name: _OF_CLICKHOUSE.get(dtype.base_type(), "Int64") for name, dtype in log.schema.items()}
        kinds |= {name: "DateTime64(6)" for name, dtype in log.schema.items() if dtype == pl.Datetime}
        columns = ", ".join(f"{quoted(name)} Nullable({kind})" for name, kind in kinds.items())
        session.query(
            f"create or replace table tests.{quoted(table)} ({columns}) engine = MergeTree order by tuple()"
        )
        session.query(f"insert into tests.{quoted(table)} select * from file('{directory}/log.parquet')")
        session.query("use tests")
        found = session.query(made.sql, "Parquet", params=made.parameters)
        return pl.read_parquet(found.bytes())


def by_spark(log: pl.DataFrame, made: sh.CountingSql, table: str = "log") -> pl.DataFrame:
    """Run a counting query on Spark SQL."""
    without_zone = [
        name for name, dtype in log.schema.items() if isinstance(dtype, pl.Datetime) and not dtype.time_zone
    ]
    log = log.with_columns(pl.col(without_zone).dt.replace_time_zone("UTC"))
    spark.frame(log).createOrReplaceTempView(table)
    return pl.DataFrame(pl.from_arrow(spark.session().sql(made.sql, args=made.parameters).toArrow()))


WAREHOUSES: dict[str, Callable[..., pl.DataFrame]] = {
    "duckdb": by_duckdb,
    "postgres": by_postgres,
    "clickhouse": by_clickhouse,
    "spark": by_spark,
}


def unit_types(case: Case) -> dict[str, str]:
    """Return the SQL types of those columns of the privacy unit that are not text."""
    kinds = {pl.Int64: "integer", pl.Date: "date", pl.Datetime: "timestamp"}
    held = {name: case.log.schema[name].base_type() for name in case.unit}
    return {name: kinds[kind] for name, kind in held.items() if kind in kinds}


def counted_in(engine: str) -> Callable[[Case], dict[tuple[object, ...], int]]:
    """Return a function that counts a `Case` by key, with a counting query in this warehouse."""

    def counted(case: Case) -> dict[tuple[object, ...], int]:
        if case.nul and engine == "postgres":
            pytest.skip("text of PostgreSQL holds no NUL")
        made = sh.counting_sql(engine, "log", **case.declared, unit_types=unit_types(case), salt=SALT)  # type: ignore[arg-type]
        rows = made.counts(WAREHOUSES[engine](case.log, made)).frame.collect().rows()
        return {row[:-1]: row[-1] for row in rows}

    return counted
