"""Rewrite the parse tree of a query, so that it reads numbered views in place of files and tables.

DuckDB parses the query on a connection without tables, macros or settings of the user. Parameters become constants;
files and tables become `memory.main.source_1` and so on. Names that are neither a common table expression nor a
source are refused. The rewritten text is checked and run.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import duckdb

from sparsehist.errors import GuaranteeError, StatementError, raise_alone
from sparsehist.guarantee import language
from sparsehist.guarantee.language import LACKING, READERS, Node, check_options, nodes, reader_of, require
from sparsehist.store.statements import statement

if TYPE_CHECKING:
    from sparsehist.counting.contract import Query

_KINDS = ("type", "join_type", "ref_type", "setop_type", "subquery_type")
_QUERIES = ("SELECT_NODE", "SET_OPERATION_NODE")
_KEEPING = ("row_number ", "ntile ", "lag ", "lead ", "first_value UNBOUNDED_PRECEDING")
"""Windows, with the start of the frame, that keep their rows if columns are added to ORDER BY."""
_ORDER = {"type": "ORDER_DEFAULT", "null_order": "ORDER_DEFAULT"}


@dataclass(frozen=True)
class Source:
    """A source of a query: files with the SQL call that reads them, or a function that opens a frame or relation."""

    name: str  # table name or file paths, as the query writes them
    public: bool = False  # whether the source contains no data of any unit
    reader: str = field(default="", repr=False)
    files: tuple[str, ...] = field(default=(), repr=False)
    opens: Callable[[], Any] | None = field(default=None, repr=False)
    origin: object = field(default=None, repr=False)  # the caller's frame, path or `Files`
    checked: bool = True  # false for private tables and views of a DuckDB session, because their origin is unknown


Lookup = Callable[[tuple[str, ...]], Source | None]
"""A function from the parts of a name in FROM to its source, or to None if there is no such table."""


def folded(name: str) -> str:
    """Return a name with ASCII letters in lower case: DuckDB compares names in this form."""
    return "".join(letter.lower() if letter.isascii() else letter for letter in name)


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _literal(value: object) -> str:
    return str(duckdb.ConstantExpression(value))


@dataclass
class Rewriting:
    """A query rewritten to read numbered views in place of its sources. `text` is its SQL, and `tree` its parse tree.

    `parser` is a connection with no user-defined tables, macros or settings. SQL outside the subset described in
    docs/sql.md is refused, unless the query was declared unverified.
    """

    parser: duckdb.DuckDBPyConnection
    query: Query
    lookup: Lookup
    sources: dict[str, Source] = field(default_factory=dict)  # sources by the names of their views

    def __post_init__(self) -> None:
        """Rewrite the query. Refuse it unless it is a single SELECT with only allowed SQL and known sources."""
        self.tree = self._walk(self._select(self.query.sql), frozenset())
        self.text = self._text_of(self.tree)

    def renamed(self, name: str) -> set[str]:
        """Return `name`, and the names of all columns from which the query may compute a column called `name`."""
        names = {folded(name)}
        for node in 9 * list(nodes(self.tree)):  # nine passes, to follow chains of up to nine renamings
            if "class" in node and folded(str(node.get("alias", ""))) in names:
                names |= {folded(inner["column_names"][-1]) for inner in nodes(node) if "column_names" in inner}
        return names

    def _select(self, text: str, **inserted: Node) -> Node:
        """Parse a SELECT to a tree without positions. Replace tables and columns named in `inserted` by its nodes."""

        def plain(node: Node) -> Node:
            name = (node.get("column_names") or [node.get("table_name")])[0]
            kept = {key: value for key, value in node.items() if not key.startswith("query_location")}
            return inserted.get(str(name), kept)

        ((text,),) = self.parser.execute(statement("guarantee_tree"), {"query": text}).fetchall()
        tree = json.loads(text, object_hook=plain)
        one = not tree["error"] and len(tree["statements"]) == 1
        require(one, "a series needs exactly one SELECT in the language of docs/sql.md")
        return dict(tree["statements"][0]["node"])

    def _text_of(self, select: Node) -> str:
        tree = json.dumps({"error": False, "statements": [{"node": select}]})
        ((text,),) = self.parser.execute(statement("guarantee_text"), {"tree": tree}).fetchall()
        return str(text)

    def _expression(self, text: str) -> Node:
        return dict(self._select(f"select {text}")["select_list"][0])

    def _walk(self, part: Any, ctes: frozenset[str]) -> Any:
        if not isinstance(part, dict):
            return [self._walk(one, ctes) for one in part] if isinstance(part, list) else part
        kind, verified = part.get("type"), not self.query.unverified
        if verified:
            _check_words(part)
            _rename_elements(part)
        if part.get("class") == "PARAMETER":
            return self._constant(part)
        called = _called(part)
        if called in READERS or (verified and called not in ("", "unnest", "range", "generate_series")):
            return self._file(part, self._walk(part["function"], ctes))
        if kind == "BASE_TABLE":
            return self._table(part, ctes)
        if kind == "RECURSIVE_CTE_NODE":  # only unverified queries may be recursive
            ctes |= {folded(part["cte_name"])}
        for entry in (part.get("cte_map") or {}).get("map", []):
            entry["value"] = self._walk(entry["value"], ctes)
            ctes |= {folded(entry["key"])}
        part = {key: value if key == "cte_map" else self._walk(value, ctes) for key, value in part.items()}
        return self._with_elements(part) if verified and _called(part.get("right", {})) == "unnest" else part

    def _constant(self, node: Node) -> Node:
        """Return the constant that replaces a parameter. DuckDB derives its type from the value."""
        values = {key.lower(): value for key, value in (self.query.parameters or {}).items()}
        name = str(node.get("identifier", "")).lower()
        try:
            constant = self._expression(_literal(values[name]))
        except (KeyError, TypeError, GuaranteeError, duckdb.Error):
            raise_alone(GuaranteeError(f"the parameter ${name} has no value, or its type is unknown to DuckDB"))
        return constant | {"alias": node.get("alias", "")}

    def _table(self, node: Node, ctes: frozenset[str]) -> Node:
        path = tuple((node.get("qualified_name") or {}).get("path", [node["table_name"]]))
        if len(path) == 1 and folded(path[0]) in ctes:
            return node
        source = self.lookup(tuple(map(folded, path)))
        if source is not None:
            return self._view(node, source, path[-1])
        reader = reader_of(path[0]) if len(path) == 1 else ""
        remedy = "pass it in tables= or public=, or name a file in quotes. Variables of your program are not seen"
        require(reader, f"there is no table {'.'.join(path)}; {remedy}")
        alias = re.split(r"[/\\]", path[0])[-1].split(".")[0]
        return self._file(node, self._expression(f"{reader}({_literal(path[0])})"), alias)

    def _file(self, node: Node, call: Node, alias: str = "") -> Node:
        """Return the view that replaces a call of a file reader. The `Source` of the view contains this call."""
        name = call["function_name"].lower()
        require(name in READERS, f"{name}(…) is not a source: use {', '.join(READERS)}, or pass a table in tables=")
        try:  # evaluate the arguments as a struct: DuckDB refuses arguments that are not constants or share a name
            first, *options = call.get("arguments", ())
            pairs = [(one["expression"]["left"]["column_names"][-1], one["expression"]["right"]) for one in options]
            named = [{"name": name, "expression": value} for name, value in pairs]
            struct = self._expression("struct_pack()") | {"arguments": [{**first, "name": "files"}, *named]}
            text = self._text_of(self._select("select struct", struct=struct))
            ((values,),) = self.parser.execute(text).fetchall()
            paths = values.pop("files") if isinstance(values["files"], list) else [values.pop("files")]
            label, public = ", ".join(paths), set(paths) <= self.query.public.keys()
        except (duckdb.Error, KeyError, TypeError, ValueError):
            raise_alone(GuaranteeError(f"{name} takes constants only: paths, and options as name = value"))
        if "://" in label:
            raise_alone(StatementError(LACKING))
        if not public and not self.query.unverified:
            check_options(name, paths, {option.lower(): value for option, value in values.items()})
        query = statement("guarantee_files")
        files = [file for path in paths for (file,) in self.parser.execute(query, {"path": path}).fetchall()]
        require(files, f"{name} finds no file with this name")
        arguments = [{"expression": self._expression(_literal(files))}, *options]
        function = {"type": "TABLE_FUNCTION", "function": {**call, "arguments": arguments, "alias": ""}}
        reader = f"({self._text_of(self._select('from reader', reader=function))})"
        return self._view(node, Source(label, public=public, reader=reader, files=tuple(files)), alias or name)

    def _view(self, node: Node, source: Source, alias: str) -> Node:
        """Return the numbered view that replaces a table. All uses of a source share one view."""
        view = next((name for name, one in self.sources.items() if one == source), f"source_{len(self.sources) + 1}")
        self.sources[view] = source
        table = self._select(f"from memory.main.{view}")["from_table"]
        return {**node, **table, "alias": node.get("alias") or alias}

    def _with_elements(self, join: Node) -> Any:
        """Replace `log, unnest(log.tags) AS t(x)` in FROM by a query that unnests in its SELECT.

        This query has the alias of `log` and an additional column `unnest t`, a struct of the columns of t.
        """
        left, right, form = join["left"], join["right"], "log, unnest(list) [WITH ORDINALITY] AS t(x)"
        name, arguments = left.get("alias") or left.get("table_name"), right["function"].get("arguments", ())
        columns, values = right.get("column_name_alias", ()), ["unnest(list)", "unnest(range(1, len(list) + 1))"]
        usual = join.get("ref_type") == "CROSS" and name and right.get("alias") and len(arguments) == 1
        complete = usual and len(columns) == 1 + ("with_ordinality" in right)
        require(complete, f"write FROM {form}, directly after its table, or SELECT unnest(list) in a query in FROM")
        struct = ", ".join(f"{_literal(column)}: {value}" for column, value in zip(columns, values, strict=False))
        query = f"select {{{struct}}} as {quoted('unnest ' + right['alias'])}, * from log"  # noqa: S608  quoted
        query = f"from ({query}) as {quoted(str(name))}"
        return self._select(query, log=left, list=arguments[0]["expression"])["from_table"]

    def break_ties(self) -> None:
        """Add sort keys to each ORDER BY whose ties may change a result, so that only identical rows remain tied.

        In windows of a SELECT with GROUP BY, ORDER BY is extended by the expressions of GROUP BY. Otherwise, ORDER BY
        is extended by the row of each table in FROM: as a struct, and again as text, in which 0.0 and -0.0 differ.
        """
        for select in [node for node in nodes(self.tree) if node.get("type") == "SELECT_NODE"]:
            tables, groups = _tables(select.get("from_table") or {}), select.get("group_expressions", ())
            groups = [one for one in groups if one["class"] in ("COLUMN_REF", "FUNCTION")]
            rows = [self._expression(quoted(name) + cast) for cast in ("", "::varchar") for name in tables]
            for node in list(nodes(list(select.values()), _QUERIES)):
                in_window, name = node.get("class") == "WINDOW", node.get("function_name")
                frame = f"{name} {node.get('start')} {node.get('end')}"
                if "_ROWS" in frame or frame.startswith(_KEEPING) if in_window else name in language.ORDERED:
                    columns = groups if in_window and groups else rows
                    if node.get("distinct"):
                        columns = [one["expression"] for one in node["arguments"][:1]]
                    ordered = node if in_window else node["order_bys"]
                    added = [_ORDER | {"expression": one} for one in columns]
                    ordered["orders"] = [*ordered.get("orders", ()), *added]
        self.text = self._text_of(self.tree)


def _rename_elements(select: Node) -> None:
    """Rename columns of `unnest(…) AS t(x)` in FROM: `t.x` and `x` become `"unnest t".x`; see `_with_elements`."""
    unnested = [table for table in nodes(select.get("from_table"), _QUERIES) if _called(table) == "unnest"]
    tables = {folded(name): [name] for name in _tables(select.get("from_table") or {})}
    columns: dict[str, list[str]] = {}
    for table in unnested:
        struct = f"unnest {table.get('alias', '')}"
        tables[folded(table.get("alias", ""))] = [struct]
        columns |= {folded(name): [struct, name] for name in table.get("column_name_alias", ())}
    for node in nodes(list(select.values()), _QUERIES) if unnested else ():
        first, *rest = node.get("column_names") or [""]
        start = (tables.get(folded(first)) if rest else None) or columns.get(folded(first))
        if start:
            node["column_names"] = start + rest


def _check_words(node: Node) -> None:
    """Refuse a node of the parse tree if its SQL is not allowed. Remove an ORDER BY that only sorts the result."""
    words = [word for word in map(node.get, _KINDS) if isinstance(word, str)] + ["SAMPLE"] * ("sample" in node)
    refusal = language.refusal_of(*words)
    require(not refusal, refusal)
    if node.get("class") in ("FUNCTION", "WINDOW"):
        name = node["function_name"].lower()
        plain = len(node.get("qualified_name", {}).get("path", [name])) == 1
        require(plain and name in language.WRITTEN | READERS.keys(), language.refused_function(name))
    if "modifiers" in node:
        node["modifiers"] = [one for one in node["modifiers"] if one["type"] != "ORDER_MODIFIER"]


def _tables(table: Node) -> list[str]:
    """Return the names of the tables in FROM, from left to right."""
    if table.get("type") == "JOIN":
        right = _tables(table["right"]) if table["join_type"] not in ("SEMI", "ANTI") else []
        return [*_tables(table["left"]), *right]
    return [name] if (name := table.get("alias") or table.get("table_name")) else []


def _called(table: Node) -> str:
    """Return the name of the table function that a table in FROM calls, or an empty string."""
    return str(table.get("function", {}).get("function_name", "")).lower()
