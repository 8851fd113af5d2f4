"""Files a query reads: how a row is read may not depend on other rows."""

from __future__ import annotations

import re

from sparsehist.guarantee.trees import Node

_PARQUET = "hive_partitioning hive_types hive_types_autocast filename binary_as_string encryption_config compression"
_CSV = """
    auto_detect columns header delim sep quote escape nullstr allow_quoted_nulls force_not_null dateformat
    timestampformat decimal_separator thousands new_line comment compression encoding strict_mode filename
    hive_partitioning max_line_size maximum_line_size buffer_size parallel null_padding
"""
_JSON = (
    "columns format auto_detect dateformat timestampformat compression filename hive_partitioning maximum_object_size"
)
_READERS = {
    "read_parquet": _PARQUET,
    "parquet_scan": _PARQUET,
    "read_csv": _CSV,
    "read_json": _JSON,
    "read_ndjson": _JSON,
}


def guessed_by_name(name: str) -> str:
    """Why a file that is a table by its name alone may read a row by others; empty if it does not."""
    if not re.search(r"\.parquet$", name, re.IGNORECASE):
        return (
            "how this file is read is guessed from the rows of all units; read Parquet, or use read_csv with "
            "auto_detect = false and columns = {…}"
        )
    return _by_folders([name], {})


def guessed_by_reader(call: Node) -> str:
    """Why a call may read a row by others: it guesses from rows, skips or numbers them; empty if it does not."""
    name = str(call["function_name"]).lower()
    if name not in _READERS:
        return f"what {name} reads is not known to be rows of the unit alone; use {', '.join(sorted(_READERS))}"
    paths, options = paths_of(call), _options(call)
    if not paths:
        return f"{name} is read from files named in the query: a text or a list of texts"
    unknown = sorted(set(options) - set(_READERS[name].split()))
    if unknown:
        return f"with {unknown[0]} other units' rows may decide how a row of {name} is read, or whether; leave it out"
    if _READERS[name] != _PARQUET:
        if "columns" not in options or options.get("auto_detect") != "false":
            return (
                f"{name} guesses names and types from the rows of all units; say auto_detect = false and "
                "columns = {'user_id': 'VARCHAR', …}"
            )
        if name == "read_json" and options.get("format") not in ("newline_delimited", "array"):
            return "read_json guesses the format from the rows of all units; say format = 'newline_delimited'"
        if options.get("null_padding") == "true" or options.get("strict_mode") == "false":
            return f"{name} repairs rows that are cut or quoted badly by what follows them; leave that out"
    return _by_folders(paths, options)


def paths_of(call: Node) -> list[str]:
    """The files named in a call, if all are texts."""
    arguments = [argument for argument in call.get("arguments", ()) if not _option(argument)]
    first = arguments[0]["expression"] if len(arguments) == 1 else {}
    if first.get("class") == "FUNCTION" and first["function_name"] == "list_value":
        texts = [_text(argument["expression"]) for argument in first.get("arguments", ())]
    else:
        texts = [_text(first)]
    return [text for text in texts if text] if all(texts) else []


def _by_folders(paths: list[str], options: dict[str, str]) -> str:
    """Columns made from folders' names by a pattern: their types are guessed from all of them."""
    folders = [path.replace("\\", "/").rpartition("/")[0] for path in paths]
    told = options.get("hive_partitioning") == "false" or options.get("hive_types_autocast") == "false"
    if not told and "hive_types" not in options and any(re.search(r"[*?\[]", folder) for folder in folders):
        return (
            "types of columns in the names of folders are guessed from all of them; say hive_partitioning = false, "
            "hive_types_autocast = false or hive_types = {…}"
        )
    return ""


def _options(call: Node) -> dict[str, str]:
    found = [_option(argument) for argument in call.get("arguments", ())]
    return dict(option for option in found if option)


def _option(argument: Node) -> tuple[str, str] | None:
    """Name and value of `name = value` or `name := value`."""
    expression = argument["expression"]
    if argument.get("name"):
        return str(argument["name"]).lower(), _value(expression)
    if expression.get("type") == "COMPARE_EQUAL" and expression["left"].get("class") == "COLUMN_REF":
        return str(expression["left"]["column_names"][-1]).lower(), _value(expression["right"])
    return None


def _value(expression: Node) -> str:
    literal = expression.get("literal", {})
    return str(literal.get("text", "")).lower() if expression.get("class") == "CONSTANT" else "…"


def _text(expression: Node) -> str | None:
    inner = expression.get("child", expression) if expression.get("class") == "CAST" else expression
    literal = inner.get("literal", {})
    return str(literal["text"]) if literal.get("kind") == "STRING" else None
