"""Every statement in sql/ parses and is used."""

from pathlib import Path

import pytest
import sqlglot

from sparsehist.store.statements import named_statements

CHECKOUT = Path(__file__).parents[2]
STATEMENTS = {
    (file.name, name): text
    for file in sorted((CHECKOUT / "sql").glob("**/*.sql"))
    for name, text in (named_statements(file.read_text(encoding="utf-8")) or {file.stem: file.read_text()}).items()
}


@pytest.mark.parametrize("name", STATEMENTS, ids="/".join)
def test_a_statement_parses_and_says_what_it_gives(name):
    """Values are bound by name, and the header of a query names its columns."""
    text = STATEMENTS[name]
    parsed = [one for one in sqlglot.parse(text, dialect="sqlite" if name[0] == "state.sql" else "duckdb") if one]
    assert not any(isinstance(one, sqlglot.exp.Placeholder) for one in parsed[-1].walk() if not one.name)
    gives = isinstance(parsed[-1], sqlglot.exp.Query) or parsed[-1].find(sqlglot.exp.Returning)
    assert not gives or "-- out:" in text


def test_every_statement_is_used_under_one_name():
    """Every statement is named in the code, and no two statements share a name."""
    code = "\n".join(path.read_text(encoding="utf-8") for path in (CHECKOUT / "sparsehist").rglob("*.py"))
    assert [name for _, name in STATEMENTS if f'"{name}"' not in code] == []
    assert len({name for _, name in STATEMENTS}) == len(STATEMENTS)
