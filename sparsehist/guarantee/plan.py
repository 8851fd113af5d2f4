"""A query as DuckDB itself will run it: its own plan, before anything is optimized.

The plan comes from the binder of the connection that runs the query. So views, macros, collations and types are
followed wherever they were defined, every name is resolved by the engine and every type is the one it computes with.
Only files and frames stand in the way: DuckDB writes no plan of them. In the text that is planned, each is replaced
by an empty relation of the same columns, whose number in the plan tells which one it was.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn

from sparsehist.errors import GuaranteeError, raise_alone
from sparsehist.guarantee.files import guessed_by_name, guessed_by_reader, paths_of
from sparsehist.guarantee.trees import Node, entries, nodes
from sparsehist.store.statements import statement

if TYPE_CHECKING:
    import duckdb


@dataclass(frozen=True)
class Place:
    """Where something stands in a text: characters from `start`, up to but not including `end`."""

    start: int
    end: int


def line_and_column(text: str, at: int) -> tuple[int, int]:
    """Line and column of a character, both from 1."""
    return text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)


Splices = list[tuple[int, int, str]]

NOWHERE = 2**63
DELIMITED = "__duckdb_delim_"
SAMPLED = "a sample is drawn from the rows of all units; keep rows by a condition on the row itself"
_WINDOWS = "AGGREGATE RANK RANK_DENSE PERCENT_RANK CUME_DIST ROW_NUMBER NTILE LAG LEAD FIRST_VALUE LAST_VALUE".split()
_FRAME = re.compile(r"\sAS\s+SELECT\s+\*\s+FROM\s+python_\w+\(\)\s+AS\s", re.IGNORECASE)
_BODY = re.compile(r"\sAS\s+(?=\(?\s*(?:SELECT|WITH|FROM|VALUES|TABLE)\b)", re.IGNORECASE)
# What an operator of a plan is called in the tree of the query, where it has a place.
_WRITTEN_AS = {f"WINDOW_{name}": "WINDOW" for name in _WINDOWS} | {"BOUND_WINDOW": "WINDOW"}
_TELL_A_TYPE = set(
    "typeof pg_typeof get_type make_type replace_type can_cast_implicitly enum_code enum_first enum_last enum_range "
    "enum_range_boundary".split()
)
_MADE_UP = {"query", "query_table"}  # what they run is a text that may be put together
OF_ARGUMENTS = frozenset(("unnest", "range", "generate_series", "repeat", "json_each", "json_tree"))
"""Table functions whose rows are made of their arguments alone."""


@dataclass(frozen=True)
class Source:
    """A table, a frame or files that a query reads.

    Attributes:
        name: What errors call it.
        path: Database, schema and name of a table; or the paths of files as the query writes them.
        columns: Names of its columns.
        kind: "table", "files" or "frame".
        behind: The queries it was made from in this session; None for what was there before: rows as they were given.
        unclear: Why it cannot be followed; empty if it can.
        guessed: Why how one row is read may depend on others; empty if it does not.
        public: Whether it was released.
    """

    name: str
    path: tuple[str, ...]
    columns: tuple[str, ...]
    kind: str
    behind: tuple[Planned, ...] | None = None
    unclear: str = ""
    guessed: str = ""
    public: bool = False


@dataclass(frozen=True)
class Made:
    """What is known of what a session made: queries, why they cannot be followed, or that it is public."""

    behind: tuple[Planned, ...] | None = None
    unclear: str = ""
    public: bool = False


@dataclass(frozen=True)
class Origins:
    """What a session knows beyond its catalogue: what its tables and files were made from."""

    of_table: Callable[[tuple[str, str, str]], Made] = lambda _path: Made()
    of_files: Callable[[tuple[str, ...]], Made] = lambda _paths: Made()


@dataclass(frozen=True)
class Planned:
    """A query with its plan and all it reads; what its tables were made from is fixed with it.

    Attributes:
        tree: How DuckDB reads it.
        root: The plan.
        one_row: Whether it is an error that a query in parentheses has several rows.
        standing: What each number that stands for files or a frame means.
        offsets: Where parts of the plan stand in the text.
    """

    text: str
    tree: Node = field(repr=False)
    root: Node = field(repr=False)
    columns: tuple[str, ...]
    one_row: bool
    tables: Mapping[tuple[str, ...], Source] = field(repr=False)
    standing: Mapping[int, Source] = field(repr=False)
    offsets: Offsets = field(repr=False)

    def refuse(self, part: object, reason: str) -> NoReturn:
        """Refuse the query because of a part of its plan."""
        raise refusal(self.text, reason, part if isinstance(part, Place) else self.place(part))

    def place(self, part: object) -> Place:
        """Where a part of the plan stands in the text: all of it where that is not known, as inside a view."""
        written = {_span(self.text, node): node for node in nodes(self.tree) if _located(node)}
        known = {_characters(self.text, *span) for span in written}
        own = [{key: value for key, value in node.items() if key != "children"} if "table_index" in node else node
               for node in (part if isinstance(part, list) else [part]) if isinstance(node, dict)]  # fmt: skip
        found = [place for node in nodes(own) if (place := self._located(node)) and (place.start, place.end) in known]
        words = {str(path[-1]).lower() for node in nodes(own) if (path := (node.get("qname") or {}).get("path"))}
        kinds = {_WRITTEN_AS.get(str(node.get("type", "")), "") for node in nodes(own)} - {""}
        for span, node in written.items():
            named = str(node.get("function_name", "")).lower() in words
            if named or {str(node.get("class", "")), str(node.get("type", ""))} & kinds:
                found.append(Place(*_characters(self.text, *span)))
        return min(found, key=lambda place: (place.start, -place.end), default=Place(0, len(self.text)))

    @property
    def asks_whether_there_are(self) -> bool:
        """Whether it has no LIMIT of its own, but asks with EXISTS, which DuckDB plans as LIMIT 1."""
        asked = any(node.get("subquery_type") in ("EXISTS", "NOT_EXISTS") for node in nodes(self.tree))
        return asked and not self._limits()

    def limit(self) -> Place:
        """Where the number in LIMIT or OFFSET stands."""
        spans = [_span(self.text, node) for node in self._limits() if _located(node)]
        return Place(*_characters(self.text, *min(spans))) if spans else Place(0, len(self.text))

    def _limits(self) -> list[Node]:
        modifiers = [node for node in nodes(self.tree) if node.get("type") == "LIMIT_MODIFIER"]
        return [node[name] for node in modifiers for name in ("limit", "offset") if node.get(name)]

    def _located(self, node: Node) -> Place | None:
        at, size = int(node.get("query_location", NOWHERE)), int(node.get("query_location_length", 0))
        return self.offsets.original(at, at + max(size, 1)) if at < NOWHERE else None


class Offsets:
    """Where the bytes of a planned text stand in the text as it was written; `rounds` are what was replaced."""

    def __init__(self, text: str, rounds: list[Splices]) -> None:
        self._bytes = text.encode()
        self._rounds = rounds

    def original(self, start: int, end: int) -> Place | None:
        """The characters that stand for these bytes of the planned text."""
        for splices in reversed(self._rounds):
            start, end = _before(start, splices)[0], _before(end - 1, splices)[1]
        if not 0 <= start < end <= len(self._bytes):
            return None
        return Place(*(len(self._bytes[:at].decode(errors="ignore")) for at in (start, end)))


def _before(at: int, splices: Splices) -> tuple[int, int]:
    """First and one past the last byte that stood for a byte before a round of replacements."""
    shift = 0
    for start, end, new in splices:
        size = len(new.encode())
        if at < start + shift:
            break
        if at < start + shift + size:
            return start, end
        shift += size - (end - start)
    return at - shift, at - shift + 1


def refusal(text: str, reason: str, where: Place | None = None) -> GuaranteeError:
    """The error that says why a query may break the guarantee, and where: in all of it unless a place is given."""
    where = where or Place(0, len(text))
    line, column = line_and_column(text, where.start)
    return GuaranteeError(f"line {line}, column {column}: {reason}", reason=reason, start=where.start, end=where.end)


def plan(
    text: str,
    connection: duckdb.DuckDBPyConnection,
    *,
    parameters: Mapping[str, Any] | None = None,
    origins: Origins | None = None,
) -> Planned:
    """Plan one SELECT, running nothing of it; parameters are put into the text that is planned, with their types.

    Raises:
        GuaranteeError: If it is not a single SELECT, or reads what cannot be planned.
        duckdb.Error: If DuckDB does not know a name in it.
    """
    return _Planner(connection, parameters or {}, origins or Origins()).plan(text)


class _Planner:
    """Puts stand-ins into a text, and asks DuckDB for the plan."""

    def __init__(
        self, connection: duckdb.DuckDBPyConnection, parameters: Mapping[str, Any], origins: Origins
    ) -> None:
        self._connection = connection
        self._parameters = parameters
        self._origins = origins
        self._number = 2**40 + secrets.randbits(40)
        self.standing: dict[int, Source] = {}

    def _rows(self, name: str) -> list[tuple[Any, ...]]:
        return self._connection.execute(statement(name)).fetchall()

    @cached_property
    def _macros(self) -> list[tuple[Any, ...]]:
        return self._rows("guarantee_macros")  # DuckDB lists all its functions for it: 10 ms

    @cached_property
    def _views(self) -> list[tuple[Any, ...]]:
        return self._rows("guarantee_views")

    @property
    def _defined(self) -> list[str]:
        """Views and macros as they are written."""
        return [str(one) for row in (*self._views, *self._macros) for one in row]

    def plan(self, text: str) -> Planned:
        parsed = self._parsed(text)
        self._check_hidden(text, parsed)
        values = self._values(text, parsed)
        bound = spliced(text, values)
        result = self._connection.sql(text, params=dict(self._parameters) or None)
        tree = self._asked("guarantee_plan", bound)
        splices: Splices = []
        if tree.get("error"):  # it may read files or frames
            splices = self._splices(bound, frozenset())
            tree = self._asked("guarantee_plan", spliced(bound, splices))
        if tree.get("error"):
            raise refusal(text, self._why(str(tree.get("error_message", "it holds a value that cannot be written"))))
        if result is None or len(tree["plans"]) != 1:
            raise refusal(text, "a series is made from one SELECT")
        root: Node = tree["plans"][0]
        self._check_names(text, parsed, root)
        ((one_row, collation),) = self._rows("guarantee_settings")
        if collation:
            raise refusal(text, "default_collation takes different texts, and so different units, for one; reset it")
        return Planned(
            text=text,
            tree=parsed,
            root=root,
            columns=tuple(result.columns),
            one_row=str(one_row).lower() == "true",
            tables=self._tables(root),
            standing=self.standing,
            offsets=Offsets(text, [values, splices]),
        )

    @staticmethod
    def _why(message: str) -> str:
        if "serializ" in message or "not implemented" in message.lower():
            return (
                "it reads files or a frame where that cannot be followed (in a macro, or in a view of another "
                "schema), or is a construct of which DuckDB writes no plan; write it out in the query"
            )
        return f"a series is made from one SELECT that DuckDB can plan: {message.splitlines()[0].rstrip('.!')}"

    def _asked(self, name: str, query: str) -> Node:
        ((found,),) = self._connection.execute(statement(name), {"query": query}).fetchall()
        try:
            return dict(json.loads(found))
        except (TypeError, ValueError):  # nothing, or nan, which JSON cannot hold
            return {"error": True}

    def _parsed(self, text: str) -> Node:
        tree = self._asked("guarantee_tree", text)
        if tree["error"]:
            at = int(tree.get("position", 0))
            why = str(tree.get("error_message", "it cannot be read")).rstrip(".!")
            raise refusal(text, f"a series is made from one SELECT that DuckDB can read: {why}", Place(at, at + 1))
        if len(tree["statements"]) != 1:
            raise refusal(text, "a series is made from one SELECT, this is more than one statement", Place(0, 1))
        return dict(tree["statements"][0]["node"])

    def _check_hidden(self, text: str, parsed: Node) -> None:
        """Refuse what a plan does not show, because DuckDB puts a value in its place that may come from the log.

        It does so with variables, and with functions that tell a type, which may be an ENUM of the log's values.
        """
        ((variables, enums),) = self._rows("guarantee_hidden")
        hidden = ({"getvariable"} if variables else set()) | (_TELL_A_TYPE if enums else set())
        if not hidden:
            return
        pattern = re.compile(rf"\b({'|'.join(hidden | _MADE_UP)})\"?\s*\(", re.IGNORECASE)
        hit = _called(parsed) & (hidden | _MADE_UP)
        hit |= {found[1].lower() for one in self._defined if (found := pattern.search(one))}
        if hit:
            reason = (
                "what a variable was computed from is not known; give its value as a parameter, $name"
                if variables and not hit & _TELL_A_TYPE
                else "which values an ENUM has may come from the rows of all units, and a function that tells a type "
                "tells them; leave it out"
            )
            raise refusal(text, reason)

    def _check_names(self, text: str, parsed: Node, root: Node) -> None:
        """Refuse a query that takes DuckDB's own names for what is computed once and read twice."""
        used = any(str(node.get("ctename", "")).lower().startswith(DELIMITED) for node in nodes(root))
        if used and (_called(parsed) & _MADE_UP or any(DELIMITED in one.lower() for one in (text, *self._defined))):
            raise refusal(text, f"names that begin with {DELIMITED} are DuckDB's own")

    def _values(self, text: str, parsed: Node) -> Splices:
        """The value of each parameter, of the type DuckDB binds, by the bytes it stands for."""
        given = {key.lower(): value for key, value in self._parameters.items()}
        found = set()
        for node in nodes(parsed):
            if node.get("class") == "PARAMETER":
                name = str(node["identifier"])
                if name.lower() not in given:
                    raise refusal(text, f"the parameter ${name} has no value")
                found.add((*_span(text, node), self._literal(given[name.lower()])))
        return sorted(found)

    def _literal(self, value: object) -> str:
        ((text, kind),) = self._connection.execute(statement("guarantee_value"), {"value": value}).fetchall()
        if text is None:
            return "null"
        written = "'" + str(text).replace("'", "''") + "'"
        return f"({written}::{kind})"

    def _splices(self, text: str, inside: frozenset[str]) -> Splices:
        """What stands in for files, frames and views of files, by the bytes it replaces."""
        tree = self._parsed(text)
        named = {str(entry["key"]).lower() for node in nodes(tree) for entry in entries(node)}
        found = set()
        for node in nodes(tree):
            kind = node.get("type")
            if kind in ("BASE_TABLE", "TABLE_FUNCTION") and _located(node):
                new = (
                    self._of_call(text, node)
                    if kind == "TABLE_FUNCTION"
                    else self._of_name(text, node, named, inside)
                )
                if new is not None:
                    found.add((*_span(text, node), new))
        return sorted(found)

    def _of_call(self, text: str, node: Node) -> str | None:
        """What stands in for a call that reads; None for what DuckDB can plan, macros among it."""
        call = node["function"]
        name = str(call["function_name"]).lower()
        if name in OF_ARGUMENTS | _MADE_UP or self._is_macro(call, name):
            return None
        paths = tuple(paths_of(call))
        source = Source(name, paths, (), "files", *self._behind(paths), guessed=guessed_by_reader(call))
        return self._stand_in(text, node, source)

    def _is_macro(self, call: Node, name: str) -> bool:
        # Asked with an argument that nothing has, DuckDB says of a function of its own that it is one.
        quoted = name.replace('"', '""')
        said = self._asked("guarantee_plan", f'from "{quoted}"(none_{secrets.token_hex(8)} := 1)')
        builtin = said.get("error_subtype") == "NO_MATCHING_FUNCTION" and said.get("catalog") == "system"
        if builtin and not (call.get("schema") or call.get("catalog")):
            return False
        return any(name == str(row[0]).lower() for row in self._macros)

    def _behind(self, paths: tuple[str, ...]) -> tuple[tuple[Planned, ...] | None, str]:
        held = self._origins.of_files(paths)
        return held.behind, held.unclear

    def _of_name(self, text: str, node: Node, named: set[str], inside: frozenset[str]) -> str | None:
        """What stands in for a name in FROM; None for what DuckDB can plan."""
        path = node.get("qualified_name", {}).get("path") or [node["table_name"]]
        name = str(path[-1])
        if (len(path) == 1 and name.lower() in named) or not self._fails(node):
            return None
        views = [row for row in self._views if str(row[2]).lower() == name.lower()]
        if views:
            return self._of_view(text, node, views, inside)
        if len(path) == 1 and re.search(r"[./\\:*?\[]", name):
            source = Source(name, (name,), (), "files", *self._behind((name,)), guessed=guessed_by_name(name))
            return self._stand_in(text, node, source)
        return None

    def _fails(self, node: Node) -> bool:
        """Whether DuckDB makes no plan of a table, because it is a file or a frame or reads some."""
        found = self._asked("guarantee_plan", f"from {self._written(node)}")
        return bool(found.get("error")) and found.get("error_type") not in ("catalog", "binder", "parser")

    def _written(self, node: Node) -> str:
        """A table reference as SQL, without the names it is given."""
        bare = {**node, "sample": None, "alias": "", "column_name_alias": []}
        select = {**self._parsed("from x"), "from_table": bare}
        tree = json.dumps({"error": False, "statements": [{"node": select, "named_param_map": []}]})
        ((text,),) = self._connection.execute(statement("guarantee_text"), {"tree": tree}).fetchall()
        return f"({str(text).rstrip(';')})"

    def _of_view(self, text: str, node: Node, views: list[tuple[Any, ...]], inside: frozenset[str]) -> str:
        """A frame, or a view that reads files or frames."""
        name, place = str(node["table_name"]).lower(), Place(*_characters(text, *_span(text, node)))
        if len(self._connection.execute(statement("guarantee_named"), {"name": name}).fetchall()) > 1:
            raise refusal(text, f"{name} may be the name of two tables or views; give one another name", place)
        database, schema, _, body, usual = views[0]
        if _FRAME.search(body):
            return self._stand_in(text, node, Source(name, (name,), (), "frame"))
        start = _BODY.search(body)
        if name in inside or not usual or start is None or node.get("sample"):
            raise refusal(text, f"{database}.{schema}.{name} is a view of files; write its query out here", place)
        inner = body[start.end() :].rstrip().removesuffix(";")
        try:
            planned = spliced(inner, self._splices(inner, inside | {name}))
        except GuaranteeError as problem:
            raise_alone(refusal(text, f"in the view {name}: {problem.reason}", place))
        columns = self._connection.sql(f"from {self._written(node)}").columns
        kept = f"select * from ({planned}) as made({', '.join(map(_quoted, columns))})"  # noqa: S608  a view's query
        return f"({kept}) as {_alias(node, name)}{_renamed(node)}"

    def _stand_in(self, text: str, node: Node, source: Source) -> str:
        """An empty relation of the same columns."""
        place = Place(*_characters(text, *_span(text, node)))
        if node.get("sample"):
            raise refusal(text, SAMPLED, place)
        if node.get("with_ordinality", "WITHOUT_ORDINALITY") != "WITHOUT_ORDINALITY":
            raise refusal(text, f"{source.name} WITH ORDINALITY counts the rows of all units", place)
        relation = self._connection.sql(f"from {self._written(node)}")
        self._number += 1
        self.standing[self._number] = replace(source, columns=tuple(relation.columns))
        kinds = zip(relation.columns, relation.types, strict=True)
        listed = ", ".join(f"null::{kind} as {_quoted(name)}" for name, kind in kinds)
        name = _alias(node, source.name) + _renamed(node)
        return f"(select {listed} from range({self._number})) as {name}"  # noqa: S608  never run, names are quoted

    def _tables(self, root: Node) -> dict[tuple[str, ...], Source]:
        """What the tables of a plan are."""
        found: dict[tuple[str, ...], Source] = {}
        for node in nodes(root):
            path = (node.get("function_data") or {}).get("qualified_name", {}).get("path", ())
            if node.get("type") == "LOGICAL_GET" and len(path) == 3:
                database, schema, name = map(str, path)
                held = self._origins.of_table((database, schema, name))
                columns = tuple(map(str, node.get("names", ())))
                found[database, schema, name] = Source(
                    name, (database, schema, name), columns, "table", held.behind, held.unclear, public=held.public
                )
        return found


