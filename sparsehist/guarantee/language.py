"""List the SQL that the query of a series may use, and what to write in place of SQL that is refused.

A query keeps units apart if removing the rows of one unit removes the output rows of this unit and changes no others.
Every listed function depends only on its arguments. The result of an aggregate does not depend on the order of its
values, except for aggregates that have an ORDER BY. Functions of later versions of DuckDB are refused until they are
tested and listed here. docs/sql.md is generated from these lists.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any

from sparsehist.errors import GuaranteeError

Node = dict[str, Any]
"""A node of a parse tree, of a plan or of a type, from JSON of DuckDB."""

FUNCTIONS = {
    "Operators": "= == <> != < <= > >= and or not in between like ilike glob is + - * / // % ^ ** || & | << >> ~ -> "
    "->> []",
    "Text": "lower upper length len trim ltrim rtrim left right substring substr replace concat concat_ws contains "
    "starts_with ends_with position strpos reverse repeat lpad rpad split_part string_split split regexp_matches "
    "regexp_full_match regexp_extract regexp_extract_all regexp_replace strip_accents translate ascii chr hex md5 "
    "sha256 hash encode decode base64 url_encode url_decode levenshtein jaccard",
    "Numbers": "abs sign round floor ceil trunc sqrt exp ln log log2 log10 pow power mod greatest least isnan isinf "
    "isfinite bit_count xor pi radians sin cos tan asin acos atan atan2",
    "Conditions": "coalesce ifnull nullif if",
    "Dates and times": "date_trunc date_part extract date_diff datediff date_sub date_add strftime strptime "
    "try_strptime epoch epoch_ms make_date make_timestamp to_timestamp time_bucket last_day year quarter month week "
    "day hour minute second isoyear dayofmonth dayofweek dayofyear isodow weekday dayname monthname to_years "
    "to_quarters to_months to_weeks to_days to_hours to_minutes to_seconds",
    "Lists, structs, maps": "list_value struct_pack row struct_extract array_extract list_extract list_slice "
    "array_slice list_contains list_has_any list_has_all list_position list_filter list_transform list_sort "
    "list_reverse_sort list_reverse list_distinct list_concat list_append list_zip list_sum list_min list_max "
    "list_count flatten array_to_string range generate_series unnest map map_keys map_values map_extract cardinality",
    "JSON": "json_extract json_extract_string json_value json_array_length json_keys json_valid json_type",
}
AGGREGATES = {
    "In any order": "count count_if countif min max bool_and bool_or bit_and bit_or bit_xor median quantile_cont "
    "quantile_disc mad",
    "Of whole numbers and decimals": "sum avg mean",
    "By ORDER BY, then by the rows themselves": "first last any_value list array_agg string_agg group_concat",
}
"""Aggregates of the last kind pick rows. Rows that tie in ORDER BY are ordered by the rows of the tables in FROM."""

RANKS = "rank dense_rank percent_rank cume_dist"
PICKS = "row_number ntile lag lead first_value last_value nth_value"
RANKED = frozenset("WINDOW_RANK WINDOW_RANK_DENSE WINDOW_PERCENT_RANK WINDOW_CUME_DIST".split())
WINDOWS = RANKED | {f"WINDOW_{name.upper()}" for name in PICKS.split()} | {"WINDOW_AGGREGATE"}

ORDERLESS, ADDING, ORDERED = (frozenset(names.split()) for names in AGGREGATES.values())
ORDERLESS |= {"count_star", "sum_no_overflow"}
_SYNTAX = "~~ !~~ ~~* !~~* ~~~ @> && like_escape not_like_escape ilike_escape not_ilike_escape"
_OF_ROWS = " ".join([*FUNCTIONS.values(), _SYNTAX])
WRITTEN = frozenset(f"{_OF_ROWS} {RANKS} {PICKS}".split()) | ORDERLESS | ADDING | ORDERED
"""Functions that a query may name."""
_REPLACING = """list_aggr list_aggregate normalized_interval list_resize add subtract multiply divide list_select
    constant_or_null struct_extract_at array_reverse_sort json_extract_path json_extract_path_text __cast __try_cast
    __between is distinct from is not distinct from"""
SCALARS = frozenset(f"{_OF_ROWS} {_REPLACING}".split())
"""Functions of one row that a plan may contain. DuckDB replaces some functions of a query by others."""

UNKNOWN = "not in the language of docs/sql.md; write it in a simpler way"
REFUSED = {
    "LIMIT_MODIFIER LIMIT_PERCENT_MODIFIER": "LIMIT and OFFSET apply to the rows of all units together; to keep n "
    "rows of each unit, write QUALIFY row_number() OVER (PARTITION BY user_id ORDER BY …) <= n",
    "SAMPLE": "a sample depends on the rows of all units; write WHERE hash(user_id) % 10 = 0 to sample units",
    "RECURSIVE_CTE_NODE": "recursion depends on the rows of all units; write each step as a query, or use a window",
    "EXCEPT INTERSECT": "write ANTI JOIN or SEMI JOIN on all columns instead of EXCEPT and INTERSECT",
    "EXISTS NOT_EXISTS": "write SEMI JOIN … USING (user_id) instead of EXISTS, and ANTI JOIN instead of NOT EXISTS",
    "FULL OUTER": "write UNION ALL of a LEFT JOIN and an ANTI JOIN instead of a FULL JOIN",
    "RIGHT": "write a LEFT JOIN with the tables swapped instead of a RIGHT JOIN",
    "POSITIONAL": "a positional join depends on the order of rows; join on columns",
    "ASOF": "an asof join selects one of several tied rows; join on the unit and a.ts <= b.ts, then keep "
    "row_number() OVER (PARTITION BY user_id …) = 1",
    "PIVOT": "the columns of PIVOT depend on the rows of all units; write max(CASE WHEN … THEN … END) with "
    "GROUP BY user_id, and unnest([a, b]) instead of UNPIVOT",
    "SHOW_REF": "DESCRIBE, SUMMARIZE and SHOW describe all rows; write a SELECT",
    "COLLATE": "a collation treats different texts as equal; write lower(…)",
    "LIMIT DELIM_GET CHUNK_GET BOUND_COLUMN_REF left_projection_map right_projection_map error": "a query in "
    "parentheses must not use columns of the outer query, and if it stands for a value, it must return one aggregate "
    "such as max(x); otherwise, join a query that has the unit in its GROUP BY",
    "MARK": "whether IN is false or null depends on rows of other units; in WHERE, write IN (SELECT …) alone or with "
    "AND; elsewhere, write SEMI JOIN instead; for NOT IN, write ANTI JOIN",
    "POSITIONAL_REFERENCE": "#1: name the column instead of its number",
    "now today current_date current_timestamp getvariable": "write a constant or a parameter, $name",
    "random uuid": "write a hash of the row: hash(query) % 10 = 0",
    "age": "write date_diff('day', a, b)",
    "arg_max max_by": "write first(x ORDER BY y DESC)",
    "arg_min min_by": "write first(x ORDER BY y)",
    "mode": "count in a separate query, then keep row_number() OVER (PARTITION BY user_id ORDER BY n DESC, x) = 1",
    "approx_count_distinct": "write count(DISTINCT x)",
    "approx_quantile": "write quantile_cont(x, 0.5)",
    "stddev variance": "compute it from sum(x), sum(x * x) and count(*) of decimals",
}
"""What to write instead of constructs (as DuckDB's parse trees and plans call them, with capitals) and functions."""

_WHOLE = frozenset("TINYINT SMALLINT INTEGER BIGINT UTINYINT USMALLINT UINTEGER UBIGINT HUGEINT UHUGEINT".split())
ADDED_EXACTLY = (_WHOLE - {"HUGEINT", "UHUGEINT"}) | {"DECIMAL", "BOOLEAN"}
_TO_TEXT = _WHOLE | {"DATE", "UUID", "BOOLEAN", "TIMESTAMP"}
_UNITS = _TO_TEXT | frozenset("VARCHAR BLOB TIME TIMESTAMP_S TIMESTAMP_MS TIMESTAMP_NS TIMESTAMP_TZ".split())
_UNITS |= {"TIMESTAMP WITH TIME ZONE", "INTEGER_LITERAL", "STRING_LITERAL"}
ONE_FORM = _UNITS | frozenset("DECIMAL SQLNULL NULL LIST ARRAY STRUCT MAP".split())
"""Types whose equal values look the same, unlike 0.0 and -0.0, or 1 month and 30 days."""
ALLOWED = ONE_FORM | {"FLOAT", "DOUBLE", "INTERVAL", "LAMBDA"}


def nodes(part: object, without: Container[str] = ()) -> Iterator[Node]:
    """Yield all dictionaries of a tree, parents first. Skip subtrees whose type is in `without`."""
    if isinstance(part, dict) and part.get("type") not in without:
        yield part
        part = list(part.values())
    for value in part if isinstance(part, (list, tuple)) else ():
        yield from nodes(value, without)


def consists_of(kind: Node, types: frozenset[str]) -> bool:
    """Return whether a type and all types inside it are in `types` and have no collation."""
    names = {kind.get("id"), *(one["id"] for one in nodes(kind) if "id" in one)}
    return names <= types and "collation" not in str(kind)


def unit_kind(kind: Node) -> str:
    """Return the name of a type, with INTEGER for all integer types, or "" if unit columns cannot have this type."""
    name = "INTEGER" if kind.get("id") in _WHOLE else str(kind.get("id"))
    return name if consists_of(kind, _UNITS) else ""


def is_injective(before: Node, after: Node) -> bool:
    """Return whether a cast from type `before` to `after` keeps different units different and equal units equal."""
    kinds = unit_kind(before), unit_kind(after)
    return "" not in kinds and (kinds[0] == kinds[1] or (before["id"] in _TO_TEXT and kinds[1] == "VARCHAR"))


def require(condition: object, refusal: str) -> None:
    if not condition:
        raise GuaranteeError(refusal)


def refusal_of(*words: str) -> str:
    """Return the text of the first entry in REFUSED that contains one of the given words, or an empty string."""
    return next((text for names, text in REFUSED.items() if not set(names.split()).isdisjoint(words)), "")


def refused_function(name: str) -> str:
    instead = refusal_of(name) or "use the functions listed there, or compute it before the log is stored"
    return f"{name} is not in the language of docs/sql.md; {instead}"


_FOLDERS = "hive_partitioning hive_types hive_types_autocast filename compression"
READERS = {
    "read_parquet": f"{_FOLDERS} binary_as_string",
    "read_csv": f"{_FOLDERS} columns auto_detect header delim sep quote escape nullstr dateformat timestampformat "
    "allow_quoted_nulls decimal_separator thousands comment encoding max_line_size",
    "read_json": f"{_FOLDERS} columns auto_detect format dateformat timestampformat maximum_object_size",
}
"""DuckDB's readers of files, with their allowed options."""
_ENDINGS = {"read_parquet": ".parquet .pq", "read_csv": ".csv .tsv", "read_json": ".json .jsonl .ndjson"}


def reader_of(path: str) -> str:
    """Return the name of DuckDB's reader for files with this extension, or an empty string if there is none."""
    ending = PurePath(re.sub(r"\.(gz|zst)$", "", path.lower())).suffix
    return next((reader for reader, endings in _ENDINGS.items() if ending in endings.split()), "")


def check_options(reader: str, paths: Sequence[str], options: Mapping[str, Any]) -> None:
    """Refuse options of a reader that let the values in a row depend on other rows."""
    unknown = ", ".join(sorted(options.keys() - READERS[reader].split()))
    require(not unknown, f"with {unknown}, rows of other units may affect how {reader} reads a row; leave it out")
    declared = options.get("columns") and options.get("auto_detect") is False
    declared = declared and (reader != "read_json" or options.get("format") in ("newline_delimited", "array"))
    remedy = "auto_detect = false, columns = {'user_id': 'VARCHAR', …}, for JSON also format = 'newline_delimited'"
    require(declared or reader == "read_parquet", f"{reader} guesses types from rows of all units; write {remedy}")
    typed = "hive_types" in options or False in (options.get("hive_partitioning"), options.get("hive_types_autocast"))
    folders = any(re.search(r"[*?\[].*[/\\]", path) for path in paths)
    remedy = "hive_types = {…} or hive_partitioning = false"
    require(typed or not folders, f"types of columns in folder names are guessed from all folders; write {remedy}")


LACKING = (
    "DuckDB lacks the extension for this source, and sparsehist installs none: read URLs as tables={'log': "
    "sh.Files('s3://…')}, in a shell --table log=s3://…; Delta and Iceberg as tables={'log': pl.scan_delta(…)}"
)
_LACKING = r"required extension|Extension \"[^\n]*\" not found|exists in the \w+ extension"


def lacks_extension(problem: BaseException) -> bool:
    return type(problem).__module__ in ("duckdb", "_duckdb") and bool(re.search(_LACKING, str(problem)))
