"""Files that a query reads: reading a row must not depend on other rows."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

_FILES = "hive_partitioning hive_types hive_types_autocast filename compression"
_TEXT = f"{_FILES} columns auto_detect dateformat timestampformat"
READERS = {
    "read_parquet": f"{_FILES} binary_as_string",
    "read_csv": f"{_TEXT} header delim sep quote escape nullstr allow_quoted_nulls force_not_null decimal_separator "
    "thousands new_line comment encoding max_line_size maximum_line_size buffer_size parallel",
    "read_json": f"{_TEXT} format maximum_object_size",
}
"""DuckDB's readers of files, with their allowed options."""


def reader_of(path: str) -> str:
    """Return the reader of a file that is named in FROM; empty if DuckDB does not read such files."""
    bare = re.sub(r"\.(gz|zst)$", "", path.lower())
    if bare.endswith((".parquet", ".pq")):
        return "read_parquet"
    if bare.endswith((".csv", ".tsv")):
        return "read_csv"
    return "read_json" if bare.endswith((".json", ".jsonl", ".ndjson")) else ""


def guess_of(reader: str, paths: Sequence[str], options: Mapping[str, Any]) -> str:
    """Return the reason why other rows may affect how a row is read; empty if there is none."""
    unknown = sorted(set(options) - set(READERS[reader].split()))
    if unknown:
        return (
            f"with {unknown[0]} other units' rows may decide how a row of {reader} is read, or whether; leave it out"
        )
    if reader != "read_parquet" and (not options.get("columns") or options.get("auto_detect") is not False):
        return (
            f"{reader} guesses names and types from the rows of all units; say auto_detect = false and "
            "columns = {'user_id': 'VARCHAR', …}"
        )
    if reader == "read_json" and options.get("format") not in ("newline_delimited", "array"):
        return f"{reader} guesses the format from the rows of all units; say format = 'newline_delimited'"
    folders = [path.replace("\\", "/").rpartition("/")[0] for path in paths]
    told = options.get("hive_partitioning") is False or options.get("hive_types_autocast") is False
    if not told and "hive_types" not in options and any(re.search(r"[*?\[]", folder) for folder in folders):
        return (
            "types of columns in the names of folders are guessed from all of them; say hive_partitioning = false, "
            "hive_types_autocast = false or hive_types = {…}"
        )
    return ""
