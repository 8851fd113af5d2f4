"""Count a log inside its warehouse, with one SELECT that returns only counts.

The query is made from a template and from `DIALECTS`, the SQL that differs between dialects. sqlglot quotes names and
string literals. The salt is a parameter of the query.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl
from jinja2 import Environment, PackageLoader, StrictUndefined
from sqlglot import exp

from sparsehist.counting.contract import SALT_BYTES, Counts, names_of
from sparsehist.counting.measured import steps_sql, sum_names
from sparsehist.counting.sources import open_log
from sparsehist.counting.tuples import part_of_tuple
from sparsehist.counting.words import key_range
from sparsehist.declaration.declaration import Declaration, domain_of
from sparsehist.declaration.measures import Measure, measures_of
from sparsehist.domain.base import Domain, key_names
from sparsehist.domain.catalogue import Catalogue
from sparsehist.domain.hash64 import Hash64
from sparsehist.domain.open import Open
from sparsehist.domain.ranges import Dates, Integers
from sparsehist.domain.strings import Strings
from sparsehist.errors import DeclarationError, as_mapping, present, shown

MOST_VALUES = 10_000
"""Largest number of values of a catalogue in a query."""
UNIT_TYPES: dict[str, pl.DataType] = {
    "text": pl.String(), "integer": pl.Int64(), "date": pl.Date(), "timestamp": pl.Datetime("us"),
}  # fmt: skip
_INT64 = (-(2**63), 2**63 - 1)
# SQL for the hexadecimal digits of the last 8 bytes of an MD5 digest, with the bytes in reverse order.
_MD5_HEX = " || ".join(f"substring(md5({{x}}), {31 - 2 * i}, 2)" for i in range(8))
_MD5_BIGINT = f"cast(cast(('x' || {_MD5_HEX}) as bit(64)) as bigint)"
_ANY = {
    "date": "cast({x} as date)",
    "written": "cast({x} as text)",
    "days": "({x} - cast('1970-01-01' as date))",
    "whole": "({x} & {x})",
    "double": "cast({x} as double precision)",
    "bigint": "cast({x} as bigint)",
    "translate": "translate",
    "nul": "chr(0)",
}
DIALECTS: dict[str, dict[str, str]] = {
    "duckdb": _ANY | {
        "salt": "$salt",
        "size": "strlen({x})",
        "length": "length({x})",
        "sha256": "sha256({x})",
        "text": "(cast({x} as text)) collate c",
        "micros": "epoch_us({x})",
        "hash64": "md5_number_lower({x})",
    },
    "postgres": _ANY | {
        "salt": "$1",
        "size": "octet_length({x})",
        "length": "char_length({x})",
        "sha256": "encode(sha256(convert_to({x}, 'UTF8')), 'hex')",
        "text": '(cast({x} as text)) collate "C"',
        "micros": "cast((extract(epoch from {x}) * 1000000) as bigint)",  # EXTRACT is exact since PostgreSQL 14
        "hash64": f"mod(cast({_MD5_BIGINT} as numeric(20, 0)) + {2**64}, {2**64})",
        "nul": "",
    },
    "clickhouse": _ANY | {
        "salt": "{salt:String}",
        "size": "length({x})",
        "length": "lengthUTF8({x})",
        "sha256": "hex(SHA256({x}))",
        "days": "toInt64(toDate32({x}))",
        "written": "toString({x})",
        "text": "toString({x})",
        "date": "toDate32({x})",
        "whole": "bitAnd({x}, {x})",
        "double": "toFloat64({x})",
        "bigint": "toInt64({x})",
        "micros": "toUnixTimestamp64Micro(toDateTime64({x}, 6))",
        "hash64": "reinterpretAsUInt64(substring(MD5({x}), 9, 8))",
        "translate": "translateUTF8",
        "nul": "char(0)",
    },
    "spark": _ANY | {
        "salt": ":salt",
        "size": "octet_length({x})",
        "length": "char_length({x})",
        "sha256": "sha2({x}, 256)",
        "days": "unix_date({x})",
        "written": "cast({x} as string)",
        "double": "cast({x} as double)",
        "real": "cast({x} as float)",
        "text": "cast(cast(cast({x} as string) as binary) as string)",  # the cast to binary drops the collation
        "micros": "unix_micros({x})",
        "hash64": f"cast(conv({_MD5_HEX}, 16, 10) as decimal(20, 0))",
        "nul": "char(0)",
    },
}  # fmt: skip
"""Dict from dialect to the SQL of each operation on an expression {x}. The tests run all dialects.

