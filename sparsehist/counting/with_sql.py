"""Counting where the log lies: one SELECT that a warehouse runs, and only counts leave it.

It does what the other engines do: rows without a unit or a key and keys outside the domain go, pairs are made
distinct, a unit with too many keys keeps the first ones in the portable order (`counting/tuples.py`), and units are
counted by key. What dialects say differently stands in one table, `DIALECTS`; names and values are written by sqlglot
alone, and the salt is a parameter.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import reduce
from pathlib import Path

import polars as pl
from sqlglot import exp

from sparsehist.counting.contract import SALT_BYTES, Counts, request
from sparsehist.counting.log import engine_errors
from sparsehist.counting.sources import open_log
from sparsehist.counting.tuples import part_of_tuple
from sparsehist.domain.base import Domain, key_names
from sparsehist.domain.catalogue import Catalogue
from sparsehist.domain.hash64 import Hash64
from sparsehist.domain.open import Open
from sparsehist.domain.ranges import Dates, Integers
from sparsehist.domain.strings import Strings
from sparsehist.errors import DeclarationError, shown

Made = exp.Expr
MOST_VALUES = 10_000
"""Of a catalogue that is written out in a query."""
UNIT_TYPES: dict[str, pl.DataType] = {
    "text": pl.String(),
    "integer": pl.Int64(),
    "date": pl.Date(),
    "timestamp": pl.Datetime("us"),
}
_EPOCH = date(1970, 1, 1)
_INT64 = (-(2**63), 2**63 - 1)


def _call(name: str, *arguments: Made | str | int) -> Made:
    """A function by its own name in a dialect: sqlglot translates nothing."""
    return exp.Anonymous(this=name, expressions=[_value(argument) for argument in arguments])


def _value(value: Made | str | int) -> Made:
    if isinstance(value, str):
        return exp.Literal.string(value)
    return exp.Literal.number(value) if isinstance(value, int) else value.copy()


def _cast(value: Made, kind: str) -> Made:
    return exp.cast(value.copy(), kind)


def _joined(parts: Sequence[Made]) -> Made:
    return reduce(lambda one, other: exp.DPipe(this=one, expression=other), parts)


def _md5_hex(value: Made) -> Made:
    """Hexadecimal digits of the last 8 bytes of an MD5, the last byte first."""
    return _joined([_call("substring", _call("md5", value), 31 - 2 * i, 2) for i in range(8)])


def _postgres_hash(value: Made) -> Made:
    signed = exp.cast(exp.cast(exp.paren(_joined([exp.Literal.string("x"), _md5_hex(value)])), "bit(64)"), "bigint")
    number = exp.cast(signed, "numeric(20, 0)")
    positive = exp.Add(this=number, expression=exp.Literal.number(2**64))
    return exp.case().when(exp.LT(this=number.copy(), expression=exp.Literal.number(0)), positive).else_(number)


@dataclass(frozen=True)
class Dialect:
    """What a dialect of SQL says in its own way.

    Attributes:
        salt: The parameter that holds the hexadecimal digits of the salt.
        size: Bytes of a text in UTF-8.
        length: Its characters.
        sha256: The digest of a text, in hexadecimal digits of one case.
        days: Days of a date since 1970-01-01.
        text: A text that is compared byte by byte, whatever its collation.
        as_date: A value as a date.
        whole: A whole number as it is; an error for a value of any other type.
        micros: Microseconds of a time stamp since 1970-01-01 in UTC.
        hash64: The number that `Hash64` gives a text.
        translate: The function that takes characters out of a text.
        nul: The character that text cannot be written with; None where text cannot hold it.
    """

    salt: Made
    size: Callable[[Made], Made]
    length: Callable[[Made], Made]
    sha256: Callable[[Made], Made]
    days: Callable[[Made], Made]
    micros: Callable[[Made], Made]
    hash64: Callable[[Made], Made]
    text: Callable[[Made], Made] = lambda x: _cast(x, "text")
    as_date: Callable[[Made], Made] = lambda x: _cast(x, "date")
    whole: Callable[[Made], Made] = lambda x: exp.paren(exp.BitwiseAnd(this=x.copy(), expression=x.copy()))
    translate: str = "translate"
    nul: Made | None = field(default_factory=lambda: _call("chr", 0))


def _since_epoch(x: Made) -> Made:
    return exp.paren(exp.Sub(this=x.copy(), expression=_cast(exp.Literal.string("1970-01-01"), "date")))


def _of_epoch(x: Made) -> Made:
    return exp.Extract(this=exp.var("epoch"), expression=x.copy())  # of PostgreSQL 14 and later, which is exact


DIALECTS = {
    "duckdb": Dialect(
        salt=exp.Placeholder(this="salt"),
        size=lambda x: _call("strlen", x),
        length=lambda x: _call("length", x),
        sha256=lambda x: _call("sha256", x),
        days=_since_epoch,
        text=lambda x: exp.Collate(this=exp.paren(_cast(x, "text")), expression=exp.column("c")),
        micros=lambda x: _call("epoch_us", x),
        hash64=lambda x: _call("md5_number_lower", x),
    ),
    "postgres": Dialect(
        salt=exp.Parameter(this=exp.Literal.number(1)),
        size=lambda x: _call("octet_length", x),
        length=lambda x: _call("char_length", x),
        sha256=lambda x: _call("encode", _call("sha256", _call("convert_to", x, "UTF8")), "hex"),
        days=_since_epoch,
        text=lambda x: exp.Collate(this=exp.paren(_cast(x, "text")), expression=exp.column("C", quoted=True)),
        micros=lambda x: _cast(
            exp.paren(exp.Mul(this=_of_epoch(x), expression=exp.Literal.number(1_000_000))), "bigint"
        ),
        hash64=_postgres_hash,
        nul=None,
    ),
    "clickhouse": Dialect(
        salt=exp.Placeholder(this="salt", kind="String"),
        size=lambda x: _call("length", x),
        length=lambda x: _call("lengthUTF8", x),
        sha256=lambda x: _call("hex", _call("SHA256", x)),
        days=lambda x: _call("toInt64", _call("toDate32", x)),
        text=lambda x: _call("toString", x),
        as_date=lambda x: _call("toDate32", x),
        whole=lambda x: _call("bitAnd", x, x),
        micros=lambda x: _call("toUnixTimestamp64Micro", _call("toDateTime64", x, 6)),
        hash64=lambda x: _call("reinterpretAsUInt64", _call("substring", _call("MD5", x), 9, 8)),
        translate="translateUTF8",
        nul=_call("char", 0),
    ),
    "spark": Dialect(
        salt=exp.Placeholder(this="salt"),
        size=lambda x: _call("octet_length", x),
        length=lambda x: _call("char_length", x),
        sha256=lambda x: _call("sha2", x, 256),
        days=lambda x: _call("unix_date", x),
        text=lambda x: _cast(_cast(_cast(x, "text"), "binary"), "text"),  # which has no collation
        micros=lambda x: _call("unix_micros", x),
        hash64=lambda x: _cast(_call("conv", _md5_hex(x), 16, 10), "decimal(20, 0)"),
        nul=_call("char", 0),
    ),
}
"""What the dialects say differently; the tests run all of them."""


@dataclass(frozen=True)
class CountingSql:
    """A count that a warehouse makes.

    Attributes:
        sql: One SELECT: the key columns by their names, and the count; the salt is a parameter of it.
        dialect: It is written in.
        key: Key columns.
        max_keys: Distinct keys a unit may have.
        domain: Where the keys belong.
        count: Name of the count column.
        salt: What decides which keys a unit with too many keeps; 16 secret bytes.

    Example:
        >>> made = counting_sql("duckdb", "log", unit="user_id", key="query", max_keys=20,
        ...                     domain="strings(max_bytes=32)")
        >>> import duckdb
        >>> with duckdb.connect() as warehouse:
        ...     _ = warehouse.sql("create table log as select 7 as number, '1' as user_id, 'weather' as query")
        ...     found = warehouse.sql(made.sql, params=made.parameters).pl()
        >>> found.rows()
        [('weather', 1)]
    """

    sql: str
    dialect: str
    key: tuple[str, ...]
    max_keys: int
    domain: Domain
    count: str
    salt: bytes = field(repr=False)

    @property
    def parameters(self) -> dict[str, str]:
        """The salt by the name it has in the query; where parameters have no names, the one there is."""
        return {"salt": self.salt.hex()}

    def check(self, *, key: str | Sequence[str], max_keys: int) -> None:
        """Refuse a series with another key or bound than was counted with; any domain does, which places the keys.

        Raises:
            DeclarationError: If they differ.
        """
        keys = (key,) if isinstance(key, str) else tuple(key)
        if (keys, max_keys) != (self.key, self.max_keys):
            raise DeclarationError(
                f"these counts were made with key={list(self.key)} and max_keys={self.max_keys}, not with "
                f"key={list(keys)} and max_keys={max_keys}"
            )

    def counts(self, result: object) -> Counts:
        """What `create` takes as a log.

        Args:
            result: Rows of the query: a frame, an Arrow table, or Parquet files by path, pattern or URL.

        Raises:
            DeclarationError: If a column is missing.
        """
        columns = [*self.key, self.count]
        log = open_log(result, columns)
        exact = dict(zip(self.key, self.domain.dtypes, strict=True))
        with engine_errors(log.label, log):
            rows = log.rows.select(columns).with_columns(
                pl.col(name).cast(to) for name, to in exact.items() if _is_whole_decimal(log.dtypes[name])
            )
        return Counts(rows, self.count, counted_by=self, largest=1)


def _is_whole_decimal(dtype: pl.DataType) -> bool:
    """How warehouses give whole numbers beyond 63 bits."""
    return isinstance(dtype, pl.Decimal) and dtype.scale == 0


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
) -> CountingSql:
    """Write the count of a log as one SELECT for the warehouse it lies in.

    Rows without a unit or a key (null or empty) and keys outside the domain are left out; all else is as for
    `sparsehist.create`, in the portable order. Names of columns are taken as they stand, letter by letter.

    Args:
        dialect: "duckdb", "postgres", "clickhouse" or "spark".
        table: Its name, with dots between its parts, or the parts.
        unit: Column of the unit, or several.
        key: Column of the key, or several, as many as the domain has.
        max_keys: Distinct keys a unit may have.
        domain: Where the keys belong, or its text. A catalogue may have up to 10,000 values here.
        unit_types: What unit columns hold that are not text: "integer", "date" (a time of day is left out) or
            "timestamp".
        count: What the column of counts is called.
        salt: 16 secret bytes, to make the same counts again; random by default.

    Returns:
        The query, its parameter, and what makes a log of its result.

    Raises:
        DeclarationError: If a parameter is wrong, or the dialect cannot say it.

    Example:
        >>> made = counting_sql("postgres", "web.log", unit="user_id", key="day", max_keys=3,
        ...                     domain="dates('2024-01-01', '2024-01-31')", unit_types={"user_id": "integer"})
        >>> print(made.sql[:71])
        WITH source AS (SELECT log."user_id" AS u_0, log."day" AS k_0 FROM "web
    """
    if dialect not in DIALECTS:
        raise DeclarationError(f"dialect must be one of {', '.join(map(repr, DIALECTS))}, not {shown(dialect)}")
    domain = Domain.parse(domain) if isinstance(domain, str) else domain
    parts = (unit,) if isinstance(unit, str) else tuple(unit)
    keys = (key,) if isinstance(key, str) else tuple(key)
    salt = secrets.token_bytes(SALT_BYTES) if salt is None else salt
    wanted = request(
        unit=parts, key=keys, max_keys=max_keys, domain=domain, salt=salt, temporary_directory=Path(), portable=True
    )
    told = dict(unit_types or {})
    if not parts or not set(told) <= set(parts) or not set(told.values()) <= set(UNIT_TYPES):
        raise DeclarationError(
            f"unit_types gives unit columns one of {', '.join(map(repr, UNIT_TYPES))}, not {shown(told)}"
        )
    names = tuple(table.split(".")) if isinstance(table, str) else tuple(table)
    if len(names) > 3:
        raise DeclarationError("the name of a table has three parts at most")
    for name in (*names, *parts, *keys, count):
        _check_name(name)
    if count in keys:
        raise DeclarationError(f"count={count!r} is a key column: give the column of counts another name")
    query = _Writer(dialect, domain).query(
        names, parts, [told.get(part, "text") for part in parts], keys, max_keys, count
    )
    sql = query.sql(dialect, normalize_functions=False, comments=False)
    return CountingSql(sql, dialect, wanted.key, max_keys, domain, count, salt)


def _check_name(name: object) -> None:
    # These are read in several ways, or, as Spark does with ${…}, replaced before anything is read.
    if not isinstance(name, str) or not name or not name.isprintable() or re.search(r"[\\`]|\$\{", name):
        raise DeclarationError(
            f"names are text without control characters, backslashes, backticks and ${{, not {shown(name)}: rename "
            "it in a view"
        )


class _Writer:
    """Writes the query in a dialect."""

    def __init__(self, dialect: str, domain: Domain) -> None:
        self._said, self._domain = DIALECTS[dialect], domain

    def query(
        self,
        table: Sequence[str],
        unit: Sequence[str],
        kinds: Sequence[str],
        key: Sequence[str],
        max_keys: int,
        count: str,
    ) -> exp.Select:
        """The whole of it; own names are told from those of the log by the tables they stand with."""
        quoted = [exp.to_identifier(part, quoted=True) for part in table]
        log = exp.Table(**dict(zip(("this", "db", "catalog"), reversed(quoted), strict=False)))
        units, keys, cells = _names("u", unit), _names("k", key), key_names(len(key))
        source = exp.select(
            *(
                _column(name, "log", quoted=True).as_(own)
                for name, own in zip((*unit, *key), (*units, *keys), strict=True)
            )
        ).from_(exp.alias_(log, "log", table=True))
        u = [_column(name, "source") for name in units]
        placed = [
            self._placed(_column(name, "source"), part) for name, part in zip(keys, self._domain.parts, strict=True)
        ]
        encoded = [self._of_unit(name, column, kind) for name, column, kind in zip(unit, u, kinds, strict=True)]
        pairs = (
            exp.select(
                _joined([part for _, part in encoded]).as_("unit"),
                *(cell.as_(own) for own, (cell, _) in zip(cells, placed, strict=True)),
            )
            .distinct()
            .from_("source")
            .where(*(there for there, _ in encoded), *(inside for _, inside in placed))
        )
        each = [_column(name, "pairs") for name in cells]
        of_unit = [_column("unit", "pairs")]
        sized = exp.select(
            *of_unit, *each, exp.Window(this=exp.Count(this=exp.Star()), partition_by=of_unit).as_("size")
        )
        letters = [self._letter(column) for column in range(len(key))]
        each = [_column(name, "sized") for name in cells]
        unit_of = _column("unit", "sized")
        digest = self._said.sha256(
            _joined([self._said.salt, unit_of, *(self._part(*one) for one in zip(letters, each, strict=True))])
        )
        cut = exp.case().when(exp.GT(this=_column("size", "sized"), expression=exp.Literal.number(max_keys)), digest)
        place = exp.Window(
            this=_call("row_number"), partition_by=[unit_of], order=exp.Order(expressions=[exp.Ordered(this=cut)])
        )
        ordered = exp.select(*each, place.as_("place")).from_("sized")
        kept = exp.select(*(_column(name, "ordered") for name in cells)).from_("ordered")
        own = [_column(name, "kept") for name in cells]
        return (
            exp.select(
                *(column.as_(exp.to_identifier(name, quoted=True)) for column, name in zip(own, key, strict=True)),
                exp.Count(this=exp.Star()).as_(exp.to_identifier(count, quoted=True)),
            )
            .from_("kept")
            .group_by(*own)
            .with_("source", source)
            .with_("pairs", pairs)
            .with_("sized", sized.from_("pairs"))
            .with_("ordered", ordered)
            .with_(
                "kept", kept.where(exp.LTE(this=_column("place", "ordered"), expression=exp.Literal.number(max_keys)))
            )
        )

    def _of_unit(self, name: str, column: Made, kind: str) -> tuple[Made, Made]:
        """Whether a part of the unit is there, and the part as it is hashed.

        Neither a number for a text nor a fraction for a whole number is let through where an engine tells its types:
        equal ones may be written in two ways, and so be two units.
        """
        letter, _ = part_of_tuple(name, UNIT_TYPES[kind])
        if kind == "text":
            some = exp.GT(this=self._said.size(column), expression=exp.Literal.number(0))
            return some, self._part(letter, self._said.text(column))
        if kind == "integer":
            column = self._said.whole(column)
        return _is_known(column), self._part(letter, column)

    def _letter(self, column: int) -> str:
        return part_of_tuple("key", self._domain.dtypes[column])[0]

    def _part(self, letter: str, value: Made) -> Made:
        """A value behind its letter and length; a text is compared byte by byte already."""
        said = self._said
        forms: dict[str, Callable[[Made], Made]] = {
            "s": lambda x: x.copy(),
            "i": lambda x: _cast(x, "text"),
            "d": lambda x: _cast(said.days(said.as_date(x)), "text"),
            "u": lambda x: _cast(said.micros(x), "text"),
            "b": lambda x: _call("lower", _cast(x, "text")),
        }
        text = forms[letter](value)
        return _joined([exp.Literal.string(letter), _cast(said.size(text), "text"), exp.Literal.string(":"), text])

    def _placed(self, column: Made, part: Domain) -> tuple[Made, Made]:
        """The cell of a key, and whether there is one."""
        said, text = self._said, self._said.text(column)
        match part:
            case Strings():
                size = said.size(text) if part.max_bytes is not None else said.length(text)
                inside = _between(size, 1, part.max_bytes or part.max_chars or 1)
                if part.alphabet is None:
                    return text, inside
                left = _call(said.translate, text, self._text(part.alphabet), "")
                return text, exp.and_(inside, exp.EQ(this=left, expression=exp.Literal.string("")))
            case Open() if part.dtypes[0] == pl.String:
                return text, _is_there(text)
            case Hash64():
                return said.hash64(text), _is_there(text)
            case Catalogue():
                return self._listed(column, part)
            case Dates():
                return said.as_date(column), _between(
                    said.days(said.as_date(column)), (part.start - _EPOCH).days, (part.end - _EPOCH).days
                )
            case Open() if part.dtypes[0] == pl.Date:
                return said.as_date(column), _is_known(column)
            case Integers() | Open():
                low, high = (part.low, part.high) if isinstance(part, Integers) else _INT64
                return column.copy(), _between(column, low, high)
        raise DeclarationError(f"{part.describe()} has no form in SQL")

    def _listed(self, column: Made, part: Catalogue) -> tuple[Made, Made]:
        if part.size > MOST_VALUES:
            raise DeclarationError(
                f"a catalogue in SQL has at most {MOST_VALUES} values, this one {part.size}: join the log with a "
                "table of them in a view, count that in a domain that holds them all, and give create the catalogue"
            )
        values = part.values.to_list()
        if part.values.dtype == pl.String:
            cell = at = self._said.text(column)
            written = [self._text(value) for value in values if self._said.nul is not None or "\0" not in value]
        elif part.values.dtype == pl.Date:
            cell = self._said.as_date(column)
            at, written = self._said.days(cell), [_number((value - _EPOCH).days) for value in values]
        else:
            cell = at = column.copy()
            written = [exp.convert(value) for value in values]
        return cell, exp.In(this=at.copy(), expressions=written or [exp.Null()])

    def _text(self, text: str) -> Made:
        """A text as a literal, cut where no query can hold it (NUL) and where Spark would put something in (${)."""
        nul = self._said.nul
        pieces = [
            piece for piece in re.split(r"(\0)|(?<=\$)(?=\{)", text) if piece and (nul is not None or piece != "\0")
        ]
        written = [nul.copy() if nul is not None and piece == "\0" else exp.Literal.string(piece) for piece in pieces]
        return exp.paren(_joined(written)) if len(written) > 1 else written[0] if written else exp.Literal.string("")


def _is_there(text: Made) -> Made:
    """Neither null nor empty."""
    return exp.NEQ(this=text.copy(), expression=exp.Literal.string(""))


def _is_known(value: Made) -> Made:
    return exp.Not(this=exp.Is(this=value.copy(), expression=exp.Null()))


def _names(letter: str, columns: Sequence[str]) -> list[str]:
    return [f"{letter}_{i}" for i in range(len(columns))]


def _column(name: str, table: str, *, quoted: bool = False) -> exp.Column:
    return exp.Column(this=exp.to_identifier(name, quoted=quoted), table=exp.to_identifier(table))


def _between(value: Made, low: int, high: int) -> Made:
    return exp.Between(this=value.copy(), low=_number(low), high=_number(high))


def _number(number: int) -> Made:
    literal = exp.Literal.number(abs(number))
    return exp.Neg(this=literal) if number < 0 else literal
