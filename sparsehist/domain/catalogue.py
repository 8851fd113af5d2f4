"""Catalogues: domains that list their keys, in memory or in a file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from sparsehist.domain.base import Domain
from sparsehist.errors import DomainError, InputError, promise, shown
from sparsehist.text_form import write_call, write_literal
from sparsehist.typing import BoolArray, IntArray

if TYPE_CHECKING:
    import polars as pl

_LONGEST_INLINE = 1000
"""Largest number of values in a text form. Longer catalogues are named by their SHA-256."""

_NOUNS = {"String": "strings", "Date": "dates", "Boolean": "booleans", "Int64": "integers", "UInt64": "integers"}


@dataclass(frozen=True, init=False, eq=False, repr=False)
class Catalogue(Domain, example="catalogue('DE', 'US') or catalogue(file='areas.csv', column='url')"):
    """A domain with a list of keys, in memory or in a file. Catalogues with the same list are equal.

    Args:
        values: Strings, integers, dates or booleans, all of one type; any iterable, array or series.
        file: File of the values: .parquet, .csv (with a header) or .txt (one value per line). Values of .csv and .txt
            files are read as integers, dates (2014-05-01) or true/false if all can be, otherwise as strings.
        column: Column of the file, if the file has several.
        kind: Type to convert the values to: "string", "integer", "date" or "boolean".
        sha256: Digest that the values must have, from the text form.

    Raises:
        DomainError: If a value occurs twice, is null, NaN, empty or of another type, or the digest differs.

    Example:
        >>> Catalogue(["DE", "US"]).size, str(Catalogue([True, False]))
        (2, 'catalogue(True, False)')
    """

    values: pl.Series = field(hash=False)
    sha256: str
    file: str | None
    column: str | None
    kind: str | None

    def __init__(
        self,
        values: Iterable[Any] | pl.Series | None = None,
        *,
        file: str | Path | None = None,
        column: str | None = None,
        kind: str | None = None,
        sha256: str | None = None,
    ) -> None:
        from sparsehist.domain.catalogue_values import read_file, read_values, sha256_of

        if (values is None) == (file is None):
            raise DomainError("catalogue() needs either values or file=…, for example catalogue('DE', 'US')")
        if not isinstance(file, str | Path | None):
            raise DomainError(f"file= of catalogue() must be the path of a file, got {shown(file)}")
        if file is None and column is not None:
            raise DomainError(f"catalogue() got column={column!r} without file=…")
        checked = read_values(values, kind) if values is not None else read_file(Path(str(file)), column, kind)
        found = sha256_of(checked)
        if sha256 is not None and sha256 != found:
            source = "its values" if file is None else f"file {str(file)!r}"
            raise DomainError(f"catalogue: sha256 {sha256} was recorded, {source} now give {found}; restore the file")
        path = None if file is None else Path(file).as_posix()
        self._fix(values=checked, sha256=found, file=path, column=column, kind=kind)

    @classmethod
    def read(cls, values: Sequence[Any], named: Mapping[str, Any], files: Mapping[str, Path]) -> Catalogue:
        for key, value in named.items():
            if key not in ("file", "column", "kind", "sha256"):
                # More than four named arguments may be data that were passed by mistake, so do not show their names.
                which = f" {shown(key)}" if len(named) <= 4 else ""
                raise DomainError(f"catalogue(): unknown argument{which}; write {cls.example}")
            if not isinstance(value, str):
                raise DomainError(f"catalogue(): {key} must be a string, got {shown(value)}")
        copy = files.get(named.get("sha256", ""))
        if not values and copy is not None:
            made = cls(file=copy, sha256=named["sha256"])
            made._fix(**{"file": None, "column": None, "kind": None, **named})
            return made
        if not values and "file" not in named:
            given = f"sha256 {named['sha256']} but " if "sha256" in named else ""
            raise DomainError(f"catalogue() has {given}no values; write {cls.example}")
        return cls(values or None, **named)

    def write_parquet(self, path: Path | IO[bytes]) -> None:
        """Write the values to a one-column Parquet file. `Domain.parse` can read this copy of a catalogue."""
        try:
            self.values.alias("value").to_frame().write_parquet(path)
        except OSError as error:
            raise InputError(f"cannot write a catalogue copy to {str(path)!r}: {error.strerror or error}") from None

    @property
    def size(self) -> int:
        return len(self.values)

    @property
    def dtype_names(self) -> tuple[str, ...]:
        return (str(self.values.dtype),)

    def contains(self, keys: pl.DataFrame) -> BoolArray:
        return np.asarray(keys["key_0"].is_in(self.values.implode()).to_numpy(), dtype=np.bool_)

    def _index(self, keys: pl.DataFrame) -> IntArray:
        import polars as pl

        numbers = pl.int_range(self.size, dtype=pl.Int64, eager=True)
        catalogue = pl.DataFrame({"key_0": self.values, "number": numbers})
        found = keys.select("key_0").join(catalogue, on="key_0", how="left", maintain_order="left")["number"]
        promise(not found.has_nulls(), "index() was given a key outside the catalogue")
        return found.to_numpy()

    def _keys(self, indices: IntArray) -> pl.DataFrame:
        return self.values.gather(indices).alias("key_0").to_frame()

    def describe(self) -> str:
        text = str(self)
        if self._is_inline and len(text) <= 120:
            return text
        return f"catalogue of {self.size} {_NOUNS[str(self.values.dtype)]}, sha256 {self.sha256}"

    def attachments(self) -> Mapping[str, Catalogue]:
        return {} if self._is_inline else {self.sha256: self}

    def __str__(self) -> str:
        if self._is_inline:
            kind = {"kind": "'date'"} if self.dtype_names == ("Date",) else {}
            return write_call("catalogue", [write_literal(value) for value in self.values.to_list()], kind)
        named = {"file": self.file, "column": self.column, "kind": self.kind, "sha256": self.sha256}
        return write_call("catalogue", [], {key: write_literal(text) for key, text in named.items() if text})

    def __eq__(self, other: object) -> bool:
        return self.sha256 == other.sha256 if isinstance(other, Catalogue) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.sha256)

    @property
    def _is_inline(self) -> bool:
        return self.file is None and self.size <= _LONGEST_INLINE


@cache
def one_cell() -> Catalogue:
    """Return the domain of a series without a key: one cell that counts every unit."""
    return Catalogue(["all"])  # made at the first call, because importing the package must not start Polars threads
