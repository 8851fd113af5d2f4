"""The `Log` class (a lazy frame or Spark frame with column types), and errors that show no data of the log."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any

import polars as pl

from sparsehist.counting.tuples import check_portable, part_of_tuple
from sparsehist.domain.base import Domain
from sparsehist.errors import DataError, DeclarationError, SparsehistError, raise_alone
from sparsehist.guarantee.language import LACKING, lacks_extension

QUERY_LABEL = "the query"
_CREDENTIALS = "; credentials are taken from the environment or from sh.Files(…, storage_options={…})"
_DAY = r"^(\d{4}-\d{2}-\d{2})[ T]\d{2}:\d{2}.*$"
TEXTS = (pl.String, pl.Categorical, pl.Enum)
_REASONS = {
    "empty CSV|PermissionError: .*empty": "it is empty",
    "^FileNotFoundError|expanded paths were empty": "it is not there",
    "^PermissionError": "access is refused",
    "must end with PAR1|must contain a header": "it is not a complete Parquet file",
    "more fields": "its rows are of different length",
    "could not parse": "a quoted field is not followed by a delimiter",
    "CSV malformed": "a quote is inside a field without quotes, or is never closed",
    "(?i)utf-?8": "it is not UTF-8 text",
    "unexpected end of file": "it is cut off",
    "error parsing line|expected to contain JSON": "a line is not a JSON object, or a column has several types",
    "data type mismatch|^ColumnNotFoundError": "a column is missing or has another type than in other files",
}
"""Dict from a pattern in engines' messages, which may quote the log, to the reason that our error states."""
_FAILURES = (Exception, pl.exceptions.PanicException)  # panics of Polars are not subclasses of Exception


@dataclass(frozen=True)
class Log:
    """A log that can be read more than once.

    Attributes:
        rows: A Polars LazyFrame or a Spark frame.
        dtypes: Dtype of every column.
        label: Name of the log in errors.
        files: Dict from the path or URL of each file to its lazy frame.
        texts: Columns of strings that may be parsed as whole numbers or dates, as in CSV files.
    """

    rows: Any = field(repr=False)
    dtypes: Mapping[str, pl.DataType]
    label: str
    files: Mapping[str, pl.LazyFrame] = field(default_factory=dict, repr=False)
    texts: frozenset[str] = frozenset()

    @property
    def of_spark(self) -> bool:
        """Whether the rows are a Spark frame."""
        return not isinstance(self.rows, pl.LazyFrame)

    def with_key_types(self, key_types: Mapping[str, str]) -> Log:
        """Return the log with key columns cast to their declared types."""
        if not key_types:
            return self
        if self.of_spark:
            raise DeclarationError("key_types are not available for Spark: cast the column in the Spark frame")
        casts = {name: _cast(name, self.dtypes[name], to) for name, to in key_types.items()}
        dtypes = {**self.dtypes, **{name: dtype for name, (_, dtype) in casts.items()}}
        rows = self.rows.with_columns(cast for cast, _ in casts.values())
        return replace(self, rows=rows, dtypes=dtypes, texts=self.texts.union(key_types))

    def with_key(self, name: str, value: str) -> Log:
        """Return the log with an added column that has the same string in each row."""
        if self.of_spark:
            raise DeclarationError("a Spark frame needs a key column: add one with the same string in each row")
        dtypes = {**self.dtypes, name: pl.String()}
        return replace(self, rows=self.rows.with_columns(pl.lit(value).alias(name)), dtypes=dtypes)


def _cast(name: str, dtype: pl.DataType, to: str) -> tuple[pl.Expr, pl.DataType]:
    """Return an expression that casts a column to a type of `key_types`, and the dtype of the result."""
    column = pl.col(name)
    written = dtype in TEXTS or dtype.is_integer() or dtype == pl.Boolean or dtype.is_decimal()
    if to == "date" and dtype in TEXTS:
        return column.cast(pl.String).str.replace(_DAY, "$1"), pl.String()
    if to == "date" and (dtype == pl.Date or isinstance(dtype, pl.Datetime)):
        return column.dt.date(), pl.Date()
    if to == "integer" and written:  # the result is a column of strings of digits, which are parsed later
        number = column.cast(pl.Int8) if dtype == pl.Boolean else column
        return number.cast(pl.String).str.replace(r"^([+-]?\d+)\.0*$", "$1"), pl.String()
    if to == "text" and (written or dtype == pl.Date):
        return column.cast(pl.String), pl.String()
    raise DeclarationError(
        "key_types cannot convert a column: 'date' needs text, timestamps or dates; 'integer' and 'text' need text, "
        f"whole numbers, booleans or decimals; got column {name!r} of type {dtype} for {to!r}"
    )


