"""DuckDB errors are shown without anything that may contain values from the log, such as types and column names."""

import pytest

from tests.sqlfront.conftest import SECRET_KEY

ENUM = "create type kind as enum (select distinct query from log);"
PIVOT = "create table wide as pivot log on query using count(*);"
VARIABLE = f"set variable held = (select min(query) from log where query like '{SECRET_KEY[:5]}%');"
FILES = f"copy (select query, 1 as n from log where query like '{SECRET_KEY[:5]}%') to 'rows.csv' (header false);"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"{ENUM} select abs('weather'::kind)", "abs(ENUM(…)"),
        (f"{PIVOT} select sum(wide) from wide", "sum(STRUCT(…)"),
        (f"{PIVOT} select wide::struct(zz int) from wide", "STRUCT(…)"),
        (f"{FILES} select rows + 1 from read_csv('rows.csv', header = true) rows", "STRUCT(…)"),
        (f"{PIVOT} select nosuch from wide", 'Referenced column "nosuch" not found'),
        (f"{VARIABLE} select * from query_table(getvariable('held'))", "withheld"),
        (f"{VARIABLE} select current_setting(getvariable('held'))", "withheld"),
        (f"{VARIABLE} set schema = getvariable('held')", "withheld"),
        (f"{VARIABLE} select struct_extract({{'a': 1}}, getvariable('held'))", "withheld"),
    ],
)
def test_an_error_quotes_the_statement_and_nothing_else(ran, here, text, expected):
    """An error quotes only text from the statement itself, and withholds everything that DuckDB adds."""
    outcomes, problems = ran(text)
    assert len(problems) == 1
    assert expected in problems[0]
    assert SECRET_KEY not in problems[0] + repr(outcomes)
    found = next(outcome.error for outcome in outcomes if outcome.error is not None)
    assert found.__cause__ is None and found.__context__ is None
