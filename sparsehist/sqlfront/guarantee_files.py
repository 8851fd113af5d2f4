"""Files a query reads: how a row is read may not depend on other rows."""

from __future__ import annotations

import re

from sparsehist.sqlfront.guarantee_relations import Context
from sparsehist.sqlfront.guarantee_tree import Node
from sparsehist.sqlfront.identifiers import folded

_PARQUET = "hive_partitioning hive_types hive_types_autocast filename binary_as_string encryption_config compression"
_CSV = """
    auto_detect columns header delim sep quote escape nullstr allow_quoted_nulls force_not_null dateformat
    timestampformat decimal_separator thousands new_line comment compression encoding strict_mode filename
    hive_partitioning max_line_size maximum_line_size buffer_size parallel null_padding
"""
_JSON = (
    "columns format auto_detect dateformat timestampformat compression filename hive_partitioning maximum_object_size"
)
READERS = {
    "read_parquet": _PARQUET,
    "parquet_scan": _PARQUET,
    "read_csv": _CSV,
    "read_json": _JSON,
    "read_ndjson": _JSON,
}


_ENDING = re.compile(r"\.(csv|tsv|txt|parquet|json|jsonl|ndjson|xlsx|db|duckdb|gz|zst|bz2|arrows?|ipc|avro)$")


def looks_like_file(name: str) -> bool:
    """Whether DuckDB may read a table of that name from a file or an address."""
    return bool(re.search(r"[./\\:*?\[]", name))


def check_file_name(ctx: Context, node: Node, name: str) -> None:
    """Refuse a file as a table, unless it is Parquet."""
    if not re.search(r"\.parquet$", name, re.IGNORECASE):
        ctx.refuse(
            node,
            "how this file is read is guessed from the rows of all units; read Parquet, or use read_csv with "
            "auto_detect = false and columns = {…}",
        )
    _check_folders(ctx, node, [name], {})


def check_no_file(ctx: Context, node: Node, name: str) -> None:
    """Refuse a name with dots that DuckDB takes for a file where there is no such table."""
    if _ENDING.search(name):
        ctx.refuse(node, f"{name} may be a file: write the name of a file in quotes, and give a table another name")


def check_reader(ctx: Context, node: Node) -> None:
    """Refuse a reader that guesses from rows, skips rows, or numbers them.

    Raises:
        GuaranteeError: If it may.
    """
    name = folded(node["function_name"])
    paths, options = paths_of(node), _options(node)
    if not paths:
        ctx.refuse(node, f"{name} is read from files named in the query: a text or a list of texts")
    unknown = sorted(set(options) - set(READERS[name].split()))
    if unknown:
        ctx.refuse(
            node,
            f"with {unknown[0]} the rows of other units may decide how a row of {name} is read, or whether; "
            "leave it out",
        )
    if name in ("read_parquet", "parquet_scan"):
        _check_folders(ctx, node, paths, options)
        return
    if "columns" not in options or options.get("auto_detect") != "false":
        ctx.refuse(
            node,
            f"{name} guesses names and types from the rows of all units; say auto_detect = false and "
            "columns = {'user_id': 'VARCHAR', …}",
        )
    if name == "read_json" and options.get("format") not in ("newline_delimited", "array"):
        ctx.refuse(node, "read_json guesses the format from the rows of all units; say format = 'newline_delimited'")
    if options.get("null_padding") == "true" or options.get("strict_mode") == "false":
        ctx.refuse(node, f"{name} repairs rows that are cut or quoted badly by what follows them; leave that out")
    _check_folders(ctx, node, paths, options)


def paths_of(node: Node) -> list[str]:
    """The files named in a call, if all are texts."""
    arguments = [argument for argument in node.get("arguments", ()) if not _option(argument)]
    first = arguments[0]["expression"] if len(arguments) == 1 else {}
    if first.get("class") == "FUNCTION" and first["function_name"] == "list_value":
        texts = [_text(argument["expression"]) for argument in first.get("arguments", ())]
    else:
        texts = [_text(first)]
    return [text for text in texts if text] if all(texts) else []


def _check_folders(ctx: Context, node: Node, paths: list[str], options: dict[str, str]) -> None:
    """Refuse columns made from folders' names by a pattern: their types are guessed from all of them."""
    folders = [path.replace("\\", "/").rpartition("/")[0] for path in paths]
    told = options.get("hive_partitioning") == "false" or options.get("hive_types_autocast") == "false"
    if not told and "hive_types" not in options and any(re.search(r"[*?\[]", folder) for folder in folders):
        ctx.refuse(
            node,
            "types of columns in the names of folders are guessed from all of them; say hive_partitioning = false, "
            "hive_types_autocast = false or hive_types = {…}",
        )


def _options(node: Node) -> dict[str, str]:
    found = [_option(argument) for argument in node.get("arguments", ())]
    return dict(option for option in found if option)


def _option(argument: Node) -> tuple[str, str] | None:
    """Name and value of `name = value` or `name := value`."""
    expression = argument["expression"]
    if argument.get("name"):
        return folded(str(argument["name"])), _value(expression)
    if expression.get("type") == "COMPARE_EQUAL" and expression["left"].get("class") == "COLUMN_REF":
        return folded(str(expression["left"]["column_names"][-1])), _value(expression["right"])
    return None


def _value(expression: Node) -> str:
    literal = expression.get("literal", {})
    return folded(str(literal.get("text", ""))) if expression.get("class") == "CONSTANT" else "…"


def _text(expression: Node) -> str | None:
    literal = expression.get("literal", {})
    return str(literal["text"]) if literal.get("kind") == "STRING" else None
