"""Statements at random before a series: what is accepted holds none of the rows that broke the guarantee."""

import numpy as np
import pytest

import sparsehist as sh
from sparsehist.sqlfront.running import run_script
from sparsehist.sqlfront.session import Session
from tests.sqlfront.conftest import OPTIONS, small_log

GOOD, BAD = "select user_id, query from base", "select user_id, 'BAD' as query from base limit 3"
BEGIN = "create schema s; attach ':memory:' as o; create table one (i int primary key); insert into one values (1)"


class Statements:
    """Draws statements about a few tables of a few names, many of which fail."""

    def __init__(self, seed):
        self.rng = np.random.Generator(np.random.PCG64(seed))

    def one(self, *choices):
        return choices[self.rng.integers(len(choices))]

    def name(self):
        name = self.one("t", "t", "t", "k", "log")
        return self.one(
            *[name] * 8, *(f"{of}.{name}" for of in ("s", "main", "memory.main", "temp", "o")), f'"{name.upper()}"'
        )

    def table(self):
        return self.one(self.name(), self.name(), self.name(), "'f.parquet'", "'./g.parquet'", "'[fg].parquet'")

    def source(self):
        return self.one(
            GOOD, BAD, BAD, f"from {self.table()}", f"with x as (from {self.table()}) select user_id, query from x"
        )

    def statement(self):
        one, name, source = self.one, self.name(), self.source()
        replaced, temporary = one("", "or replace "), one("", "", "", "temp ")
        kept = "" if replaced else one("", "if not exists ")
        return one(
            *[f"create {replaced}{temporary}{one('table', 'table', 'view')} {kept}{name} as {source}"] * 8,
            f"create {replaced}{temporary}table {kept}{name} (user_id varchar, query varchar)",
            *[f"insert into {name} {one(source, 'values (chr(117), chr(97))')}"] * 2,
            *[f"drop {one('table', 'view')} {one('', 'if exists ')}{name}"] * 2,
            one("begin", "begin", "insert into one values (1)"),
            one("commit", "rollback"),
            one("use s", "use memory.main", "use o", "set schema = 's'", "set search_path = 's,main'"),
            f"alter {one('table', 'view')} {name} rename to {one('t', 'k')}",
            f"copy ({source}) to '{one('f', 'g')}.parquet'",
            f"copy {name} from '{one('f', './g')}.parquet'",
            one("copy from database memory to o", "drop schema s cascade", "create schema s", "detach o"),
            f"update {name} set query = 'BAD'",
        )  # fmt: skip


def _tried(statements):
    """Run statements, then queries: whether a series is made of each, and whether rows are there that must not be."""
    tables = {"base": small_log().head(6)} | ({"log": small_log().head(6)} if statements.rng.random() < 0.3 else {})
    with sh.open(":memory:", seed=1) as store, Session(store, tables=tables) as session:
        run_script(session, BEGIN)
        told = [statements.statement() for _ in range(statements.rng.integers(2, 9))]
        for text in told:
            run_script(session, text)
        for table in ("t", "k", statements.table(), statements.table()):
            query = f"select user_id, query from {table}"
            (rows,) = run_script(session, query)
            if rows.error is None:
                (made,) = run_script(session, f"create series x with ({OPTIONS}) as {query}")
                run_script(session, "drop series if exists x")
                accepted = made.error is None or "log is empty" in str(made.error)
                yield accepted, "BAD" in rows.frame["query"].to_list(), ";\n".join([*told, query])


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 11))])
def test_what_is_accepted_holds_no_row_that_broke_the_guarantee(here, seed):
    """Whatever tables are made, replaced, renamed, copied and taken back, rows that a LIMIT chose make no series."""
    statements = Statements(seed)
    accepted = bad = 0
    for _ in range(60):
        for is_accepted, is_bad, told in _tried(statements):
            assert not (is_accepted and is_bad), told
            accepted += is_accepted
            bad += is_bad
        for file in here.iterdir():
            file.unlink()
    assert accepted >= 1
    assert bad >= 5
