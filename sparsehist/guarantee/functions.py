"""Functions a query may call: those whose result depends on their arguments alone, whatever order rows come in."""

from __future__ import annotations

from functools import cache
from typing import Any

from sparsehist.store.statements import statement

# What the clock says is public. Within one statement it says one thing.
_CLOCK = "now today current_date get_current_time get_current_timestamp transaction_timestamp"
# Consistent by DuckDB's account, but they look into the catalogue, act, or open a state.
_NOT_ROW_BY_ROW = """
    combine finalize invoke to_aggregate_state index_key getvariable current_setting
    json_deserialize_sql json_serialize_plan json_serialize_sql parse_duckdb_log_message
"""
# They name an aggregate in a text; over a list of one row, its order is the row's own.
LIST_AGGREGATES = frozenset(("list_aggr", "list_aggregate", "array_aggr", "array_aggregate", "aggregate"))
AGGREGATES_OF_LISTS = frozenset(
    """
    any_value avg bit_and bit_or bit_xor bool_and bool_or count entropy first histogram kurtosis last mad max median
    min mode product quantile_cont quantile_disc sem skewness stddev_pop stddev_samp string_agg sum var_pop var_samp
    """.split()
)

# Their result is the same whatever order the rows come in, ties or not.
ORDERLESS = frozenset(
    """
    count count_star count_if countif min max bool_and bool_or bit_and bit_or bit_xor
    median quantile_cont quantile_disc mad regr_count
    """.split()
)
# Likewise, unless what is added is a floating-point number: its last digits depend on the order.
ADDING = frozenset(("sum", "sum_no_overflow", "avg", "mean"))
# They take rows as they come; with ORDER BY on what they take, as good as sorted.
ORDERED = frozenset("list array_agg string_agg group_concat listagg first last any_value arbitrary".split())
# Draws of their own.
RANDOM_AGGREGATES = frozenset(("reservoir_quantile", "approx_quantile", "approx_top_k"))
# Windows that treat rows that tie in ORDER BY alike.
RANKS = frozenset(("WINDOW_RANK", "WINDOW_RANK_DENSE", "WINDOW_PERCENT_RANK", "WINDOW_CUME_DIST"))
# Windows that number rows or take them by place.
PLACES = frozenset(f"WINDOW_{name}" for name in "ROW_NUMBER NTILE LAG LEAD FIRST_VALUE LAST_VALUE NTH_VALUE".split())

# Operators and parts of expressions that look at one row.
OPERATORS = frozenset(
    """
    BOUND_REF VALUE_CONSTANT BOUND_FUNCTION OPERATOR_CAST CASE_EXPR CONJUNCTION_AND CONJUNCTION_OR LAMBDA BOUND_UNNEST
    COMPARE_EQUAL COMPARE_NOTEQUAL COMPARE_LESSTHAN COMPARE_GREATERTHAN COMPARE_LESSTHANOREQUALTO
    COMPARE_GREATERTHANOREQUALTO COMPARE_DISTINCT_FROM COMPARE_NOT_DISTINCT_FROM COMPARE_IN COMPARE_NOT_IN
    COMPARE_BETWEEN OPERATOR_NOT OPERATOR_IS_NULL OPERATOR_IS_NOT_NULL OPERATOR_COALESCE OPERATOR_NULLIF
    OPERATOR_TRY ARRAY_EXTRACT ARRAY_SLICE STRUCT_EXTRACT ARRAY_CONSTRUCTOR
    """.split()
)
_SMALL_INTEGERS = frozenset("TINYINT SMALLINT INTEGER BIGINT UTINYINT USMALLINT UINTEGER UBIGINT".split())
_INTEGERS = _SMALL_INTEGERS | {"HUGEINT", "UHUGEINT"}
# Equal values that are not alike: 0.0 and -0.0, a month and 30 days. What is kept of them hangs on the order.
_UNLIKE = frozenset("FLOAT DOUBLE INTERVAL TIME_TZ VARIANT UNION GEOMETRY ANY LEGACY_AGGREGATE_STATE".split()) | {
    "TIME WITH TIME ZONE"
}


def name_of(kind: Any) -> str:
    """The plain name of a type."""
    return str(kind.get("id", "")) if isinstance(kind, dict) else ""


def _within(kind: Any) -> list[dict[str, Any]]:
    found = [kind] if isinstance(kind, dict) and "id" in kind else []
    for value in kind.values() if isinstance(kind, dict) else kind if isinstance(kind, list) else ():
        found += _within(value)
    return found


def alike(kind: Any) -> bool:
    """Whether values of a type that are equal cannot be told apart."""
    held = _within(kind)
    return bool(held) and not any(
        name_of(one) in _UNLIKE or (one.get("type_info") or {}).get("collation") for one in held
    )


def sorts(kind: Any) -> bool:
    """Whether the order of a type's values is its own: that of an ENUM may come from the rows of a log."""
    return all(name_of(one) != "ENUM" for one in _within(kind))


def adds_exactly(kind: Any) -> bool:
    """Whether sums over a type know no rounding."""
    return name_of(kind) in _SMALL_INTEGERS | {"DECIMAL", "BOOLEAN"}


def unit_kind(kind: Any) -> str:
    """The type of a unit, whole numbers of any width being one; empty if it cannot be one."""
    if name_of(kind) in _INTEGERS:
        return "a whole number"
    plain = (
        alike(kind) and sorts(kind) and name_of(kind) not in ("LIST", "STRUCT", "MAP", "ARRAY", "DECIMAL", "SQLNULL")
    )
    return name_of(kind) if plain else ""


# A cast from … to … gives each value a value of its own, or fails.
_TO_TEXT = _INTEGERS | {"DATE", "UUID", "BOOLEAN", "TIMESTAMP", "ENUM"}


def keeps_apart(before: Any, after: Any) -> str | None:
    """What a cast does to a column that names the unit; a cast that fails is an error and no null.

    Returns a name for how values are written anew, empty if they stay what they are; None if two may become one.
    """
    if not (alike(before) and alike(after)):
        return None
    one, other = name_of(before), name_of(after)
    if one in _INTEGERS and other in _INTEGERS:
        return ""
    if one == other and one in ("VARCHAR", "DATE", "UUID", "BOOLEAN", "TIMESTAMP"):
        return ""
    if one in _TO_TEXT and other == "VARCHAR":
        return f"{one if one not in _INTEGERS else 'whole'} as text"
    return "DATE as TIMESTAMP" if (one, other) == ("DATE", "TIMESTAMP") else None


@cache
def _builtin() -> dict[str, dict[str, bool]]:
    import duckdb

    found: dict[str, dict[str, bool]] = {}
    with duckdb.connect(":memory:") as connection:
        for name, kind, consistent in connection.execute(statement("guarantee_functions")).fetchall():
            found.setdefault(kind, {})[str(name).lower()] = consistent
    return found


@cache
def of_rows() -> frozenset[str]:
    """Functions and operators that look at one row."""
    scalar = {name for name, consistent in _builtin()["scalar"].items() if consistent and not name.startswith("__")}
    return frozenset(
        (scalar | set(_CLOCK.split()) | {"__cast", "__try_cast"}) - set(_NOT_ROW_BY_ROW.split()) - LIST_AGGREGATES
    )


@cache
def steady() -> frozenset[str]:
    """Functions, operators and aggregates that give the same for the same rows at any time."""
    aggregates = {name for name, consistent in _builtin()["aggregate"].items() if consistent}
    return (of_rows() | aggregates | {"range"}) - set(_CLOCK.split()) - RANDOM_AGGREGATES