"text" is a string that is compared byte by byte, whatever its collation. "written" is a number as a string. "whole"
is a whole number; other values fail. "nul" is the NUL character, or empty if strings cannot contain it.
"""


@dataclass(frozen=True)
class CountingSql:
    """A query that counts a log in its warehouse.

    Attributes:
        sql: One SELECT with the salt as a parameter. It returns the key columns, the count, and sums in steps, in
            columns such as price_steps.
        salt: 16 secret bytes that determine which keys a unit with too many keys keeps.
        dialect, key, max_keys, domain, count, measures: As for `counting_sql`.
    """

    sql: str
    dialect: str
    key: tuple[str, ...]
    max_keys: int
    domain: Domain
    count: str
    salt: bytes = field(repr=False)
    measures: tuple[Measure, ...] = ()

    @property
    def parameters(self) -> dict[str, str]:
        """Dict with the salt, the only parameter of the query. In PostgreSQL, the query refers to the salt as $1."""
        return {"salt": self.salt.hex()}

    def check(self, declared: Declaration) -> None:
        """Refuse a series whose key, `max_keys` or measures are not those of this query. The domain may differ."""
        of_query = f"key={list(self.key)}, max_keys={self.max_keys} and measures={list(map(str, self.measures))}"
        same = declared.key == self.key and declared.max_keys == self.max_keys
        if not same or not set(declared.measures) <= set(self.measures):
            raise DeclarationError(f"declare the series with the same parameters as the counting query: {of_query}")

    def counts(self, result: object) -> Counts:
        """Return the result of the query as `Counts`, which `create` accepts as a log.

        Args:
            result: Rows of the query: a frame, an Arrow table, or the path, pattern or URL of Parquet files.

        Raises:
            DeclarationError: If a column is missing.
        """
        columns = [*self.key, self.count, *(each.steps_column for each in self.measures)]
        log = open_log(result, columns)
        # Warehouses return whole numbers of more than 63 bits as decimals.
        decimals = {name for name in self.key if getattr(log.dtypes[name], "scale", None) == 0}
        exact = {name: to for name, to in zip(self.key, self.domain.dtypes, strict=True) if name in decimals}
        return Counts(log.rows.select(columns).cast(exact), self.count, counted_by=self, largest=1)


def counting_sql(
    dialect: str,
    table: str | Sequence[str],
    *,
    unit: str | Sequence[str],
    key: str | Sequence[str],
    max_keys: int,
    domain: Domain | str,
    unit_types: Mapping[str, str] | None = None,
    count: str = "count",
    salt: bytes | None = None,
    measures: Measure | str | Sequence[Measure | str] = (),
) -> CountingSql:
    """Return a query that counts a log in its warehouse, for example in PostgreSQL.

    The query drops rows whose unit or key is null or empty, rows whose key is outside the domain, and rows in which
    the value of a measure is missing or invalid. For other rows, it counts as `sparsehist.create` does with
    `sh.Keep(portable=True)`: a unit with too many keys keeps those whose salted SHA-256 digests are smallest. Names
    of columns are case-sensitive.

    Args:
        dialect: "duckdb", "postgres", "clickhouse" or "spark".
        table: Name of the log's table, with dots between its parts, or a list of the parts.
        unit: Column of the unit, or a list of columns.
        key: Column of the key, or a list with one column for each part of the domain.
        max_keys: Largest number of distinct keys that a unit counts towards.
        domain: Domain of the keys, or its text form. In a query, a catalogue may have up to 10,000 values.
        unit_types: Dict from column to "integer", "date" (without time of day) or "timestamp"; others have strings.
        count: Name of the column of counts.
        salt: 16 secret bytes; by default random. The same salt repeats the same counts.
        measures: Measures to sum for each key, as for `create`. Numbers are read as doubles: cast a column of 32-bit
            floats to decimals in a view, or 0.29 may become 28 steps of 0.01.

    Returns:
        The query with its parameter; its method `counts` turns the result into a log.

    Raises:
        DeclarationError: If a parameter is wrong, or not supported in the dialect.

    Example:
        >>> query = counting_sql("duckdb", "log", unit="user_id", key="query", max_keys=20,
        ...                      domain="strings(max_bytes=32)")
        >>> import duckdb
        >>> with duckdb.connect() as warehouse:
        ...     _ = warehouse.sql("create table log as select '1' as user_id, 'weather' as query")
        ...     warehouse.sql(query.sql, params=query.parameters).fetchall()
        [('weather', 1)]
    """
    if dialect not in DIALECTS:
        raise DeclarationError(f"dialect must be one of {', '.join(map(repr, DIALECTS))}, not {shown(dialect)}")
    domain = domain_of(domain)
    parts, keys = names_of(unit), names_of(key)
    salt = secrets.token_bytes(SALT_BYTES) if salt is None else salt
    declared = Declaration(name="log", unit=parts, key=keys, max_keys=max_keys, domain=domain)
    if len(salt) != SALT_BYTES:
        raise DeclarationError(f"the salt must have {SALT_BYTES} bytes")
    types = as_mapping("unit_types", unit_types or {})
    if not set(types) <= set(parts) or not set(types.values()) <= set(UNIT_TYPES):
        raise DeclarationError(f"unit_types must map unit columns to one of {', '.join(map(repr, UNIT_TYPES))}")
    names = tuple(table.split(".")) if isinstance(table, str) else tuple(table)
    for name in (*names, *parts, *keys, count):
        check_name(name)
    added = measures_of(measures)
    results = [*keys, count, *(each.steps_column for each in added)]
    if len(set(results)) < len(results):
        raise DeclarationError(
            "columns of keys, counts and sums (such as price_steps) must have different names: rename one of them"
        )
    writer = Dialect(dialect)
    sql = writer.select(
        table=".".join(map(writer.name, names)),
        columns=(parts, keys, [each.column for each in added]),
        units=[writer.unit(name, f"source.u_{i}", types.get(name, "text")) for i, name in enumerate(parts)],
        cells=[writer.cell(f"source.k_{i}", part) for i, part in enumerate(domain.parts)],
        steps=[steps_sql(each, f"source.m_{i}", writer.write) for i, each in enumerate(added)],
        domain=domain,
        measures=added,
        salt=writer.words["salt"],
        most_keys=max_keys,
        key_names=list(map(writer.name, keys)),
        count=writer.name(count),
        totals=[
            (writer.name(each.steps_column), writer.write("bigint", f"sum(kept.{name})"))
            for each, name in zip(added, sum_names(added), strict=True)
        ],
    )
    return CountingSql(sql, dialect, declared.key, max_keys, domain, count, salt, added)


def check_name(name: object) -> None:
    """Refuse a name that some warehouse would not take literally. For example, Spark replaces ${…} with a value."""
    if not isinstance(name, str) or not name or not name.isprintable() or re.search(r"[\\`]|\$\{", name):
        raise DeclarationError(
            "names must be strings without control characters, backslashes, backticks or ${; rename them in a view: "
            f"{shown(name) if isinstance(name, str) else type(name).__name__}"
        )


class Dialect:
    """Writes counting queries in one SQL dialect. Its methods return pieces of SQL as strings."""

    def __init__(self, dialect: str) -> None:
        self._dialect, self.words = dialect, DIALECTS[dialect]

    def write(self, what: str, x: str) -> str:
        """Return SQL that applies the operation `what` of `DIALECTS` to the expression `x`."""
        return self.words[what].replace("{x}", x)

    def name(self, name: str) -> str:
        """Return a name in quotes."""
        return exp.to_identifier(name, quoted=True).sql(self._dialect)

    def select(
        self,
        *,
        columns: Sequence[Sequence[str | None]],
        units: Sequence[tuple[str, str]],
        cells: Sequence[tuple[str, str]],
        steps: Sequence[tuple[str, str]],
        domain: Domain,
        measures: Sequence[Measure],
        salt: str,
        **parts: Any,
    ) -> str:
        """Return the counting query, rendered from its template.

        `columns` are three lists of columns of the log: the unit, key and measure columns. `units`, `cells` and
        `steps` are lists of pairs of SQL strings: a value, and the condition that this value is valid. `parts` has
        the values of all other placeholders in the template.
        """
        keys = key_names(domain.columns)
        texts = [self.part("key", dtype, f"sized.{key}") for key, dtype in zip(keys, domain.dtypes, strict=True)]
        templates = Environment(  # noqa: S701  SQL needs no HTML escapes
            loader=PackageLoader("sparsehist", "templates"), undefined=StrictUndefined
        )
        return templates.get_template("counting.sql.jinja").render(
            columns=[
                (self.name(name), f"{letter}_{i}")
                for letter, names in zip("ukm", columns, strict=True)
                for i, name in enumerate(names)
                if name is not None
            ],
            unit=" || ".join(text for text, _ in units),
            cells=[cell for cell, _ in cells],
            steps=[step for step, _ in steps],
            conditions=[condition for _, condition in (*units, *cells, *steps) if condition],
            keys=keys,
            sums=sum_names(measures),
            bounds=[(each.least_steps, each.most_steps) for each in measures],
            digest=self.write("sha256", " || ".join([salt, "sized.unit", *texts])),
            **{"hint": "", "total": "count(*)"} | parts,
        )

    def unit(self, name: str, column: str, kind: str) -> tuple[str, str]:
        """Return SQL for the string form of a unit, which is hashed, and SQL that is true if the unit is not missing.

        In dialects with strict types, the query fails if a column that was declared as strings contains numbers, or
        if a column that was declared as whole numbers contains fractions. Otherwise, a unit could have two string
        forms and be counted as two units.
        """
        dtype = UNIT_TYPES[kind]
        if kind == "text":
            return self.part(name, dtype, self.write("text", column)), f"{self.write('size', column)} > 0"
        column = self.write("whole", column) if kind == "integer" else column
        return self.part(name, dtype, column), f"{column} is not null"

    def part(self, name: str, dtype: pl.DataType, value: str) -> str:
        """Return SQL that encodes a value as in `tuples.py`. A string must have a binary collation."""
        letter = part_of_tuple(name, dtype)
        if letter == "d":
            value = self.write("days", self.write("date", value))
        elif letter == "u":
            value = self.write("micros", value)
        elif letter == "x":
            value = f"hex({value})"
        text = value if letter == "s" else self.write("written", value)
        text = f"lower({text})" if letter in "bx" else text
        return f"'{letter}' || {self.write('written', self.write('size', text))} || ':' || {text}"

    def cell(self, column: str, part: Domain) -> tuple[str, str]:
        """Return SQL for the cell of a key, and for the condition that the key is in the domain."""
        text, day = self.write("text", column), self.write("date", column)
        match part:
            case Strings():
                size = self.write("size" if part.max_bytes is not None else "length", text)
                inside = f"{size} between 1 and {part.max_bytes or part.max_chars or 1}"
                if part.alphabet is None:
                    return text, inside
                return text, f"{inside} and {self.words['translate']}({text}, {self._text(part.alphabet)}, '') = ''"
            case Open() if part.dtypes[0] == pl.String:
                return text, f"{text} <> ''"
            case Hash64():
                return self.write("hash64", text), f"{text} <> ''"
            case Catalogue():
                return self._listed(column, part)
            case Dates():
                low, high = present(key_range(part))
                return day, f"{self.write('days', day)} between {low} and {high}"
            case Open() if part.dtypes[0] == pl.Date:
                return day, f"{column} is not null"
            case Integers() | Open():
                low, high = key_range(part) or _INT64
                return column, f"{column} between {low} and {high}"
        raise DeclarationError(f"this domain cannot be written in SQL: {part.describe()}")

    def _listed(self, column: str, part: Catalogue) -> tuple[str, str]:
        if part.size > MOST_VALUES:
            raise DeclarationError(
                "this catalogue is too large for SQL: put its values in a table, and make a view that joins the log "
                "with this table. Count the view with a larger domain, such as all strings, and then create the "
                f"series with the catalogue as its domain. Largest number of values in SQL: {MOST_VALUES}"
            )
        values, cell = part.values, column
        if values.dtype == pl.String:
            cell = column = self.write("text", column)
            written = [self._text(value) for value in values if self.words["nul"] or "\0" not in value]
        elif values.dtype == pl.Date:
            cell = self.write("date", column)
            column, written = self.write("days", cell), values.to_physical().cast(pl.String).to_list()
        else:
            written = [exp.convert(value).sql(self._dialect) for value in values]
        return cell, f"{column} in ({', '.join(written or ['null'])})"

    def _text(self, text: str) -> str:
        """Return SQL for a string, split so that no literal contains NUL or ${…}, which Spark would replace."""
        nul = self.words["nul"]
        pieces = [piece for piece in re.split(r"(\0)|(?<=\$)(?=\{)", text) if piece and (nul or piece != "\0")]
        written = [nul if piece == "\0" else exp.Literal.string(piece).sql(self._dialect) for piece in pieces]
        return f"({' || '.join(written)})" if written else "''"