def shown(file: str) -> str:
    """Return a path or URL to show in errors, without credentials and without the values in folder names.

    Example:
        >>> shown("log/user=alice/part.csv"), shown("https://me:word@host/log.parquet?signature=5")
        ('log/user=…/part.csv', 'https://host/log.parquet')
    """
    file = re.sub(r"(?<=://)[^/]*@", "", file)
    if file.startswith("http"):
        file = re.split(r"[?#]", file)[0]
    return re.sub(r"=[^/]+(?=/)", "=…", file)


class engine_errors(AbstractContextManager[None]):  # noqa: N801  used as a statement, like contextlib.suppress
    """Context manager: replace an engine's exceptions, which may quote data or credentials, with sparsehist errors.

    If the engine fails, the files of the log are read one by one, to find an unreadable file. `error_of` returns the
    error for an exception that it recognises, and None for any other exception.
    """

    def __init__(
        self,
        label: str,
        log: Log | None = None,
        error_of: Callable[[BaseException], SparsehistError | None] = lambda _: None,
    ) -> None:
        self._label, self._log, self._error_of = label, log, error_of

    def __exit__(self, kind: object, failure: BaseException | None, trace: object) -> None:
        if not isinstance(failure, _FAILURES) or isinstance(failure, (SparsehistError, MemoryError)):
            return
        error = self._error_of(failure) or _explained(failure, self._label, self._log)
        del failure, trace  # delete the variables that contain the engine's message, as debuggers would show it
        raise_alone(error)


def _explained(failure: BaseException, label: str, log: Log | None) -> SparsehistError:
    kind = type(failure).__name__
    if kind == "OutOfMemoryException":
        return DeclarationError("memory_limit is too small for this log: allow more memory or fewer threads")
    if lacks_extension(failure):
        return DataError(LACKING)
    if label == QUERY_LABEL:
        return DataError(f"{label} cannot be run ({kind}): try it in DuckDB directly")
    for file, scan in ({} if log is None else log.files).items():
        try:
            scan.select(pl.all().null_count()).collect(engine="streaming")
        except _FAILURES as failure_of_file:
            label, failure = f"file {shown(file)!r}", failure_of_file
            break
    words = f"{type(failure).__name__}: {failure}"
    reasons = [f": {reason}" for pattern, reason in _REASONS.items() if re.search(pattern, words)]
    if not label.startswith("file ") or not reasons:
        reasons = [f" ({kind}): check that it is complete and that its columns are readable"]
    return DataError(f"{label} cannot be read{reasons[0]}{_CREDENTIALS if '://' in label else ''}")


def check_unit_dtypes(log: Log, units: Sequence[str], *, portable: bool = False) -> None:
    """Refuse unit columns with values that can be written in several ways, such as floats, decimals and lists.

    If the unit has several columns or `portable` is true, also refuse types that cannot be encoded (`tuples.py`).
    """
    for unit in units:
        dtype = log.dtypes[unit]
        if dtype.is_float() or dtype.is_decimal():
            raise _fractions(
                f"unit column {unit!r}", dtype, "cast the unit to text, or to whole numbers of at most 64 bits"
            )
        if dtype.is_nested() or dtype in (pl.Null, pl.Object):
            raise DataError(
                f"a unit must be text, a whole number, a date or similar, but column {unit!r} has dtype {dtype}"
            )
        if portable:
            check_portable(unit, dtype)
        elif len(units) > 1:
            part_of_tuple(unit, dtype)


def check_key_dtypes(log: Log, key: Sequence[str], domain: Domain) -> None:
    """Refuse key columns whose dtype does not fit the domain.

    A column of strings is accepted if the keys of the domain are dates, such as 2024-01-31. If the keys are whole
    numbers, a column of strings is accepted only if it comes from a file. The strings are parsed later.
    """
    for column, name in enumerate(key):
        expected, dtype = domain.dtypes[column], log.dtypes[name]
        parsed = dtype == pl.String and (expected == pl.Date or (name in log.texts and expected.is_integer()))
        if parsed or domain.accepts(column, dtype):
            continue
        kind = "date" if expected == pl.Date else "integer" if expected.is_integer() else "text"
        remedy = f"read it with sh.Files(…, types={{{name!r}: {kind!r}}}), in a shell --key-type {name}={kind}"
        if isinstance(dtype, pl.List):
            remedy = f"make one row for each element, with frame.explode({name!r}) or with unnest in SQL"
        remedy = "cast it in the Spark frame" if log.of_spark else remedy
        if dtype.is_float() or dtype.is_decimal():
            raise _fractions(f"key column {name!r}", dtype, remedy)
        raise DataError(f"key column {name!r} has dtype {dtype}, and {domain.describe()} needs {expected}: {remedy}")


def _fractions(column: str, dtype: pl.DataType, remedy: str) -> DataError:
    return DataError(f"{column} has dtype {dtype}, in which one number may be written in several ways: {remedy}")
