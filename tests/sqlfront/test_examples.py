"""The SQL scripts in docs/examples run unchanged."""

from pathlib import Path

import pytest

import sparsehist as sh

CHECKOUT = Path(__file__).parents[2]
SPENT = {"query_log": ["0.5"], "two_series": ["0.65"]}  # the total level that each script states in its comments


@pytest.mark.parametrize("path", sorted((CHECKOUT / "docs" / "examples").glob("*.sql")), ids=lambda path: path.stem)
def test_an_example_runs(path, here):
    """Every statement of an example script runs, and the releases cost as much as the script's comments say."""
    Path("data").symlink_to(CHECKOUT / "data")
    text = path.read_text(encoding="utf-8")
    assert f"sparsehist run docs/examples/{path.name} --store" in text
    made = sh.sql(text, store="example", parameters={"level": "1/2"} if "$level" in text else None)
    assert made.frame.height > 0
    spent = sh.open("example").ledger(full=True).filter(scope="population")["level"].to_list()
    assert SPENT.get(path.stem, spent) == spent
