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
from typing import Any, NoReturn

import duckdb

from sparsehist.errors import GuaranteeError, StatementError, raise_alone
from sparsehist.guarantee import language
from sparsehist.guarantee.extensions import LACKING
from sparsehist.guarantee.files import READERS, guess_of, reader_of
from sparsehist.store.statements import statement

Node = dict[str, Any]
NOWHERE = 2**63
_PLACE = ("query_location", "query_location_length")
_KINDS = ("type", "join_type", "ref_type", "setop_type", "subquery_type")
_QUERIES = ("SELECT_NODE", "SET_OPERATION_NODE")
_ROW_MAKERS = ("unnest", "range", "generate_series")
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


@dataclass(frozen=True)
class Rewritten:
    """A query over numbered views."""

    text: str = field(repr=False)  # the text that is checked and run
    sources: dict[str, Source]  # sources by the name of their view
    written: str = field(repr=False)  # the original query
    tree: Node = field(repr=False)  # the parse tree of `text`, with positions in `written`

    def refusal(self, reason: str, call: str = "", **words: object) -> GuaranteeError:
        """Return the error that refuses the query for a reason of the language, placed at the call of a function."""
        calls = (node for node in nodes(self.tree) if str(node.get("function_name", "")).lower() == call)
        span = min(filter(None, map(span_of, calls)), default=None)
        written = "" if span is None else self.written.encode()[slice(*span)].decode()
        said = language.REASONS[reason].format(call=written, **words)
        return refusal(self.written, said, span, tied=reason == "ties")

    def renamed(self, name: str) -> set[str]:
        """Return the columns that the query renames or casts to this name, directly or in several steps."""
        found, known = {folded(name)}, 0
        while known < len(found):
            known = len(found)
            for node in nodes(self.tree):
                if folded(str(node.get("alias", ""))) in found:
                    found |= {folded(copied) for copied in _uncast(node).get("column_names", ())[-1:]}
        return found


def nodes(part: object, without: Container[str] = ()) -> Iterator[Node]:
    """Yield every dictionary of a tree, parents first, except those of some types with their contents."""
    if isinstance(part, dict):
        if part.get("type") in without:
            return
        yield part
    for value in part.values() if isinstance(part, dict) else part if isinstance(part, list) else ():
        yield from nodes(value, without)


def span_of(node: Node) -> tuple[int, int] | None:
    """Return the span of a node in bytes, if it has a source position."""
    start = int(node.get("query_location", NOWHERE))
    return (start, start + max(1, int(node.get("query_location_length", 0)))) if start < NOWHERE else None


def _uncast(node: Node) -> Node:
    return _uncast(node["child"]) if node.get("class") == "CAST" else node


def line_and_column(text: str, at: int) -> tuple[int, int]:
    """Return the line and column of a character, both from 1."""
    return text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)


def refusal(text: str, reason: str, span: tuple[int, int] | None = None, *, tied: bool = False) -> GuaranteeError:
    """Return the error that refuses a query; `span` is in bytes, by default the whole text."""
    written = text.encode()
    start, end = (len(written[:at].decode(errors="ignore")) for at in span or (0, len(written)))
    line, column = line_and_column(text, start)
    message = f"line {line}, column {column}: {reason}"
    return GuaranteeError(message, reason=reason, start=start, end=end, tied=tied)