def _called(tree: Node) -> set[str]:
    """Names of the functions in a tree."""
    return {str(node["function_name"]).lower() for node in nodes(tree) if "function_name" in node}


def spliced(text: str, splices: Splices) -> str:
    """A text with some of its bytes replaced."""
    written, parts, at = text.encode(), [], 0
    for start, end, new in splices:
        parts += [written[at:start], new.encode()]
        at = end
    return b"".join([*parts, written[at:]]).decode()


def _located(node: Node) -> bool:
    return int(node.get("query_location", NOWHERE)) < NOWHERE


def _span(text: str, node: Node) -> tuple[int, int]:
    """The bytes of a node."""
    if not _located(node):
        return 0, len(text.encode())
    return int(node["query_location"]), int(node["query_location"]) + int(node["query_location_length"])


def _characters(text: str, start: int, end: int) -> tuple[int, int]:
    written = text.encode()
    return len(written[:start].decode(errors="ignore")), len(written[:end].decode(errors="ignore"))


def _alias(node: Node, name: str) -> str:
    return _quoted(str(node.get("alias") or re.sub(r"\.\w+$", "", name.replace("\\", "/").rsplit("/", 1)[-1])))


def _renamed(node: Node) -> str:
    names = node.get("column_name_alias", ())
    return f"({', '.join(map(_quoted, names))})" if names else ""


def _quoted(name: object) -> str:
    return '"' + str(name).replace('"', '""') + '"'
