"""Errors of the engine about what rows were made into: types, names of columns, values of variables."""

import pytest

from tests.sqlfront.conftest import SECRET_KEY

ENUM = "create type kind as enum (select distinct query from log);"
PIVOT = "create table wide as pivot log on query using count(*);"
VARIABLE = f"set variable held = (select min(query) from log where query like '{SECRET_KEY[:5]}%');"
FILES = f"copy (select query, 1 as n from log where query like '{SECRET_KEY[:5]}%') to 'rows.csv' (header false);"
ROWS = "read_csv('rows.csv', header = true)"

TOLD = {
    "a type of rows": (f"{ENUM} select abs('weather'::kind)", "abs(ENUM(…)"),
    "a column of such a type": (
        f"{ENUM} create table t (k kind); select k + 1 from t",
        "+(ENUM(…)",
    ),
    "columns of rows": (f"{PIVOT} select sum(wide) from wide", "sum(STRUCT(…)"),
    "columns of rows, cast": (f"{PIVOT} select wide::struct(zz int) from wide", "STRUCT(…)"),
    "the first row of a file": (f"{FILES} select rows + 1 from {ROWS} rows", "STRUCT(…)"),
    "a wrong column": (f"{PIVOT} select nosuch from wide", 'Referenced column "nosuch" not found'),
    "a wrong type": ("select abs(query) from log", "abs(VARCHAR)"),
    "a table named by a variable": (f"{VARIABLE} select * from query_table(getvariable('held'))", "withheld"),
    "a query in a variable": (f"{VARIABLE} select * from query('from ' || getvariable('held'))", "withheld"),
    "a file named by a variable": (f"{VARIABLE} select * from read_parquet(getvariable('held'))", "withheld"),
    "a setting named by a variable": (f"{VARIABLE} select current_setting(getvariable('held'))", "withheld"),
    "a function named by a variable": (f"{VARIABLE} select list_aggregate([1], getvariable('held'))", "withheld"),
    "a schema named by a variable": (f"{VARIABLE} set schema = getvariable('held')", "withheld"),
    "a field named by a variable": (f"{VARIABLE} select struct_extract({{'a': 1}}, getvariable('held'))", "withheld"),
}


@pytest.mark.parametrize("name", TOLD)
def test_an_error_quotes_the_statement_and_nothing_else(ran, here, name):
    """What the engine quotes is told where it stands in the statement, and left out where rows have made it."""
    text, expected = TOLD[name]
    outcomes, problems = ran(text)
    assert len(problems) == 1
    assert expected in problems[0]
    assert SECRET_KEY not in problems[0] + repr(outcomes)
    found = next(outcome.error for outcome in outcomes if outcome.error is not None)
    assert found.__cause__ is None and found.__context__ is None
