"""The language of a series' query, as data: allowed parts, and replacements for refused ones.

A query keeps units apart if removing one unit's rows removes its output rows and changes no other. Every listed
function depends only on its arguments, and every aggregate only on its values, in any order. What a later DuckDB adds
is refused until it is tested and listed. docs/sql.md is generated from these lists.
"""

from __future__ import annotations

from typing import Any

Kind = dict[str, Any]

ALLOWED = {
    "SELECT": "columns, `*`, `EXCLUDE`, `REPLACE`, expressions, `CASE`, casts, lambdas, `unnest(list)`",
    "FROM": "tables of `tables=` and `public=`, files, queries in parentheses, `VALUES`, `range(n)`, `unnest(list) "
    "[WITH ORDINALITY]`",
    "JOIN": "`JOIN`, `LEFT JOIN`, `SEMI JOIN`, `ANTI JOIN`: with public tables on anything, with private ones on the "
    "unit",
    "WHERE": "conditions on the row; `x IN (SELECT …)` of a public table, `unit IN (SELECT unit …)` of a private one",
    "GROUP BY, DISTINCT": "with the unit among the columns; `HAVING`; `DISTINCT ON` all columns that are used",
    "Windows": "`PARTITION BY` the unit; ranks, aggregates, `row_number`, `lag`, `lead`, `first_value`, "
    "`last_value`, `nth_value`, `ntile`; `QUALIFY`",
    "Together": "`WITH`, `UNION ALL`, `UNION` of logs that hold the unit in the same column, `ORDER BY`",
}
"""Allowed parts of a query; `python docs/references.py` writes them into docs/sql.md."""

FUNCTIONS = {
    "Operators": """
        = == <> != < <= > >= and or not in between like ilike glob is + - * / // % ^ ** || & | << >> ~ -> ->> []
    """,
    "Text": """
        lower upper lcase ucase length len strlen trim ltrim rtrim left right substring substr replace concat
        concat_ws contains starts_with ends_with prefix suffix position strpos instr reverse repeat lpad rpad
        split_part string_split str_split split regexp_matches regexp_full_match regexp_extract regexp_extract_all
        regexp_replace
        regexp_split_to_array regexp_escape strip_accents nfc_normalize ascii chr unicode ord translate hex unhex md5
        sha1 sha256 hash encode decode base64 to_base64 from_base64 url_encode url_decode levenshtein jaccard
        damerau_levenshtein parse_filename parse_dirname
    """,
    "Numbers": """
        abs sign round floor ceil ceiling trunc sqrt cbrt exp ln log log2 log10 pow power mod gcd lcm greatest least
        isnan isinf isfinite bit_count xor pi degrees radians sin cos tan asin acos atan atan2
    """,
    "Conditions": "coalesce ifnull nullif if",
    "Dates and times": """
        date_trunc datetrunc date_part datepart extract date_diff datediff date_sub datesub date_add strftime strptime
        try_strptime epoch epoch_ms epoch_us epoch_ns make_date make_time make_timestamp to_timestamp time_bucket
        last_day year quarter month week day hour minute second millisecond microsecond weekofyear yearweek isoyear
        dayofmonth dayofweek dayofyear isodow weekday dayname monthname to_years to_quarters to_months to_weeks
        to_days to_hours to_minutes to_seconds to_milliseconds to_microseconds
    """,
    "Lists, structs, maps": """
        list_value list_pack array_value struct_pack row struct_extract array_extract list_extract list_element
        list_slice array_slice array_length list_contains array_contains list_has list_has_any list_has_all
        list_position list_filter list_transform list_apply list_sort list_reverse_sort list_reverse list_distinct
        list_unique list_concat list_cat array_concat list_append list_prepend list_zip list_sum list_min list_max
        list_count flatten array_to_string range generate_series unnest map map_keys map_values map_entries
        map_extract element_at cardinality
    """,
    "JSON": """
        json_extract json_extract_string json_value json_array_length json_keys json_valid json_type json_exists
        json_contains
    """,
}
AGGREGATES = {
    "In any order": "count count_if countif min max bool_and bool_or bit_and bit_or bit_xor median quantile_cont "
    "quantile_disc mad",
    "Of whole numbers and decimals": "sum avg mean",
    "By ORDER BY, then by the rows themselves": "first last any_value arbitrary list array_agg string_agg "
    "group_concat listagg",
}
"""Aggregates that pick rows are ordered by the rows of the tables in FROM, after their own ORDER BY."""

RANKS = frozenset("WINDOW_RANK WINDOW_RANK_DENSE WINDOW_PERCENT_RANK WINDOW_CUME_DIST".split())
PLACES = frozenset(f"WINDOW_{name}" for name in "ROW_NUMBER NTILE LAG LEAD FIRST_VALUE LAST_VALUE NTH_VALUE".split())
WINDOWS = "rank dense_rank percent_rank cume_dist row_number ntile lag lead first_value last_value nth_value"

