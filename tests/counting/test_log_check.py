from __future__ import annotations

import polars as pl

from sparsehist.counting import check_log
from tests.counting.logs import TEXTS

DECLARED = {"unit": "user_id", "key": ["query"], "max_keys": 2, "domain": TEXTS}
FAULTY = pl.DataFrame(
    [("u", "a"), ("u", "a"), ("u", "b"), ("u", "c"), ("v", "x" * 40), ("v", None), ("v", ""), ("", "a"), (None, "b")],
    schema=["user_id", "query"],
    orient="row",
)


def by_rule(found):
    """Return the result of `check_log` as a dict from the rule in each row to the values of the other columns."""
    return {rule: tuple(rest) for rule, *rest in found.rows()}


def test_every_rule_says_what_it_meets_and_what_happens():
    """`check_log` reports, for each rule, how many rows, units, keys and pairs it affects and what the outcome is."""
    dropped = by_rule(check_log(FAULTY, **DECLARED, on_null="drop", on_outside="drop"))
    assert dropped == {
        "log": (9, 2, 4, None, "read"),
        "null or empty unit": (2, 0, 2, None, "dropped"),
        "null or empty key": (2, 1, 0, None, "dropped"),
        "key outside the domain": (1, 1, 1, None, "dropped"),
        "repeated unit and key": (1, 1, 1, 1, "counted once"),
        "unit above max_keys": (None, 1, None, 1, "bounded"),
        "counted": (None, 1, None, 2, "counted"),
        "max_keys = 1": (None, 1, None, 2, "cuts 66.67%"),
        "max_keys = 2": (None, 1, None, 1, "cuts 33.33%"),
        "max_keys = 4": (None, 0, None, 0, "cuts 0.00%"),
        "max_keys = 8": (None, 0, None, 0, "cuts 0.00%"),
    }
    refused = by_rule(check_log(FAULTY, **DECLARED))
    assert sum(outcome.startswith("refused") for *_, outcome in refused.values()) == 3


def test_wrong_dtypes_and_empty_logs_are_reported_not_raised():
    """`check_log` reports a unit column of a wrong type, or an empty log, in its result and raises no error."""
    assert "several ways" in check_log(pl.DataFrame({"user_id": [1.5], "query": ["a"]}), **DECLARED)["outcome"][0]
    assert check_log(FAULTY.clear(), **DECLARED)["outcome"][0] == "refused: the log is empty"
