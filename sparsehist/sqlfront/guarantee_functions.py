"""Functions a query may call: those whose result depends on their arguments alone, whatever order rows come in."""

from __future__ import annotations

from functools import cache

import duckdb

from sparsehist.sqlfront.identifiers import folded
from sparsehist.store.statements import statement

# What the clock says is public. Within one statement it says one thing.
_CLOCK = "now today current_date get_current_time get_current_timestamp transaction_timestamp"

# Consistent by DuckDB's account, but they name an aggregate in a text, look into the catalogue, or open a state.
_NOT_ROW_BY_ROW = """
    aggregate array_aggr array_aggregate list_aggr list_aggregate combine finalize invoke to_aggregate_state index_key
    json_deserialize_sql json_serialize_plan json_serialize_sql parse_duckdb_log_message
"""

# Macros DuckDB brings along that are written in functions of one row.
_MACROS = """
    array_append array_pop_back array_pop_front array_prepend array_push_back array_push_front array_reverse
    array_to_string array_to_string_comma_default date_add days_in_month fdiv fmod if json list_any_value list_append
    list_avg list_bit_and list_bit_or list_bit_xor list_bool_and list_bool_or list_count list_first list_histogram
    list_last list_max list_median list_min list_prepend list_product list_reverse list_string_agg list_sum
    map_contains_entry map_contains_value md5_number_lower md5_number_upper nullif pg_typeof split_part
"""

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
RANKS = frozenset("rank dense_rank percent_rank cume_dist".split())
# Windows that number rows or take them by place.
PLACES = frozenset("row_number ntile lag lead first_value last_value nth_value first last".split())

WHOLE_NUMBERS = frozenset(
    """
    length len strlen year month day hour minute second quarter week dayofweek dayofyear date_diff datediff epoch_ms
    bit_count
    """.split()
)
_EXACT_TYPES = (
    "TINYINT SMALLINT INTEGER BIGINT UTINYINT USMALLINT UINTEGER UBIGINT BOOLEAN DECIMAL NUMERIC"
    " INT INT1 INT2 INT4 INT8 INT16 INT32 INT64 LONG SHORT SIGNED INTEGRAL BOOL LOGICAL DEC"
)


def exact_type(name: str) -> bool:
    """Whether a type holds whole numbers or decimals."""
    return name.split("(", maxsplit=1)[0].strip().upper() in _EXACT_TYPES.split()


def whole_number(name: str) -> bool:
    """Whether a type holds whole numbers of at most 64 bits, which compare exactly whatever their width."""
    return exact_type(name) and name.upper().endswith(("INT", "INTEGER"))


@cache
def _builtin() -> dict[str, dict[str, bool]]:
    found: dict[str, dict[str, bool]] = {}
    with duckdb.connect(":memory:") as connection:
        for name, kind, consistent in connection.execute(statement("guarantee_functions")).fetchall():
            found.setdefault(kind, {})[folded(name)] = consistent
    return found


@cache
def of_rows() -> frozenset[str]:
    """Functions and operators that look at one row."""
    known = _builtin()
    scalar = {name for name, consistent in known["scalar"].items() if consistent and not name.startswith("__")}
    scalar |= set(_MACROS.split()) & set(known["macro"]) | set(_CLOCK.split())
    return frozenset(scalar - set(_NOT_ROW_BY_ROW.split()) - aggregates())


@cache
def aggregates() -> frozenset[str]:
    """Aggregates, macros of aggregates among them."""
    made_of_them = {"geomean", "geometric_mean", "wavg", "weighted_avg", "json_group_array", "json_group_object"}
    return frozenset(_builtin()["aggregate"]) | made_of_them
