"""A test oracle for queries: delete units or shuffle rows, and compare the results for the remaining units."""

from __future__ import annotations

import re
from collections import Counter

import duckdb
import numpy as np
import polars as pl

from sparsehist.counting.contract import Query
from sparsehist.counting.sources import checked_query
from sparsehist.errors import GuaranteeError, StatementError

AREAS = pl.DataFrame(
    {
        "country": ["DE", "DE", "FR", "ES"],
        "region": ["west", "east", "west", "b"],
        "weight": [1.5, 2.0, 3.25, 0.5],
        "user_id": [1, 2, 9, 3],
    }
)
DAYS = pl.DataFrame({"day": [1, 2], "label": ["one", "two"]})
UNITS = (1, 2, 3, 4, 5, None)
MANY_UNITS = 20_000


def log(rng, rows, units):
    """Return a random log in which every column except the privacy unit has many equal values."""
    days = np.arange("2024-01-01", "2024-01-05", dtype="datetime64[D]")
    return pl.DataFrame(
        {
            "user_id": rng.choice(units, rows),
            "query": rng.choice(["a", "b", "c", "west"], rows),
            "n": rng.integers(0, 4, rows),
            "w": rng.choice([0.1, 0.2, 0.7, 1.3, -0.0, 0.0], rows),
            "ts": rng.choice(days, rows).astype("datetime64[us]"),
            "country": rng.choice(["DE", "FR", "IT"], rows),
            "tags": rng.choice(["a", "b", "x"], (rows, 2)).tolist(),
            "attr": pl.Series(rng.choice(["a", "b"], rows)).to_frame("a").to_struct(),
        }
    )


def tables(seed):
    """Return small random tables. In one table, a row has a null in the column of the privacy unit."""
    rng = np.random.Generator(np.random.PCG64(seed))
    large = bool(seed % 2)
    size = 9 if large else 3
    clicks = pl.DataFrame(
        {
            "user_id": pl.Series([*rng.choice(UNITS[:4], size - 1).tolist(), None], dtype=pl.Int64),
            "page": rng.choice(["a", "b", "c"], size),
            "ts": log(rng, size, UNITS[:5])["ts"],
            "user_ref": rng.choice(UNITS[:5], size),
        }
    )
    return {
        "log": log(rng, 20 if large else 6, UNITS[:5]),
        "log_b": log(rng, 8 if large else 3, UNITS[:5]),
        "clicks": clicks,
    }


def large_tables():
    """Return tables that are so large that DuckDB uses several threads."""
    units, rows = MANY_UNITS, 3 * MANY_UNITS
    rng = np.random.Generator(np.random.PCG64(units))
    clicks = log(rng, rows // 2, np.arange(units)).select("user_id", page="query", ts="ts", user_ref="n")
    return {
        "log": log(rng, rows, np.arange(units)),
        "log_b": log(rng, rows // 3, np.arange(units)),
        "clicks": clicks.with_columns(pl.col("user_ref").cast(pl.Int64)),
    }


def fill(connection, held):
    """Create the given private tables and the public tables `areas` and `days` in a database."""
    for name, frame in {**held, "areas": AREAS, "days": DAYS}.items():
        connection.register("given", frame)
        connection.execute(f"create or replace table {name} as select * from given")
        connection.unregister("given")


def accepted(query, held=None):
    """Return the checked SQL text of a query on the test tables, or None if the query check refuses it."""
    given = tables(1) if held is None else held
    try:
        world = checked_query(Query(query, given, {"areas": AREAS, "days": DAYS}), "user_id").world
    except (GuaranteeError, StatementError):
        return None
    return re.sub(r"memory\.main\.(source_\d+)", lambda found: world.sources[found[1]].name, world.text)


def rows_of(connection, query):
    """Return, for each privacy unit, how often each row occurs in the result of a query."""
    result = connection.execute(query)
    at = [column[0] for column in result.description].index("user_id")
    rows: dict[object, Counter[str]] = {}
    for row in result.fetchall():
        rows.setdefault(row[at], Counter())[repr(row)] += 1
    return rows


class Small:
    """Databases of small tables: one unchanged, one shuffled, and for each privacy unit one without its rows."""

    def __init__(self):
        self.engine = duckdb.connect(config={"threads": 2, "memory_limit": "500MB"})
        self.names: dict[int, list[str]] = {}

    def of(self, seed):
        """Return the names of the databases whose tables are drawn with this seed, the unchanged database first."""
        if seed not in self.names:
            held = tables(seed)
            every = [held, {name: frame.sample(fraction=1, shuffle=True, seed=seed) for name, frame in held.items()}]
            every += [
                {name: frame.filter(pl.col("user_id").ne_missing(unit)) for name, frame in held.items()}
                for unit in UNITS
            ]
            self.names[seed] = [f"of_{seed}_{number}" for number in range(len(every))]
            for name, some in zip(self.names[seed], every, strict=True):
                self.engine.execute(f"attach ':memory:' as {name}")
                self.engine.execute(f"use {name}")
                fill(self.engine, some)
        return self.names[seed]

    def rows(self, query, database):
        """Return, for each unit, how often each row occurs in the result of a query in a database."""
        self.engine.execute(f"use {database}")
        return rows_of(self.engine, query)

    def breaks(self, query, seed):
        """Return whether deleting a unit changes another unit's rows, or shuffling changes the rows of any unit."""
        whole, shuffled, *without = self.of(seed)
        expected = self.rows(query, whole)
        if self.rows(query, shuffled) != expected:
            return True
        return any(
            self.rows(query, left) != {other: rows for other, rows in expected.items() if other != unit}
            for unit, left in zip(UNITS, without, strict=True)
        )


class Large:
    """Databases of large tables: one is complete, three lack the same four units, and one of these is shuffled."""

    def __init__(self):
        self.held = large_tables()
        self.gone = (0, 1, MANY_UNITS // 2, MANY_UNITS - 1)
        rest = ~pl.col("user_id").is_in(self.gone)
        without = {name: frame.filter(rest) for name, frame in self.held.items()}
        shuffled = {n: frame.sample(fraction=1, shuffle=True, seed=7) for n, frame in without.items()}
        self.engines = {}
        databases = {"whole": (self.held, 4), "one": (without, 1), "two": (without, 2), "other": (shuffled, 4)}
        for name, (some, threads) in databases.items():
            self.engines[name] = duckdb.connect(config={"threads": threads})
            fill(self.engines[name], some)

    def close(self):
        """Close the connections to all databases."""
        for engine in self.engines.values():
            engine.close()

    def _digest(self, name, query, columns):
        listed = ", ".join(f'"{column}"' for column in columns)
        text = (
            f"with q as ({query}) select user_id, sum(hash(({listed})::varchar)::hugeint) as h, count(*) as c from q "
            f"where user_id is null or user_id::varchar not in ({', '.join(repr(str(unit)) for unit in self.gone)}) "
            "group by user_id order by user_id"
        )
        return self.engines[name].execute(text).fetchall()

    def breaks(self, query):
        """Return whether the databases differ in a query's rows for any unit that is in all of them."""
        query = query.strip().removesuffix(";")
        columns = [
            column[0] for column in self.engines["one"].execute(f"select * from ({query}) limit 0").description
        ]
        self.engines["one"].execute("select 1").fetchall()
        expected = self._digest("whole", query, columns)
        return any(self._digest(name, query, columns) != expected for name in ("one", "two", "other"))
