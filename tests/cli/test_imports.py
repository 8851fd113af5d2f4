"""A command imports what it uses and nothing else that takes long: what is listed here is paid for at every start."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

import sparsehist as sh

SLOW = {"cyclopts", "duckdb", "numpy", "polars", "pyarrow", "randomgen", "rich", "scipy", "sqlglot", "sqlite3"}
SHELL = {"cyclopts", "rich"}
RUN = """
import atexit, io, json, sys
from sparsehist.cli import main
told, sys.stdout = sys.stdout, io.StringIO()
@atexit.register
def tell():
    # A module that is to be loaded when it is used has a class of its own until then.
    print(json.dumps([n for n, m in sys.modules.items() if "Used" not in type(m).__name__]), file=told, flush=True)
main(sys.argv[1:])
"""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with a series and a release."""
    path = tmp_path_factory.mktemp("imports") / "logs"
    log = pl.DataFrame({"user": range(500), "key": [f"k{i % 9}" for i in range(500)]})
    series = sh.create(path, log, name="visits", unit="user", key="key", max_keys=1, domain=sh.Strings(max_bytes=4))
    series.release("one", level="0.5", threshold=20).write_parquet(path.parent / "one.parquet")
    return path


@pytest.mark.parametrize(
    ("command", "allowed"),
    [
        (["--help"], SHELL),
        (["show", "--help"], SHELL),
        (["show", "STORE"], {*SHELL, "sqlite3"}),
        (["ledger", "STORE"], {*SHELL, "sqlite3"}),
        (["plan", "STORE", "--series", "visits", "--level", "0.1"], {*SHELL, "sqlite3", "numpy"}),
        (
            ["release", "STORE", "--series", "visits", "--name", "one", "--head", "1"],
            {*SHELL, "sqlite3", "numpy", "polars", "pyarrow"},
        ),
    ],
    ids=lambda value: "-".join(value[:2]) if isinstance(value, list) else "",
)
def test_a_command_imports_only_what_it_uses(store: Path, command: list[str], allowed: set[str]) -> None:
    """No engine of SQL, no Arrow and no special functions where nothing is queried, read or computed."""
    places = {"STORE": str(store), "OUT": str(store.parent / "one.parquet")}
    words = [places.get(word, word) for word in command]
    done = subprocess.run([sys.executable, "-c", RUN, *words], capture_output=True, text=True, check=True, timeout=60)
    modules = json.loads(done.stdout)
    assert SLOW & set(modules) <= allowed
    assert "cyclopts" in modules
