"""Check how a query reads files: the value of a row must not depend on other rows."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any

from sparsehist.guarantee.language import require

_FOLDERS = "hive_partitioning hive_types hive_types_autocast filename compression"
READERS = {
    "read_parquet": f"{_FOLDERS} binary_as_string",
    "read_csv": f"{_FOLDERS} columns auto_detect header delim sep quote escape nullstr dateformat timestampformat "
    "allow_quoted_nulls decimal_separator thousands comment encoding max_line_size",
    "read_json": f"{_FOLDERS} columns auto_detect format dateformat timestampformat maximum_object_size",
}
"""DuckDB's readers of files, with their allowed options."""
_ENDINGS = dict.fromkeys((".parquet", ".pq"), "read_parquet") | dict.fromkeys((".csv", ".tsv"), "read_csv")
_ENDINGS |= dict.fromkeys((".json", ".jsonl", ".ndjson"), "read_json")


def reader_of(path: str) -> str:
    """Return DuckDB's reader for a file in FROM, chosen by file extension; empty if the extension is unknown."""
    return _ENDINGS.get(PurePath(re.sub(r"\.(gz|zst)$", "", path.lower())).suffix, "")


def check_options(reader: str, paths: Sequence[str], options: Mapping[str, Any]) -> None:
    """Refuse options that make the value of a row depend on other rows."""
    unknown = ", ".join(sorted(options.keys() - READERS[reader].split()))
    require(not unknown, f"with {unknown}, rows of other units may affect how {reader} reads a row; leave it out")
    if reader != "read_parquet":
        typed = options.get("columns") and options.get("auto_detect") is False
        columns = "auto_detect = false, columns = {'user_id': 'VARCHAR', …}"
        require(typed, f"{reader} guesses names and types from the rows of all units; write {columns}")
    formatted = reader != "read_json" or options.get("format") in ("newline_delimited", "array")
    require(formatted, "read_json guesses the format from the rows of all units; write format = 'newline_delimited'")
    typed = "hive_types" in options or False in (options.get("hive_partitioning"), options.get("hive_types_autocast"))
    folders = any(re.search(r"[*?\[].*[/\\]", path) for path in paths)
    remedy = "hive_types = {…} or hive_partitioning = false"
    require(typed or not folders, f"types of columns in folder names are guessed from all folders; write {remedy}")