ORDERLESS, ADDING, ORDERED = (frozenset(names.split()) for names in AGGREGATES.values())
ORDERLESS |= {"count_star", "sum_no_overflow"}
_SYNTAX = "~~ !~~ ~~* !~~* ~~~ @> && like_escape not_like_escape ilike_escape not_ilike_escape count_star"
# DuckDB's binder turns the functions above into these.
_BOUND = """
    list_aggr list_aggregate normalized_interval list_resize add subtract multiply divide list_select
    constant_or_null struct_extract_at array_reverse_sort json_extract_path json_extract_path_text
    __cast __try_cast __between is distinct from is not distinct from
"""
WRITTEN = frozenset(f"{' '.join(FUNCTIONS.values())} {_SYNTAX}".split())
SCALARS = WRITTEN | frozenset(_BOUND.split())

REFUSED = {
    "LIMIT_MODIFIER LIMIT_PERCENT_MODIFIER": "LIMIT and OFFSET count the rows of all units; number those of each: "
    "row_number() OVER (PARTITION BY the unit ORDER BY …)",
    "sample": "a sample is drawn from the rows of all units; write hash(query) % 10 = 0",
    "RECURSIVE_CTE_NODE": "recursion ends when the rows of all units are used up; write the steps out, or count with "
    "a window",
    "EXCEPT INTERSECT": "EXCEPT and INTERSECT compare whole rows; write an ANTI JOIN or SEMI JOIN on the unit and "
    "the other columns",
    "EXISTS NOT_EXISTS": "EXISTS asks for every row anew; write a join: FROM log SEMI JOIN clicks USING (user_id), "
    "or ANTI JOIN for NOT EXISTS",
    "GROUPING_SETS": "grouping sets, ROLLUP and CUBE; write UNION ALL of one GROUP BY with the unit for each",
    "FULL OUTER": "a full join keeps rows without partner of both sides; write UNION ALL of a left join and an anti "
    "join",
    "RIGHT": "in the place of a RIGHT JOIN write a LEFT JOIN with the tables swapped",
    "POSITIONAL": "a positional join pairs rows by where they stand; join on columns",
    "ASOF": "an asof join takes any of the rows that tie; join on the unit and a.ts <= b.ts, then take row_number() "
    "OVER (PARTITION BY the unit …) = 1",
    "PIVOT": "PIVOT takes its columns from the rows of all units; write max(CASE WHEN … THEN … END) with GROUP BY "
    "the unit, and for UNPIVOT unnest([a, b])",
    "SHOW_REF": "DESCRIBE, SUMMARIZE and SHOW tell of all rows; name the columns in a SELECT",
    "COLLATE": "a collation takes different texts for one; write lower(…)",
    "POSITIONAL_REFERENCE": "#1: name the column instead of its number",
}
"""Refused constructs by name in DuckDB's parse tree: the reason and a replacement."""

REASONS = {
    "unknown": "{what} is not in the language of docs/sql.md; write it in a plainer way",
    "function": "{name} is not in the language of a series' query; {instead}",
    "type": "the type {name} is not in the language; cast to text",
    "more rows": "{name} looks at more than one row",
    "one column": "the result must have one column {name}; its columns are {columns}",
    "all public": "no private table is read: name one that holds {unit}, or do not declare it public",
    "unfit unit": "{name} is of type {kind}, in which a unit may be written in several ways: store whole numbers or "
    "text (pandas makes floats of whole numbers with missing values; astype('Int64') keeps them)",
    "no unit": "{name} must be the column {name} of a private table, unchanged or cast so that all values stay apart",
    "units meet": "rows of different units meet; write JOIN … ON {equal}, or declare one of the tables public",
    "partner": "whether a row has a partner here depends on rows of other units; compare the unit of both tables, "
    "{equal}, or declare the second one public",
    "condition": "whether this is false or null depends on the rows of all units; use it as a condition of its own "
    "in WHERE, or write a SEMI JOIN or ANTI JOIN",
    "group": "this gathers rows of several units; add {unit} to GROUP BY",
    "window": "the window looks at rows of several units; write OVER (PARTITION BY {unit} …)",
    "distinct": "DISTINCT merges rows of several units; select {unit} too",
    "distinct on": "DISTINCT ON keeps whichever row comes first; write QUALIFY row_number() OVER (PARTITION BY "
    "{unit}, … ORDER BY …) = 1",
    "union": "{unit} must stand in one place in all parts of a union, in one type",
    "union with public": "a union of rows of units with public rows, which belong to nobody",
    "ties": "rows that tie in ORDER BY are taken in any order, which depends on other units; order by columns that "
    "tell the rows apart (and give every query in FROM a name, which no column has), or use rank()",
    "two windows": "two windows in two orders may pair rows that tie in any way; use one order, or compute the "
    "second window in a query around the first",
    "floats": "the last digits of a floating-point {name} depend on the order of all rows; in the place of {call} "
    "add decimals: {name}(x::decimal(18, 3))",
    "alike": "which of several values that are equal but not alike (0.0 and -0.0, 1 month and 30 days) {name} "
    "keeps depends on other units; cast to a decimal, a whole number or text",
    "correlated": "a query in parentheses may not look at the row outside, nor be asked for one of several rows; "
    "write it as a join with a query that has the unit in its GROUP BY",
    "no source": "{name}(…) is no source in a series' query",
    "two units": "which column of {name} is {column} cannot be told; rename it there",
    "two types": "{column} is {here} in {name} and {there} in another table; store it in one type",
    "no plan": "DuckDB writes no plan of it; write it without values such as nan, in a plainer way",
} | {word: reason for words, reason in REFUSED.items() for word in words.split()}
"""Reasons to refuse the plan of a query, with replacements."""

