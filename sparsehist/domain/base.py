"""Provide `Domain`, the base class of all domains, which also parses their text form.

A domain is declared without looking at the log. It is public, so errors may show its keys. Keys are passed as
Polars frames with the columns ``key_0``, ``key_1``, …, in the canonical dtypes of the domain.
"""

from __future__ import annotations

import abc
import inspect
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

import numpy as np

from sparsehist.errors import DomainError
from sparsehist.text_form import Form, Notation
from sparsehist.typing import BoolArray, IntArray, noise_array, whole_number

if TYPE_CHECKING:
    import polars as pl

    from sparsehist.domain.catalogue import Catalogue

GREATEST_SIZE = 10**4000
"""Largest number of cells. Metadata and errors contain this number, and Python writes at most 4300 digits."""

_SMALL = ("UInt8", "UInt16", "UInt32")
_FITTING = {"Int64": (*_SMALL, "Int8", "Int16", "Int32"), "UInt64": _SMALL}
"""Dict from a canonical dtype to the other dtypes that are converted to it without loss."""
_SHORT_TEXT = 120
_READABLE = 10**9


class Domain(abc.ABC):
    """The set of all keys that a histogram can count; each key is one cell.

    Domains are immutable and hashable, and are compared by value. If a domain has fewer than 2**63 cells, these are
    numbered from 0 in a fixed order.

    Example:
        >>> domain = Domain.parse("integers(5, 10)")
        >>> domain.size, str(domain)
        (6, 'integers(5, 10)')
    """

    example: ClassVar[str]
    arguments: ClassVar[tuple[type, ...]] = (int, str, bool)
    """Types of the arguments in the text form; `Form` if the arguments are domains."""
    is_open: ClassVar[bool] = False
    """Whether the keys cannot be listed. Then the domain has no size, and cells cannot be numbered or drawn."""

    def __init_subclass__(cls, *, example: str | None = None) -> None:
        """Register a subclass by the name in its `example`, such as "strings(…)", so that `Domain.parse` finds it."""
        if example is not None:
            cls.example = example
            _KINDS[example.partition("(")[0]] = cls

    @property
    @abc.abstractmethod
    def size(self) -> int:
        """Exact number of cells, which may exceed 64 bits."""

    @property
    def parts(self) -> tuple[Domain, ...]:
        """The domains of the key columns: several for a product, otherwise one."""
        return (self,)

    @property
    def columns(self) -> int:
        """Number of key columns."""
        return 1

    @property
    def dtype_names(self) -> tuple[str, ...]:
        """Names of the canonical Polars dtypes, one for each key column."""
        self._refuse()

    @property
    def dtypes(self) -> tuple[pl.DataType, ...]:
        """Canonical Polars dtypes, one for each key column."""
        import polars as pl

        return tuple(getattr(pl, name)() for name in self.dtype_names)

    def accepts(self, column: int, dtype: pl.DataType) -> bool:
        """Return whether a log column of this dtype can be cast without loss to the dtype of key column `column`."""
        if not 0 <= column < self.columns:
            return False
        canonical = self.dtype_names[column]
        return holds_text(dtype) if canonical == "String" else str(dtype) in (canonical, *_FITTING.get(canonical, ()))

    def contains(self, keys: pl.DataFrame) -> BoolArray:  # noqa: ARG002
        """Return whether each key is in the domain; shape (n,). Keys have canonical dtypes and no nulls."""
        self._refuse()

    def draw(self, n: int, *, rng: np.random.Generator) -> pl.DataFrame:
        """Draw n independent cells, exactly uniform over the domain; return them as a frame of keys."""
        return self._keys(rng.integers(0, self.size - 1, size=whole_number("n", n), dtype=np.int64, endpoint=True))

    def _index(self, keys: pl.DataFrame) -> IntArray:  # noqa: ARG002
        """Return the cell number of each key. `index` calls this method only if there are fewer than 2**63 cells."""
        self._refuse()

    def _keys(self, indices: IntArray) -> pl.DataFrame:  # noqa: ARG002
        """Return the keys of cells, given their numbers. `keys` calls this method only with valid cell numbers."""
        self._refuse()

    def _refuse(self) -> NoReturn:
        message = f"the keys of this domain were not loaded: pass a domain with its keys as domain= instead of {self}"
        raise DomainError(message, parameter="domain")

    @abc.abstractmethod
    def __str__(self) -> str:
        """Return the text form of the domain, which `Domain.parse` reads."""

    def index(self, keys: pl.DataFrame) -> IntArray:
        """Return the cell number of each key; shape (n,), int64. Refuse domains with 2**63 cells or more."""
        self._require_indexable()
        return self._index(keys)

    def keys(self, indices: IntArray) -> pl.DataFrame:
        """Return the keys of cells, given their numbers (the inverse of `index`). Refuse numbers out of range."""
        self._require_indexable()
        numbers = noise_array("cells", indices).astype(np.int64, copy=False)
        if numbers.size and (numbers.min() < 0 or numbers.max() >= self.size):
            raise DomainError(f"cell numbers of this domain must be from 0 to {self.size - 1}: {self.describe()}")
        return self._keys(numbers)

    def convert(self, keys: pl.DataFrame) -> pl.DataFrame:
        """Cast keys of a log to canonical dtypes, row by row. The domain must accept the dtypes of the log."""
        import polars as pl

        dtypes = zip(key_names(self.columns), self.dtypes, strict=True)
        return keys.select(pl.col(name).cast(dtype) for name, dtype in dtypes)

    def describe(self) -> str:
        """Describe the domain in at most 120 characters. A long catalogue is described by its size and SHA-256."""
        text = str(self)
        return text if len(text) <= _SHORT_TEXT else f"{text[: _SHORT_TEXT - 1]}…"

    def describe_size(self) -> str:
        """Return the number of keys as a short string: exact below 10**9, otherwise with three significant digits."""
        if self.is_open:
            return "any key"
        return f"{self.size:,} keys" if self.size < _READABLE else f"{Decimal(self.size):.3g} keys"

    def attachments(self) -> Mapping[str, Catalogue]:
        """Return a dict from SHA-256 to catalogue, for the catalogues whose values the text form does not list."""
        return {}

    def __repr__(self) -> str:
        return f"<domain {self.describe()}>"

    def _fix(self, **fields: object) -> None:
        """Set fields in a constructor with `object.__setattr__`, because the dataclass is frozen."""
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    def _require_indexable(self) -> None:
        if self.size >= 2**63:
            raise DomainError(f"this domain has 2**63 cells or more, so its cells have no numbers: {self.describe()}")

    def _require_writable_size(self) -> None:
        if self.size > GREATEST_SIZE:
            raise DomainError(
                f"a domain may have at most 10**4000 cells, got {self.describe()}; lower the limit on bytes or "
                "characters, or declare hash64() or open(delta=…), whose keys may have any length"
            )

    @staticmethod
    def parse(text: str, *, files: Mapping[str, Path] | None = None) -> Domain:
        """Read a domain from its text form, which SQL, the command line and the store use.

        Args:
            text: For example ``strings(max_bytes=32)`` or
                ``product(country=catalogue('DE', 'US'), n=integers(9))``.
            files: Dict from the SHA-256 of a catalogue to the path of a copy to read instead of the original file.

        Raises:
            DomainError: If the text is not a domain; the message says what to write.

        Example:
            >>> Domain.parse("catalogue('a', 'b')").size
            2
        """
        return _domain(_NOTATION.read(text), files or {})

    @staticmethod
    def names_a_file(text: str) -> bool:
        """Return whether `parse` would open a file to read this text form."""
        return _names_a_file(_NOTATION.read(text))

    @classmethod
    def read(cls, values: Sequence[Any], named: Mapping[str, Any], files: Mapping[str, Path]) -> Domain:  # noqa: ARG003
        """Make a domain of this class from the parsed arguments of its text form; `files` is as in `parse`."""
        try:
            inspect.signature(cls).bind(*values, **named)
        except TypeError as error:
            raise DomainError(f"{cls.example.partition('(')[0]}(): {error}; write {cls.example}") from None
        return cls(*values, **named)


