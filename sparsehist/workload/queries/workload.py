"""The base class of workloads: linear queries A·x on the counts x of a series. Each workload has a textual form.

The textual form is ``name(argument, …)``. An argument, with or without a name, is a workload, an integer, text in
quotes, None, or a list or tuple of these. The text is read with Python's parser and never evaluated.
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
"""A function from keys of one column to their numbers; it raises an error for values that are not keys."""

KeyColumns = Mapping[str, KeyNumbers]
"""Dict from the name of each key column of a series, in order, to a function from its keys to their numbers."""

NO_KEYS: KeyColumns = {}

MOST_QUERIES = 2**31
"""Largest number of queries of a workload whose release has one row per query."""

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
    """Linear queries on the cells of a domain: the rows of a matrix A, which is usually not stored.

    Workloads are immutable and hashable, and equal if their textual forms are equal. All parameters are public.

    Example:
        >>> str(Workload.parse("prefix(1024)")), Workload.parse("prefix(1024)").shape
        ('prefix(1024)', (1024, 1024))
    """

    word: ClassVar[str]
    """The name of the class in the textual form."""

    explicit: bool = True
    """Whether the workload is listed: its release has one row per query. Otherwise, it answers ranges on demand."""

    integral: bool = True
    """Whether every entry of A is an integer, so that answers are exact integers."""

    largest_entry: float = 1.0
    """Largest absolute entry of A, or a bound on it."""

    def __init_subclass__(cls, **named: Any) -> None:
        """Register the subclass under the name that it has in textual forms, so that `parse` finds it."""
        super().__init_subclass__(**named)
        if "word" in cls.__dict__:
            _KINDS[cls.word] = cls

    @property
    @abc.abstractmethod
    def columns(self) -> tuple[int, ...]:
        """Number of values of each key column. Raises an error while the workload has no size (`is_open`)."""

    @property
    @abc.abstractmethod
    def n_queries(self) -> int:
        """Number of rows of A."""

    @property
    def n_cells(self) -> int:
        """Number of columns of A, one for each cell of the domain in row-major order."""
        return math.prod(self.columns)

    @property
    def shape(self) -> tuple[int, int]:
        """Shape (queries, cells) of A, as exact integers of any size."""
        return self.n_queries, self.n_cells

    @abc.abstractmethod
    def apply(self, x: ArrayLike) -> FloatArray:
        """Return A·x. Shape (cells,) or (cells, m) becomes (queries,) or (queries, m).

        Raises:
            DeclarationError: If the shape is wrong, or there are too many queries to list.
        """

    @abc.abstractmethod
    def apply_transposed(self, y: ArrayLike) -> FloatArray:
        """Return Aᵀ·y. Shape (queries,) or (queries, m) becomes (cells,) or (cells, m)."""

    @abc.abstractmethod
    def arguments(self) -> str:
        """Return the text between the parentheses of the textual form, such as "100, [(0, 9)]" for ranges."""

    def answers(self, cells: Cells) -> AnswerArray:
        """Return the secret answers A·x; int64 if `integral`. The column sizes of `cells` must be `columns`."""
        self.require_domain(cells.shape)
        exact = self.apply(cells.dense().reshape(-1))
        return np.rint(exact).astype(np.int64) if self.integral else exact

    @abc.abstractmethod
    def row_squares(self) -> FloatArray:
        """Return the squared L2 norms of the rows of A: the variances of answers A·Z if Z is N(0, I)."""

    def queries(self) -> Mapping[str, IntArray] | None:
        """Return named arrays that describe the queries, one entry per query; None if the workload is not listed."""
        return None if not self.explicit else {"query": np.arange(self.n_queries, dtype=np.int64)}

    def for_domain(self, columns: tuple[int, ...], keys: KeyColumns = NO_KEYS) -> Workload:  # noqa: ARG002  for some
        """Return the workload for a domain: take missing sizes from the domain, and replace keys with cell numbers.

        Raise an error if the workload and the domain have different columns. The argument `keys` is required if the
        workload contains names of columns or keys.
        """
        self.require_domain(columns)
        return self

    @property
    def is_open(self) -> bool:
        """Whether the workload has no size yet. It will take the size from the domain of a series."""
        try:
            return not self.columns
        except DeclarationError:
            return True

    def require_domain(self, columns: tuple[int, ...]) -> None:
        """Raise an error unless the domain has the same column sizes as the workload."""
        if tuple(columns) != self.columns:
            raise DeclarationError(f"the domain must have columns of sizes {self.columns} for {self.describe()}")

    def columns_of(self, x: ArrayLike, length: int) -> FloatArray:
        """Check an argument of `apply` or `apply_transposed`. Return it as floats, shape (length,) or (length, m)."""
        length = whole_number("length", length)
        values = float_array("the array", x)
        if values.ndim not in {1, 2} or values.shape[0] != length:
            raise DeclarationError(f"the array must have one or two axes, with {length} rows for {self.describe()}")
        return values

    def describe(self) -> str:
        """Return the textual form, cut to at most 120 characters."""
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
            DeclarationError: If the text is not a workload. The message lists the valid forms.

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
