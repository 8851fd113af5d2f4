"""The base of all workloads: linear queries A·x on the counts x of a series, and their textual form.

The form is read with Python's parser and never evaluated:

workload := name(argument, …)      prefix, ranges, total, identity, matrix, union, marginals or kronecker
argument := workload | name=value | value; values are integers, text in quotes, None, lists and tuples of values
"""

from __future__ import annotations

import abc
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from sparsehist.errors import DeclarationError
from sparsehist.text_form import Form, Notation
from sparsehist.typing import AnyArray, ArrayLike, FloatArray, IntArray
from sparsehist.workload.queries.cells import Cells

AnswerArray = AnyArray
"""int64 where the workload is integral, float64 elsewhere."""

KeyNumbers = Callable[[Sequence[Any]], IntArray]
"""From keys of one column to the numbers of its cells, in the order of the domain; refuses anything else."""

MOST_QUERIES = 2**31
"""More are not listed."""

_MOST_ENTRIES, _ENTRIES_AT_ONCE = 2**30, 2**22
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
    """A set of linear queries on the cells of a domain: the rows of a matrix A, which is never written out.

    Immutable, equal by text, hashable; holds public parameters only.

    Example:
        >>> str(Workload.parse("prefix(1024)")), Workload.parse("prefix(1024)").shape
        ('prefix(1024)', (1024, 1024))
    """

    word: ClassVar[str]
    """The name in the textual form."""

    explicit: bool = True
    """Whether the answers are published as a list, one row per query; otherwise each range is answered on demand."""

    integral: bool = True
    """Whether every entry of A is an integer, so that answers are exact integers."""

    non_negative: bool = True
    """Whether no entry of A is negative, so that no true answer is."""

    def __init_subclass__(cls, **named: Any) -> None:
        """Make a kind of workload known by its word, for `parse`."""
        super().__init_subclass__(**named)
        if "word" in cls.__dict__:
            _KINDS[cls.word] = cls

    @property
    @abc.abstractmethod
    def columns(self) -> tuple[int, ...]:
        """Number of values of each key column. Refused while it is left to a series (`is_open`)."""

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
        """(queries, cells), exact however large."""
        return self.n_queries, self.n_cells

    @abc.abstractmethod
    def apply(self, x: ArrayLike) -> FloatArray:
        """A·x; shape (cells,) or (cells, m) to (queries,) or (queries, m).

        Raises:
            DeclarationError: If the shape does not fit, or the queries are too many to be listed.
        """

    @abc.abstractmethod
    def apply_transposed(self, y: ArrayLike) -> FloatArray:
        """Aᵀ·y; shape (queries,) or (queries, m) to (cells,) or (cells, m)."""

    @abc.abstractmethod
    def arguments(self) -> str:
        """The arguments of the textual form, as `parse` reads them."""

    def answers(self, cells: Cells) -> AnswerArray:
        """A·x for the counts x; exact int64 where A is integral. Secret. Refuses cells of another domain."""
        self.require_domain(cells.shape)
        exact = self.apply(cells.dense().reshape(-1))
        return np.rint(exact).astype(np.int64) if self.integral else exact

    def row_squares(self) -> FloatArray:
        """Squared norm of every listed row of A: its variance under noise of variance 1 on every cell."""
        if self.n_queries * self.n_cells > _MOST_ENTRIES:
            raise DeclarationError(f"{self.describe()} of shape {self.shape} is too large to look at row by row")
        return np.concatenate([np.sum(rows**2, axis=0) for rows in self.row_blocks()])

    def row_blocks(self) -> Iterator[FloatArray]:
        """Blocks of the listed rows of A, as columns; shape (cells, m) each."""
        step = max(1, _ENTRIES_AT_ONCE // max(self.n_cells, self.n_queries))
        for first in range(0, self.n_queries, step):
            chosen = np.zeros((self.n_queries, min(step, self.n_queries - first)))
            chosen[first + np.arange(chosen.shape[1]), np.arange(chosen.shape[1])] = 1.0
            yield self.apply_transposed(chosen)

    def queries(self) -> Mapping[str, IntArray] | None:
        """Describe each row by columns of length n_queries; None where the queries are not listed."""
        return None if not self.explicit else {"query": np.arange(self.n_queries, dtype=np.int64)}

    def for_domain(self, columns: tuple[int, ...]) -> Workload:
        """Fill in sizes that were left open; refuse a domain that does not fit."""
        self.require_domain(columns)
        return self

    def of_series(self, names: Sequence[str], numbers: Sequence[KeyNumbers]) -> Workload:  # noqa: ARG002  for some
        """Replace column names and keys by numbers; refuse those that the series does not have.

        Args:
            names: All key columns of the series, in the order of the domain.
            numbers: For each key column, the function from its keys to the numbers of its cells.

        Example:
            >>> letters = lambda keys: np.array(["abcd".index(key) for key in keys])
            >>> str(Workload.parse("ranges(keys=[('a', 'b'), ('b', 'd')])").of_series(["letter"], [letters]))
            'ranges([(0, 1), (1, 3)])'
        """
        return self

    @property
    def is_open(self) -> bool:
        """Whether its size is left to the domain of the series."""
        try:
            return not self.columns
        except DeclarationError:
            return True

    def require_domain(self, columns: tuple[int, ...]) -> None:
        """Refuse a domain with other columns."""
        if tuple(columns) != self.columns:
            raise DeclarationError(f"{self.describe()} asks about columns of sizes {self.columns}, got {columns}")

    def columns_of(self, x: ArrayLike, length: int) -> FloatArray:
        """Read the argument of `apply` or `apply_transposed`; shape (length,) or (length, m)."""
        values = np.asarray(x, np.float64)
        if values.ndim not in {1, 2} or values.shape[0] != length:
            raise DeclarationError(f"{self.describe()} of shape {self.shape} does not fit an array {values.shape}")
        return values

    def describe(self) -> str:
        """The textual form, cut where it is long."""
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
