"""Every statement in sql/ parses and is used; none is put together from text."""

import ast
from pathlib import Path

import pytest
import sqlglot

from sparsehist.store.statements import named_statements

CHECKOUT = Path(__file__).parents[2]
MODULES = sorted((CHECKOUT / "sparsehist").rglob("*.py"))
STATEMENTS = {
    (file.name, name): text
    for file in sorted((CHECKOUT / "sql").glob("**/*.sql"))
    for name, text in (named_statements(file.read_text(encoding="utf-8")) or {file.stem: file.read_text()}).items()
}


@pytest.mark.parametrize("name", STATEMENTS, ids="/".join)
def test_a_statement_parses_and_says_what_it_gives(name):
    """Values are bound by name, and a query names its columns in its header."""
    text = STATEMENTS[name]
    parsed = [one for one in sqlglot.parse(text, dialect="sqlite" if name[0] == "state.sql" else "duckdb") if one]
    assert not any(isinstance(one, sqlglot.exp.Placeholder) for one in parsed[-1].walk() if not one.name)
    gives = isinstance(parsed[-1], sqlglot.exp.Query) or parsed[-1].find(sqlglot.exp.Returning)
    assert not gives or "-- out:" in text


def test_every_statement_is_used_under_one_name():
    """A statement nobody runs is not kept."""
    code = "\n".join(path.read_text(encoding="utf-8") for path in MODULES)
    assert [name for _, name in STATEMENTS if f'"{name}"' not in code] == []
    assert len({name for _, name in STATEMENTS}) == len(STATEMENTS)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.name)
def test_no_statement_is_put_together_from_text(path):
    """What `statement` gives is run as it is, or has its identifiers set in the tree."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        parts = [node.left, node.right] if isinstance(node, ast.BinOp) else []
        parts += node.values if isinstance(node, ast.JoinedStr) else []
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "format":
            parts.append(node.func.value)
        called = [one.func for part in parts for one in ast.walk(part) if isinstance(one, ast.Call)]
        assert not any(isinstance(one, ast.Name) and one.id == "statement" for one in called)