def folded(name: str) -> str:
    """Return a name as DuckDB folds it: with ASCII letters in lower case."""
    return "".join(letter.lower() if letter.isascii() else letter for letter in name)


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
        tree = self._parsed(self.text)
        if tree["error"] or len(tree["statements"]) != 1:
            at = int(tree.get("position", NOWHERE)) if tree["error"] else 0
            more = "" if tree["error"] else "; this is more than one statement"
            reason = f"a series is made from one SELECT of the language that docs/sql.md describes{more}"
            raise refusal(self.text, reason, (at, at + 1) if at < NOWHERE else None)
        select = tree["statements"][0]
        select["node"] = self._walk(select["node"], frozenset())
        return Rewritten(self._text_of(tree), self.sources, self.text, tree)

    def _parsed(self, text: str, *, places: bool = True) -> Node:
        ((found,),) = self.parser.execute(statement("guarantee_tree"), {"query": text}).fetchall()
        return dict(json.loads(found, object_hook=None if places else _without_place))

    def _text_of(self, tree: Node) -> str:
        ((text,),) = self.parser.execute(statement("guarantee_text"), {"tree": json.dumps(tree)}).fetchall()
        return str(text)

    def _refuse(self, node: Node, reason: str) -> NoReturn:
        span = span_of(node) or min(filter(None, map(span_of, nodes(node))), default=None)
        raise refusal(self.text, reason, span)

    def _walk(self, part: Any, ctes: frozenset[str]) -> Any:  # noqa: C901  one rule for each kind of node
        if isinstance(part, list):
            return [self._walk(one, ctes) for one in part]
        if not isinstance(part, dict):
            return part
        if self.restricted:
            self._check(part)
        kind = part.get("type")
        if part.get("class") == "PARAMETER":
            return self._constant(part)
        if kind == "TABLE_FUNCTION" and isinstance(part.get("function"), dict):
            called = str(part["function"]["function_name"]).lower()
            if called in ("delta_scan", "iceberg_scan"):
                raise_alone(StatementError(LACKING))
            if called in READERS or (called not in _ROW_MAKERS and self.restricted):
                return self._file(part, self._walk(part["function"], ctes))
        if kind == "BASE_TABLE":
            return self._table(part, ctes)
        if kind == "RECURSIVE_CTE_NODE":  # only in unchecked queries
            ctes |= {folded(part["cte_name"])}
        for entry in (part.get("cte_map") or {}).get("map", []):
            if entry["key"].lower().startswith("__duckdb"):
                self._refuse(part, "names that begin with __duckdb are DuckDB's own")
            entry["value"] = self._walk(entry["value"], ctes)
            ctes |= {folded(entry["key"])}
        return {key: value if key == "cte_map" else self._walk(value, ctes) for key, value in part.items()}

    def _check(self, node: Node) -> None:
        """Refuse a part outside the language."""
        words = {word for word in map(node.get, _KINDS) if isinstance(word, str)} | ({"sample"} & node.keys())
        refused = min(words & language.REASONS.keys(), default="")
        if refused:
            self._refuse(node, language.REASONS[refused])
        if node.get("class") in ("FUNCTION", "WINDOW"):
            name = str(node["function_name"]).lower()
            known = language.WRITTEN | language.ORDERLESS | language.ADDING | language.ORDERED | READERS.keys()
            if node["class"] == "WINDOW":
                known |= frozenset(language.WINDOWS.split())
            if name not in known or len((node.get("qualified_name") or {}).get("path", [name])) != 1:
                self._refuse(node, f"{name} is not in the language of a series' query; {language.instead_of(name)}")

    def _constant(self, node: Node) -> Node:
        """Replace a parameter by its value, with the type that DuckDB binds."""
        name = str(node.get("identifier", "")).lower()
        given = {known.lower(): value for known, value in self.parameters.items()}
        try:
            ((written, kind),) = self.parser.execute(statement("guarantee_value"), {"value": given[name]}).fetchall()
        except (KeyError, duckdb.Error):
            self._refuse(node, f"the parameter ${name} has no value, or one of a type that DuckDB does not take")
        made = self._expression("null" if written is None else f"cast({quoted_text(written)} as {kind})")
        return made | {key: node[key] for key in ("alias", *_PLACE) if key in node}

    def _table(self, node: Node, ctes: frozenset[str]) -> Node:
        path = tuple((node.get("qualified_name") or {}).get("path", [node["table_name"]]))
        if len(path) == 1 and folded(path[0]) in ctes:
            return node
        source = self.lookup(tuple(map(folded, path)))
        if source is None and len(path) == 1 and (reader := reader_of(path[0])):
            alias = re.split(r"[/\\]", path[0])[-1].split(".")[0]
            return self._file(node, self._expression(f"{reader}({quoted_text(path[0])})"), alias)
        if source is None:
            self._refuse(
                node,
                f"{'.'.join(path)} is no table here; give it in tables= or public=, or name a file in quotes. "
                "Variables of your program are not seen",
            )
        return self._view(node, source, path[-1])

    def _file(self, node: Node, call: Node, alias: str = "") -> Node:
        """Replace files by a view, and keep the call of their reader as text."""
        name = str(call["function_name"]).lower()
        if name not in READERS:
            self._refuse(node, f"{name}(…) is no source: use {', '.join(READERS)}, or give a table in tables=")
        given = [_option(argument) for argument in call.get("arguments", ())]
        try:
            values = [self._value_of(value) for _, value in given]
        except (duckdb.Error, ValueError):
            self._refuse(node, f"what {name} reads and how must be constants or parameters")
        options = {option: value for (option, _), value in zip(given, values, strict=True) if option}
        paths = [] if not values or given[0][0] else values[0] if isinstance(values[0], list) else values[:1]
        if not paths or len(options) != len(given) - 1 or not all(isinstance(path, str) for path in paths):
            self._refuse(node, f"{name} is read from files named in the query: a text or a list of texts")
        called, alias = ", ".join(paths), alias or name
        if not self.looks_at_files:
            return self._view(node, Source(called), alias)
        if "://" in called:
            raise_alone(StatementError(LACKING))
        public = set(paths) <= self.public_files
        if not public and self.restricted and (reason := guess_of(name, paths, options)):
            self._refuse(node, reason)
        asked = statement("guarantee_files")
        files = [file for path in paths for (file,) in self.parser.execute(asked, {"path": path}).fetchall()]
        if not files:
            self._refuse(node, f"{name} finds no file of that name")
        call["arguments"][0]["expression"] = self._expression(f"[{', '.join(map(quoted_text, files))}]")
        tree = self._parsed("from range(1)")
        tree["statements"][0]["node"]["from_table"]["function"] = {**call, "alias": ""}
        source = Source(called, public=public, reader=f"({self._text_of(tree)})", files=tuple(files))
        return self._view(node, source, alias)

    def _expression(self, text: str) -> Node:
        """Return the parse tree of an expression, without source positions."""
        return dict(self._parsed(f"select {text}", places=False)["statements"][0]["node"]["select_list"][0])

    def _value_of(self, constant: Node) -> Any:
        """Evaluate an expression without tables; it must return one value."""
        tree = self._parsed("select 1")
        tree["statements"][0]["node"]["select_list"] = [{**constant, "alias": ""}]
        ((value,),) = self.parser.execute(self._text_of(tree)).fetchall()
        return value

    def _view(self, node: Node, source: Source, alias: str) -> Node:
        """Return the node of the numbered view that replaces a table; one view per source."""
        new = f"source_{len(self.sources) + 1}"
        view = next((view for view, known in self.sources.items() if known == source), new)
        self.sources[view] = source
        made: Node = self._parsed(f"from memory.main.{view}", places=False)["statements"][0]["node"]["from_table"]
        kept = {key: value for key, value in node.items() if key != "function"}
        return {**kept, **made, "alias": node.get("alias") or alias}