INSTEAD = {
    "now today current_date get_current_time get_current_timestamp transaction_timestamp current_timestamp "
    "localtimestamp current_localtimestamp current_localtime getvariable current_setting": "write it as a constant, "
    "or as a parameter, $name",
    "random setseed uuid gen_random_uuid uuidv4 uuidv7": "take a hash of the row: hash(query) % 10 = 0",
    "age": "write date_diff('day', a, b)",
    "arg_max max_by argmax arg_max_null": "write first(x ORDER BY y DESC)",
    "arg_min min_by argmin arg_min_null": "write first(x ORDER BY y)",
    "mode histogram": "count in a query of its own, then take row_number() OVER (PARTITION BY the unit ORDER BY n "
    "DESC, x) = 1",
    "approx_count_distinct": "write count(DISTINCT x)",
    "approx_quantile reservoir_quantile approx_top_k": "write quantile_cont(x, 0.5)",
    "stddev stddev_samp stddev_pop variance var_samp var_pop sem corr covar_pop skewness kurtosis": "compute it from "
    "sum(x), sum(x * x) and count(*) of decimals",
    "product": "add logarithms, as decimals: sum(ln(x)::decimal(18, 6))",
    "timezone": "store times in one zone, or add an interval: ts + INTERVAL 2 HOUR",
    "row_number": "write row_number() OVER (PARTITION BY the unit ORDER BY …)",
}
"""Replacements of refused functions."""

_WHOLE = frozenset("TINYINT SMALLINT INTEGER BIGINT UTINYINT USMALLINT UINTEGER UBIGINT HUGEINT UHUGEINT".split())
_ADDED_EXACTLY = (_WHOLE - {"HUGEINT", "UHUGEINT"}) | {"DECIMAL", "BOOLEAN"}
_UNITS = (
    _WHOLE
    | frozenset(
        "BOOLEAN VARCHAR BLOB DATE TIME TIMESTAMP TIMESTAMP_S TIMESTAMP_MS TIMESTAMP_NS TIMESTAMP_TZ UUID".split()
    )
    | {"TIMESTAMP WITH TIME ZONE", "INTEGER_LITERAL", "STRING_LITERAL"}
)
_ALIKE = _UNITS | frozenset("DECIMAL SQLNULL NULL LIST ARRAY STRUCT MAP".split())
# Types with equal values that can be distinguished: 0.0 and -0.0, a month and 30 days.
_UNLIKE = frozenset(("FLOAT", "DOUBLE", "INTERVAL", "LAMBDA"))
_TO_TEXT = _WHOLE | {"DATE", "UUID", "BOOLEAN", "TIMESTAMP"}


def name_of(kind: Kind | None) -> str:
    """Return the plain name of a type."""
    return str((kind or {}).get("id", ""))


def _names(kind: Any) -> list[str]:
    """Return the names of a type and of all types inside it."""
    found = [str(kind["id"])] if isinstance(kind, dict) and "id" in kind else []
    for value in kind.values() if isinstance(kind, dict) else kind if isinstance(kind, list) else ():
        found += _names(value)
    return found


def is_known(kind: Kind | None) -> bool:
    """Return whether a query may compute with values of a type."""
    return kind is None or set(_names(kind)) <= _ALIKE | _UNLIKE


def is_alike(kind: Kind | None) -> bool:
    """Return whether equal values of a type are indistinguishable."""
    held = _names(kind)
    return bool(held) and set(held) <= _ALIKE and "collation" not in str(kind)


def adds_exactly(kind: Kind | None) -> bool:
    """Return whether sums of this type are exact."""
    return name_of(kind) in _ADDED_EXACTLY


def unit_kind(kind: Kind | None) -> str:
    """Return the kind of a unit's type (one kind for all integers); empty if a unit cannot have this type."""
    if name_of(kind) in _WHOLE:
        return "a whole number"
    return name_of(kind) if is_alike(kind) and name_of(kind) in _UNITS else ""


def keeps_units_apart(before: Kind | None, after: Kind | None) -> bool:
    """Return whether a cast of units is injective, with one text per value in the new type."""
    one, other = name_of(before), name_of(after)
    apart = {one, other} <= _WHOLE or (one == other and one in _UNITS) or (one in _TO_TEXT and other == "VARCHAR")
    return apart and is_alike(before) and is_alike(after)


def instead_of(function: str) -> str:
    """Return the end of a refusal: a replacement for the refused function."""
    told = next((told for names, told in INSTEAD.items() if function in names.split()), None)
    return told or "compute it from the functions listed in docs/sql.md, or before the log is stored"
