"""The base class of workloads: linear queries A·x on the counts x of a series, with a textual form.

The text is read with Python's parser and never evaluated: ``name(argument, …)``, where an argument is a workload, an
integer, text in quotes, None, or a list or tuple of these, with or without a name.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from sparsehist.errors import DeclarationError
from sparsehist.text_form import Form, Notation
from sparsehist.typing import AnyArray, ArrayLike, FloatArray, IntArray, float_array, whole_number
from sparsehist.workload.queries.cells import Cells

AnswerArray = AnyArray
"""int64 if the workload is integral, else float64."""

KeyNumbers = Callable[[Sequence[Any]], IntArray]
"""A function from keys of one column to their cell numbers; it refuses values that are not keys."""

KeyColumns = Mapping[str, KeyNumbers]
"""The key columns of a series in order: name, and function from keys to cell numbers."""

NO_KEYS: KeyColumns = {}

MOST_QUERIES = 2**31
"""Largest number of queries that are listed."""

_SHOWN = 120
_KINDS: dict[str, Callable[..., Workload]] = {}
_NOTATION = Notation(
    "workload",
    "integers, text in quotes and lists",
    lambda: (
        "write one of prefix(n), ranges(n), ranges(n, [(low, high), …]), ranges(keys=[(low, high), …]), "
        "total(n), identity(n), marginals(k=2), union(…, …), kronecker(…, …)"
    ),
)


class Workload(abc.ABC):
    """Linear queries on the cells of a domain: the rows of a matrix A, which need not be written out.

    Immutable and hashable; equal if the textual forms are equal; all parameters are public.

    Example:
        >>> str(Workload.parse("prefix(1024)")), Workload.parse("prefix(1024)").shape
        ('prefix(1024)', (1024, 1024))
    """

    word: ClassVar[str]
    """The name in the textual form."""

    explicit: bool = True
    """Whether a release lists the answers, one row per query; else it answers ranges on demand."""

    integral: bool = True
    """Whether every entry of A is an integer, so that answers are exact integers."""

    largest_entry: float = 1.0
    """Largest absolute entry of A, or a bound on it."""

    def __init_subclass__(cls, **named: Any) -> None:
        """Register the class under its `word`, for `parse`."""
        super().__init_subclass__(**named)
        if "word" in cls.__dict__:
            _KINDS[cls.word] = cls

    @property
    @abc.abstractmethod
    def columns(self) -> tuple[int, ...]:
        """Number of values of each key column; raises an error if the workload `is_open`."""

    @property
    @abc.abstractmethod
    def n_queries(self) -> int:
        """Number of rows of A."""

    @property
    def n_cells(self) -> int:
        """Number of columns of A: all cells of the domain, row-major."""
        return math.prod(self.columns)

    @property
    def shape(self) -> tuple[int, int]:
        """(queries, cells), exact at any size."""
        return self.n_queries, self.n_cells

    @abc.abstractmethod
    def apply(self, x: ArrayLike) -> FloatArray:
        """Return A·x; shape (cells,) or (cells, m) to (queries,) or (queries, m).

        Raises:
            DeclarationError: If the shape is wrong, or the queries are too many to list.
        """

    @abc.abstractmethod
    def apply_transposed(self, y: ArrayLike) -> FloatArray:
        """Return Aᵀ·y; shape (queries,) or (queries, m) to (cells,) or (cells, m)."""

    @abc.abstractmethod
    def arguments(self) -> str:
        """Return the arguments of the textual form, as `parse` reads them."""

    def answers(self, cells: Cells) -> AnswerArray:
        """Return A·x for the counts x; exact int64 if A is integral. Secret. Refuse cells of another domain."""
        self.require_domain(cells.shape)
        exact = self.apply(cells.dense().reshape(-1))
        return np.rint(exact).astype(np.int64) if self.integral else exact

    @abc.abstractmethod
    def row_squares(self) -> FloatArray:
        """Return the squared norm of each row of A: the variance of its answer for cells with noise of variance 1."""

    def queries(self) -> Mapping[str, IntArray] | None:
        """Describe the rows of A by columns of length n_queries; None if the queries are not listed."""
        return None if not self.explicit else {"query": np.arange(self.n_queries, dtype=np.int64)}

    def for_domain(self, columns: tuple[int, ...], keys: KeyColumns = NO_KEYS) -> Workload:  # noqa: ARG002  for some
        """Replace missing sizes and named keys by those of a domain, given the sizes and keys of its columns.

        Refuse a domain that does not fit and, if `keys` is empty, a workload that names columns or keys.
        """
        self.require_domain(columns)
        return self

    @property
    def is_open(self) -> bool:
        """Whether the workload has no size yet, so that it takes the size of the series' domain."""
        try:
            return not self.columns
        except DeclarationError:
            return True

    def require_domain(self, columns: tuple[int, ...]) -> None:
        """Refuse a domain with other columns."""
        if tuple(columns) != self.columns:
            raise DeclarationError(f"{self.describe()} asks about columns of sizes {self.columns}, not of these")

    def columns_of(self, x: ArrayLike, length: int) -> FloatArray:
        """Check and convert an argument of `apply` or `apply_transposed`; shape (length,) or (length, m)."""
        length = whole_number("length", length)
        values = float_array("the array", x)
        if values.ndim not in {1, 2} or values.shape[0] != length:
            raise DeclarationError(f"the array does not fit {self.describe()}, which needs {length} rows")
        return values

    def describe(self) -> str:
        """Return the textual form, shortened to 120 characters."""
        text = str(self)
        return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"

    def __str__(self) -> str:
        return f"{self.word}({self.arguments()})"

    def __repr__(self) -> str:
        return f"<workload {self.describe()}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Workload) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))

    @staticmethod
    def parse(text: str) -> Workload:
        """Read the textual form of a workload, such as ``ranges(100, [(0, 9), (10, 99)])``.

        Raises:
            DeclarationError: If the text is not a workload; the message says what would be right.

        Example:
            >>> Workload.parse("union(total(12), identity(12))").shape
            (13, 12)
        """
        return _workload(_NOTATION.read(text))


def _workload(form: Form) -> Workload:
    kind = _NOTATION.kind(form, _KINDS)

    def argument(value: object) -> Any:
        if isinstance(value, Form):
            return _workload(value)
        if isinstance(value, tuple | list):
            return type(value)(map(argument, value))
        return value if value is None or type(value) in {int, str} else _NOTATION.refuse(value, form)

    try:
        return kind(*map(argument, form.values), **{key: argument(value) for key, value in form.named.items()})
    except TypeError as error:
        raise DeclarationError(f"{form.name.lower()}(): {error}; {_NOTATION.advice()}") from None
