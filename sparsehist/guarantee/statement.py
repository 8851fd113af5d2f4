"""Rewrite a query by DuckDB's parse tree, so that each source in FROM becomes a numbered view.

The tree comes from a connection without any objects of the user. Parameters become constants, files and tables become
`memory.main.source_1`, …; names that are neither a common table expression nor a source are refused. Check and run
both use the rewritten text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import duckdb

from sparsehist.errors import GuaranteeError, StatementError, raise_alone
from sparsehist.guarantee import language
from sparsehist.guarantee.extensions import LACKING
from sparsehist.guarantee.files import READERS, guess_of, reader_of
from sparsehist.store.statements import statement

Node = dict[str, Any]
_KINDS = ("type", "join_type", "ref_type", "setop_type", "subquery_type")
_QUERIES = ("SELECT_NODE", "SET_OPERATION_NODE")
_IN_ANY_FRAME = ("row_number", "ntile", "lag", "lead")


@dataclass(frozen=True)
class Source:
    """One source of a query, by the name that the query gives it."""

    name: str
    public: bool = False  # whether the source is public (contains no data of any unit)
    reader: str = field(default="", repr=False)  # for files: the DuckDB call that reads them
    files: tuple[str, ...] = field(default=(), repr=False)
    opens: Callable[[], Any] | None = field(
        default=None, repr=False
    )  # the frame, Arrow table or relation, unless it is a file
    origin: object = field(default=None, repr=False)  # the frame, path or `Files` that the caller passed
    checked: bool = True  # false for a table or view of a session, whose origin is not checked


Lookup = Callable[[tuple[str, ...]], Source | None]
"""A function from the parts of a name in FROM to its source; None if it is not a table."""


@dataclass(frozen=True, repr=False)
class Rewritten:
    """A query over numbered views."""

    text: str  # the text that is checked and run
    tree: Node  # the parse tree of `text`
    sources: dict[str, Source]  # sources by the name of their view

    def renamed(self, name: str) -> set[str]:
        """Return the columns that the query renames or casts to this name, directly or in several steps."""
        names, added = set[str](), {folded(name)}
        while added:
            names |= added
            renaming = (node for node in nodes(self.tree) if folded(str(node.get("alias", ""))) in names)
            added = {folded(column) for node in renaming for column in _column_names(node)[-1:]} - names
        return names


def nodes(part: object, without: Container[str] = ()) -> Iterator[Node]:
    """Yield every dictionary of a tree, parents first, except those of some types with their contents."""
    if isinstance(part, dict):
        if part.get("type") in without:
            return
        yield part
    for value in part.values() if isinstance(part, dict) else part if isinstance(part, list) else ():
        yield from nodes(value, without)


def folded(name: str) -> str:
    """Return a name as DuckDB folds it: with ASCII letters in lower case."""
    return "".join(letter.lower() if letter.isascii() else letter for letter in name)


def quoted(name: str) -> str:
    """Return an identifier in quotes."""
    return '"' + name.replace('"', '""') + '"'


def quoted_text(text: str) -> str:
    """Return a text as SQL writes it."""
    return "'" + str(text).replace("'", "''") + "'"


def check_words(text: str, parameters: Mapping[str, Any]) -> None:
    """Refuse a query outside the language, for any tables; files need not exist."""
    with duckdb.connect(":memory:", config={"autoinstall_known_extensions": False}) as parser:
        Rewriting(parser, text, lambda path: Source(".".join(path)), parameters, looks_at_files=False).done()


@dataclass
class Rewriting:
    """One pass over the parse tree, which replaces every source of a query by a numbered view.

    `parser` has no objects of the user; `lookup` returns the source of a name in FROM. Parts outside the language are
    only refused if `restricted`; files must exist if it `looks_at_files`.
    """

    parser: duckdb.DuckDBPyConnection
    text: str
    lookup: Lookup
    parameters: Mapping[str, Any]
    public_files: frozenset[str] = frozenset()
    restricted: bool = True
    looks_at_files: bool = True
    sources: dict[str, Source] = field(default_factory=dict)

    def done(self) -> Rewritten:
        """Return the rewritten query; refuse anything but one SELECT of the language over known sources."""
        tree = _tree_of(self.parser, self.text)
        if tree["error"] or len(tree["statements"]) != 1:
            more = "" if tree["error"] else "; this is more than one statement"
            raise GuaranteeError(f"a series is made from one SELECT of the language in docs/sql.md{more}")
        select = tree["statements"][0]
        select["node"] = self._walk(select["node"], frozenset())
        return Rewritten(_text_of(self.parser, tree), tree, self.sources)

    def _walk(self, part: Any, ctes: frozenset[str]) -> Any:
        if isinstance(part, list):
            return [self._walk(one, ctes) for one in part]
        if not isinstance(part, dict):
            return part
        if self.restricted:
            part = _checked(part)
        kind = part.get("type")
        if part.get("class") == "PARAMETER":
            return self._constant(part)
        if kind == "TABLE_FUNCTION":
            name = str(part["function"]["function_name"]).lower()
            if name in READERS or (self.restricted and name not in ("unnest", "range", "generate_series")):
                return self._file(part, self._walk(part["function"], ctes))
        if kind == "BASE_TABLE":
            return self._table(part, ctes)
        if kind == "RECURSIVE_CTE_NODE":  # only in unchecked queries
            ctes |= {folded(part["cte_name"])}
        for entry in (part.get("cte_map") or {}).get("map", []):
            entry["value"] = self._walk(entry["value"], ctes)
            ctes |= {folded(entry["key"])}
        part = {key: value if key == "cte_map" else self._walk(value, ctes) for key, value in part.items()}
        return self._with_unnest(part) if kind == "SELECT_NODE" and self.restricted else part

    def _constant(self, node: Node) -> Node:
        """Replace a parameter by its value, with the type that DuckDB binds."""
        name = str(node.get("identifier", "")).lower()
        values = {known.lower(): value for known, value in self.parameters.items()}
        try:
            ((text, kind),) = self.parser.execute(statement("guarantee_value"), {"value": values[name]}).fetchall()
        except (KeyError, duckdb.Error):
            raise_alone(GuaranteeError(f"the parameter ${name} has no value, or one of a type that DuckDB refuses"))
        constant = self._expression("null" if text is None else f"cast({quoted_text(text)} as {kind})")
        return constant | {"alias": node.get("alias", "")}

    def _table(self, node: Node, ctes: frozenset[str]) -> Node:
        path = tuple((node.get("qualified_name") or {}).get("path", [node["table_name"]]))
        if len(path) == 1 and folded(path[0]) in ctes:
            return node
        source = self.lookup(tuple(map(folded, path)))
        if source is None and len(path) == 1 and (reader := reader_of(path[0])):
            alias = re.split(r"[/\\]", path[0])[-1].split(".")[0]
            return self._file(node, self._expression(f"{reader}({quoted_text(path[0])})"), alias)
        if source is None:
            raise GuaranteeError(
                f"{'.'.join(path)} is no table here; give it in tables= or public=, or name a file in quotes. "
                "Variables of your program are not seen"
            )
        return self._view(node, source, path[-1])

    def _file(self, node: Node, call: Node, alias: str = "") -> Node:
        """Replace files by a view, and keep the call of their reader as text."""
        name = str(call["function_name"]).lower()
        if name not in READERS:
            raise GuaranteeError(f"{name}(…) is no source: use {', '.join(READERS)}, or give a table in tables=")
        arguments = [_option(argument) for argument in call.get("arguments", ())]
        try:
            values = [self._value_of(value) for _, value in arguments]
        except (duckdb.Error, ValueError):
            raise_alone(GuaranteeError(f"the arguments of {name} must be constants or parameters"))
        options = {option: value for (option, _), value in zip(arguments, values, strict=True) if option}
        paths = [] if not values or arguments[0][0] else values[0] if isinstance(values[0], list) else values[:1]
        if not paths or len(options) != len(arguments) - 1 or not all(isinstance(path, str) for path in paths):
            raise GuaranteeError(f"{name} takes the path of a file or a list of paths, and options by name")
        label, alias = ", ".join(paths), alias or name
        if not self.looks_at_files:
            return self._view(node, Source(label), alias)
        if "://" in label:
            raise_alone(StatementError(LACKING))
        public = set(paths) <= self.public_files
        if not public and self.restricted and (reason := guess_of(name, paths, options)):
            raise GuaranteeError(reason)
        query = statement("guarantee_files")
        files = [file for path in paths for (file,) in self.parser.execute(query, {"path": path}).fetchall()]
        if not files:
            raise GuaranteeError(f"{name} finds no file of that name")
        call["arguments"][0]["expression"] = self._expression(f"[{', '.join(map(quoted_text, files))}]")
        tree = _tree_of(self.parser, "from range(1)")
        tree["statements"][0]["node"]["from_table"]["function"] = {**call, "alias": ""}
        reader = f"({_text_of(self.parser, tree)})"
        return self._view(node, Source(label, public=public, reader=reader, files=tuple(files)), alias)

    def _expression(self, text: str, **inserted: Node) -> Node:
        """Return the parse tree of an expression; columns of the names in `inserted` are replaced."""
        return dict(_tree_of(self.parser, f"select {text}", inserted)["statements"][0]["node"]["select_list"][0])

    def _from(self, text: str, **inserted: Node) -> Node:
        """Return the parse tree of a table in FROM; columns and tables of the names in `inserted` are replaced."""
        return dict(_tree_of(self.parser, f"from {text}", inserted)["statements"][0]["node"]["from_table"])

    def _value_of(self, constant: Node) -> Any:
        """Evaluate an expression without tables; it must return one value."""
        tree = _tree_of(self.parser, "select constant", {"constant": {**constant, "alias": ""}})
        ((value,),) = self.parser.execute(_text_of(self.parser, tree)).fetchall()
        return value

    def _view(self, node: Node, source: Source, alias: str) -> Node:
        """Return the node of the numbered view that replaces a table; one view per source."""
        new = f"source_{len(self.sources) + 1}"
        view = next((view for view, known in self.sources.items() if known == source), new)
        self.sources[view] = source
        kept = {key: value for key, value in node.items() if key != "function"}
        return {**kept, **self._from(f"memory.main.{view}"), "alias": node.get("alias") or alias}

    def _with_unnest(self, select: Node) -> Node:
        """Replace `FROM log, unnest(log.tags) AS t(x)` by a query that unnests in its SELECT.

        The query has the alias of `log`, and one more column: a struct of the columns of `t`.
        """
        tables = [one for one in nodes(select.get("from_table"), _QUERIES) if _is_unnest(one)]
        fields: dict[tuple[str, ...], list[str]] = {}
        for table in tables:
            alias = table.get("alias", "")
            for column in table.get("column_name_alias", ()):
                fields[folded(alias), folded(column)] = [f"unnest {alias}", column]
                fields.setdefault((folded(column),), [f"unnest {alias}", column])
        if not tables:
            return select
        others = set(map(folded, _tables(select["from_table"])))
        for node in [node for part in select.values() for node in nodes(part, _QUERIES)]:
            names = node.get("column_names", [])
            key = tuple(map(folded, names[:2]))
            if key not in fields and not (len(names) > 1 and key[0] in others):
                key = key[:1]
            if key in fields:
                node["column_names"] = fields[key] + names[len(key) :]
        return select | {"from_table": self._unnested(select["from_table"])}

    def _unnested(self, table: Node) -> Node:
        join = table.get("type") == "JOIN"
        if join and not _is_unnest(table["right"]):
            return table | {side: self._unnested(table[side]) for side in ("left", "right")}
        if not join and not _is_unnest(table):
            return table
        left, right = (self._unnested(table["left"]), table["right"]) if join else ({}, table)
        name, arguments = left.get("alias") or left.get("table_name"), right["function"].get("arguments", ())
        columns, values = right.get("column_name_alias", ()), ["unnest(list)", "unnest(range(1, len(list) + 1))"]
        usual = table.get("ref_type") == "CROSS" and name and right.get("alias") and len(arguments) == 1
        if not usual or len(columns) != 1 + ("with_ordinality" in right):
            raise GuaranteeError(
                "write unnest directly after its table: FROM log, unnest(list) AS t(x), or unnest(list) WITH "
                "ORDINALITY AS t(x, i); or write SELECT unnest(list) in a query in FROM"
            )
        struct = ", ".join(f"{quoted_text(column)}: {value}" for column, value in zip(columns, values, strict=False))
        query = f"select {{{struct}}} as {quoted('unnest ' + right['alias'])}, * from log"  # noqa: S608  quoted
        return self._from(f"({query}) as {quoted(str(name))}", log=left, list=arguments[0]["expression"])


def _tree_of(parser: duckdb.DuckDBPyConnection, text: str, inserted: Mapping[str, Node] | None = None) -> Node:
    """Return the parse tree of a text, without source positions; columns and tables of these names are replaced."""

    def plain(node: Node) -> Node:
        name = (node.get("column_names") or [node.get("table_name")])[0]
        kept = {key: value for key, value in node.items() if not key.startswith("query_location")}
        return (inserted or {}).get(str(name), kept)

    ((tree,),) = parser.execute(statement("guarantee_tree"), {"query": text}).fetchall()
    return dict(json.loads(tree, object_hook=plain))


def _text_of(parser: duckdb.DuckDBPyConnection, tree: Node) -> str:
    ((text,),) = parser.execute(statement("guarantee_text"), {"tree": json.dumps(tree)}).fetchall()
    return str(text)


def _checked(node: Node) -> Node:
    """Refuse a part outside the language; remove ORDER BY, which has no effect on the rows of a result."""
    words = {word for word in map(node.get, _KINDS) if isinstance(word, str)} | ({"sample"} & node.keys())
    refused = min(words & language.REASONS.keys(), default="")
    if refused:
        raise GuaranteeError(language.REASONS[refused])
    if node.get("class") in ("FUNCTION", "WINDOW"):
        name = str(node["function_name"]).lower()
        if (
            name not in language.WRITTEN | READERS.keys()
            or len(node.get("qualified_name", {}).get("path", [name])) != 1
        ):
            raise GuaranteeError(language.REASONS["function"].format(what=name, instead=language.instead_of(name)))
    if "modifiers" not in node:
        return node
    return node | {"modifiers": [one for one in node["modifiers"] if one["type"] != "ORDER_MODIFIER"]}


def break_ties(parser: duckdb.DuckDBPyConnection, query: Rewritten) -> Rewritten:
    """Return the same query with more columns in each ORDER BY that picks rows, or an ORDER BY where it has none.

    They are the groups of a SELECT, for its windows, or else the rows of all tables in FROM, and their text too: it
    distinguishes floating-point numbers that are equal but not alike.
    """
    tree = json.loads(json.dumps(query.tree))
    for select in [node for node in nodes(tree) if node.get("type") == "SELECT_NODE"]:
        groups = [one for one in select.get("group_expressions", ()) if one["class"] in ("COLUMN_REF", "FUNCTION")]
        names = _tables(select.get("from_table") or {})
        tables: list[Node] = [{"class": "COLUMN_REF", "type": "COLUMN_REF", "column_names": [name]} for name in names]
        cast = {"class": "CAST", "type": "OPERATOR_CAST", "cast_type": {"id": "VARCHAR"}}
        tables += [{**cast, "child": table} for table in tables]
        for node in [node for part in select.values() for node in nodes(part, _QUERIES)]:
            in_window = node.get("class") == "WINDOW"
            if _keeps_its_rows(node) if in_window else node.get("function_name") in language.ORDERED:
                columns = (groups or tables) if in_window else tables
                if node.get("distinct"):
                    columns = [one["expression"] for one in node["arguments"][:1]]
                ordered = node if in_window else node.setdefault("order_bys", {"type": "ORDER_MODIFIER"})
                order = {"type": "ORDER_DEFAULT", "null_order": "ORDER_DEFAULT"}
                ordered["orders"] = [*ordered.get("orders", ()), *({**order, "expression": one} for one in columns)]
    return replace(query, text=_text_of(parser, tree), tree=tree)


def _keeps_its_rows(window: Node) -> bool:
    """Return whether a window looks at the same rows after more columns are added to its ORDER BY."""
    name, start = window.get("function_name"), window.get("start")
    from_first = name == "first_value" and start == "UNBOUNDED_PRECEDING"
    return from_first or name in _IN_ANY_FRAME or "_ROWS" in f"{start} {window.get('end')}"


def _tables(table: Node) -> list[str]:
    """Return the names of the tables in FROM, in order."""
    if table.get("type") == "JOIN":
        right = _tables(table["right"]) if table["join_type"] not in ("SEMI", "ANTI") else []
        return [*_tables(table["left"]), *right]
    return [name] if (name := table.get("alias") or table.get("table_name")) else []


def _is_unnest(table: Node) -> bool:
    return table.get("type") == "TABLE_FUNCTION" and table["function"]["function_name"].lower() == "unnest"


def _column_names(node: Node) -> list[str]:
    """Return the parts of a column's name, without the casts around it."""
    return _column_names(node["child"]) if node.get("class") == "CAST" else node.get("column_names", [])


def _option(argument: Node) -> tuple[str, Node]:
    """Return the name of an option and its value; the name is empty for what is read."""
    expression = argument["expression"]
    if argument.get("name"):
        return str(argument["name"]).lower(), expression
    if expression.get("type") == "COMPARE_EQUAL" and expression["left"].get("class") == "COLUMN_REF":
        return str(expression["left"]["column_names"][-1]).lower(), expression["right"]
    return "", expression
