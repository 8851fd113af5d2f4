"""Every statement in sql/ is plain, lower-case SQL that takes its values by name and says so in its header."""

import ast
import logging
import re
from pathlib import Path

import pytest
import sqlglot
from sqlglot import Dialect, TokenType, exp

from sparsehist.store.statements import named_statements

CHECKOUT = Path(__file__).parents[2]
FILES = sorted((CHECKOUT / "sql").glob("**/*.sql"))
STATEMENTS = {
    (file.name, name): text
    for file in FILES
    for name, text in (named_statements(file.read_text(encoding="utf-8")) or {file.stem: file.read_text()}).items()
}
OF_SQLITE = {"state.sql"}
QUOTED = (TokenType.STRING, TokenType.HEREDOC_STRING, TokenType.BYTE_STRING)


def _name(path):
    return path.name


def _header(text):
    lines = text.splitlines()
    end = next((i for i, line in enumerate(lines) if not line.startswith("--")), len(lines))
    return "\n".join(lines[:end])


def _complaints(text, dialect="duckdb"):
    """What is wrong with a statement."""
    found = []
    try:
        statements = [one for one in sqlglot.parse(text, dialect=dialect) if one is not None]
        found += [
            f"not understood: {one.sql()[:40]}"
            for one in statements
            if isinstance(one, exp.Command) and one.name.lower() != "vacuum"
        ]
        tokens = Dialect.get_or_raise(dialect).tokenize(text)
    except sqlglot.errors.SqlglotError as problem:
        return [f"does not parse: {problem}"]
    for token in tokens:
        word = text[token.start : token.end + 1]
        if token.token_type == TokenType.IDENTIFIER:
            found.append(f"a quoted identifier: {word}")
        elif token.token_type not in QUOTED and word != word.lower():
            found.append(f"not in lower case: {word}")
    body = text.removeprefix(_header(text))
    code = re.sub(r"'[^']*'|--[^\n]*", "", body)
    used, told = set(re.findall(r"\$(\w+)", code)), set(re.findall(r"\$(\w+)", _header(text)))
    found += [f"speaks of {name}, which it does not take" for name in told - used]
    found += ["values by place" for _ in re.findall(r"\?|\$\d|%s|\{\w*\}", code)]
    found += [f"a key column called {column}" for column in re.findall(r"\bkey_(?!\d+\b)\w*", code)]
    gives = isinstance(statements[-1], exp.Query) or statements[-1].find(exp.Returning)
    found += ["gives rows without saying so"] if gives and "-- out:" not in _header(text) else []
    return found


@pytest.fixture(autouse=True)
def _quiet(caplog):
    """What sqlglot does not understand is found below, not in its log."""
    caplog.set_level(logging.CRITICAL, logger="sqlglot")


def test_a_statement_is_plain_sql():
    """It parses, is in lower case, binds values by the names in its header, and names nothing users choose."""
    assert len(STATEMENTS) > 40
    complaints = {
        name: _complaints(text, "sqlite" if name[0] in OF_SQLITE else "duckdb") for name, text in STATEMENTS.items()
    }
    assert {name: found for name, found in complaints.items() if found} == {}


def test_a_name_stands_for_one_statement():
    """No two statements share a name, in one file or over all."""
    names = [name for _, name in STATEMENTS]
    begun = [line for file in FILES for line in file.read_text(encoding="utf-8").splitlines() if "-- name:" in line]
    assert len(set(begun)) == len(begun) and len(set(names)) == len(names)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("-- of nothing\nselec 1 frm", "parse"),
        ("-- of nothing\nSELECT 1", "lower case"),
        ("-- of nothing\nselect 1 as User", "lower case"),
        ("-- of nothing\nselect $value", "without saying so"),
        ("-- in: $value\nselect 1", "does not take"),
        ("-- of nothing\nselect ?", "by place"),
        ("-- of nothing\nselect {name}", "by place"),
        ('-- of nothing\nselect "Query" from t', "quoted identifier"),
        ("-- of nothing\nselect key_zero from t", "key column"),
        ("-- of nothing\nselect 1", "gives rows without saying so"),
        ("insert into t values (1) returning a", "gives rows without saying so"),
    ],
)
def test_what_is_wrong_with_a_statement_is_seen(text, complaint):
    """The check above sees each kind of mistake."""
    assert any(complaint in found for found in _complaints(text))


def _put_together(path):
    """Places where a statement is changed as text before it runs."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    changed = []
    for node in ast.walk(tree):
        parts = []
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            parts = [node.func.value] if node.func.attr in ("format", "replace", "format_map") else []
        elif isinstance(node, ast.BinOp):
            parts = [node.left, node.right]
        elif isinstance(node, ast.JoinedStr):
            parts = node.values
        for part in parts:
            calls = [one for one in ast.walk(part) if isinstance(one, ast.Call) and isinstance(one.func, ast.Name)]
            changed += [node.lineno for call in calls if call.func.id == "statement"]
    return changed


@pytest.mark.parametrize("path", sorted((CHECKOUT / "sparsehist").rglob("*.py")), ids=_name)
def test_no_statement_is_put_together_from_text(path):
    """What `statement` gives is run as it is, or has its identifiers set in the tree."""
    assert _put_together(path) == []


def test_every_statement_is_used():
    """A file nobody runs is not kept."""
    code = "\n".join(path.read_text(encoding="utf-8") for path in (CHECKOUT / "sparsehist").rglob("*.py"))
    assert [name for _, name in STATEMENTS if f'"{name}"' not in code] == []
