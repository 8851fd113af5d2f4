"""The domain of all 64-bit hashes, for keys that are strings of any length."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sparsehist.domain.base import Domain, holds_text
from sparsehist.errors import DomainError
from sparsehist.typing import BoolArray, whole_number

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, repr=False)
class Hash64(Domain, example="hash64()"):
    """A domain for strings of any length: its cells are the 2**64 values of a public hash.

    A column of strings is hashed before counting; a UInt64 column must already contain hashes. Strings with the same
    hash share a cell. Releases publish hashes. To recognise keys, hash candidate strings with `Hash64.of`.

    Example:
        >>> Hash64.of(["abc"]).to_list()
        [8250560606382298838]
    """

    size = 2**64
    dtype_names = ("UInt64",)

    def accepts(self, column: int, dtype: pl.DataType) -> bool:
        return column == 0 and (holds_text(dtype) or str(dtype) == "UInt64")

    def contains(self, keys: pl.DataFrame) -> BoolArray:
        return np.ones(keys.height, dtype=np.bool_)

    def convert(self, keys: pl.DataFrame) -> pl.DataFrame:
        column = keys["key_0"]
        return self.of(column).alias("key_0").to_frame() if holds_text(column.dtype) else keys.select("key_0")

    def draw(self, n: int, *, rng: np.random.Generator) -> pl.DataFrame:
        import polars as pl

        return pl.DataFrame(
            {"key_0": rng.integers(0, 2**64 - 1, size=whole_number("n", n), dtype=np.uint64, endpoint=True)}
        )

    @staticmethod
    def of(strings: pl.Series | Sequence[str]) -> pl.Series:
        """Hash each string, without a salt: take the last 8 bytes of its MD5 digest as a little-endian integer.

        DuckDB computes the same hash with ``md5_number_lower``.

        Args:
            strings: A list, or a series of String, Categorical or Enum; shape (n,).

        Returns:
            Hashes in the same order, null where the string is null; shape (n,), UInt64.
        """
        import duckdb
        import polars as pl

        if not isinstance(strings, pl.Series):
            if isinstance(strings, str) or not all(isinstance(text, str) for text in strings):
                raise DomainError("Hash64.of takes a list or series of strings, such as ['weather']")
            strings = pl.Series(strings, dtype=pl.String)
        if not holds_text(strings.dtype):
            raise DomainError(f"Hash64.of hashes strings: cast the series to String first, got dtype {strings.dtype}")
        table = strings.cast(pl.String).alias("key_0").to_frame().to_arrow()
        with duckdb.connect(":memory:") as connection:
            hashed: pl.DataFrame = connection.from_arrow(table).project("md5_number_lower(key_0) as hash").pl()
        return hashed["hash"].alias(strings.name)

    def __str__(self) -> str:
        return "hash64()"