_KINDS: dict[str, type[Domain]] = {}
_NOTATION = Notation(
    "domain",
    "integers, True, False or text in quotes",
    lambda: "write one of " + ", ".join(kind.example for kind in reversed([*_KINDS.values()])),
    DomainError,
)


def _names_a_file(form: Form) -> bool:
    """Return whether a parsed text form, or one nested in it, has an argument named `file` or `sha256`."""
    inner = [value for value in (*form.values, *form.named.values()) if isinstance(value, Form)]
    return not form.named.keys().isdisjoint(("file", "sha256")) or any(map(_names_a_file, inner))


def _domain(form: Form, files: Mapping[str, Path]) -> Domain:
    kind = _NOTATION.kind(form, _KINDS)

    def argument(value: object) -> Any:
        if kind.arguments == (Form,):
            return _domain(_NOTATION.form(value), files)
        return value if type(value) in kind.arguments else _NOTATION.refuse(value, form)

    named = {key: argument(value) for key, value in form.named.items()}
    return kind.read(list(map(argument, form.values)), named, files)


def holds_text(dtype: pl.DataType) -> bool:
    """Return whether a column with this dtype can be cast to String without loss."""
    return str(dtype).startswith(("String", "Categorical", "Enum"))


def key_names(columns: int) -> list[str]:
    """Return key_0, key_1 and so on: the column names of a frame of keys."""
    return [f"key_{column}" for column in range(columns)]