def break_ties(parser: duckdb.DuckDBPyConnection, rewritten: Rewritten, *, by_text: bool) -> Rewritten:
    """Return the same query with more columns in each ORDER BY that picks rows, or an ORDER BY where it has none.

    They are the groups of a SELECT, for its windows, or else the rows of all tables in FROM, and `by_text` their text
    too: it tells apart floating-point numbers that are equal but not alike.
    """
    tree = json.loads(json.dumps(rewritten.tree))
    for select in [node for node in nodes(tree) if node.get("type") == "SELECT_NODE"]:
        groups = [one for one in select.get("group_expressions", ()) if one["class"] in ("COLUMN_REF", "FUNCTION")]
        names = _tables(select.get("from_table") or {})
        tables: list[Node] = [{"class": "COLUMN_REF", "type": "COLUMN_REF", "column_names": [name]} for name in names]
        cast = {"class": "CAST", "type": "OPERATOR_CAST", "cast_type": {"id": "VARCHAR"}}
        tables += [{**cast, "child": table} for table in tables if by_text]
        for node in [node for part in select.values() for node in nodes(part, _QUERIES)]:
            in_window = node.get("class") == "WINDOW"
            if _keeps_its_rows(node) if in_window else node.get("function_name") in language.ORDERED:
                columns = (groups or tables) if in_window else tables
                if node.get("distinct"):
                    columns = [one["expression"] for one in node["arguments"][:1]]
                ordered = node if in_window else node.setdefault("order_bys", {"type": "ORDER_MODIFIER"})
                order = {"type": "ORDER_DEFAULT", "null_order": "ORDER_DEFAULT"}
                ordered["orders"] = [*ordered.get("orders", ()), *({**order, "expression": one} for one in columns)]
    ((text,),) = parser.execute(statement("guarantee_text"), {"tree": json.dumps(tree)}).fetchall()
    return replace(rewritten, text=str(text), tree=tree)


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


def quoted(name: str) -> str:
    """Return an identifier in quotes."""
    return '"' + name.replace('"', '""') + '"'


def quoted_text(text: str) -> str:
    """Return a text as SQL writes it."""
    return "'" + str(text).replace("'", "''") + "'"


def _without_place(node: Node) -> Node:
    return {key: value for key, value in node.items() if key not in _PLACE}


def _option(argument: Node) -> tuple[str, Node]:
    """Return the name of an option and its value; the name is empty for what is read."""
    expression = argument["expression"]
    if argument.get("name"):
        return str(argument["name"]).lower(), expression
    if expression.get("type") == "COMPARE_EQUAL" and expression["left"].get("class") == "COLUMN_REF":
        return str(expression["left"]["column_names"][-1]).lower(), expression["right"]
    return "", expression
