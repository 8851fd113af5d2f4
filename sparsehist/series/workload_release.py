"""A released workload: its answers, or the vector from which any range is answered. Needs no store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from sparsehist.errors import DeclarationError, NotFoundError
from sparsehist.series.release import Release
from sparsehist.workload.invertible import Invertible

if TYPE_CHECKING:
    from sparsehist.workload import Strategy


_ENDS = ("low", "high")


class WorkloadRelease(Release):
    """What one round of a workload published.

    Attributes:
        frame: A row a query: low and high, or the key columns (null where the query sums over one), or the number
            of the query; then noisy_answer and std, in counts. Of a workload that is not listed (all ranges) a row
            a cell of the domain, in its order: key column and noisy_count; `answer` and `answers` add these up.
        metadata: Public parameters; `std` stands for answers before any declared post-processing.
    """

    __slots__ = ("_prefix", "_strategy")

    @property
    def implicit(self) -> bool:
        """Whether the queries are not listed, but answered on demand."""
        return "noisy_count" in self.frame.columns

    def intervals(self, confidence: float = 0.95, *, simultaneous: bool = False) -> pl.DataFrame:
        """Not for workloads: nothing is held back by a threshold, so noisy_answer and std say all there is to say.

        Raises:
            DeclarationError: Always.
        """
        raise DeclarationError(
            f"the release {self.name!r} is one of a workload, without a threshold: an interval is the noisy answer "
            f"plus and minus a multiple of std (confidence={confidence!r}, simultaneous={simultaneous!r} were asked)"
        )

    def answer(self, low: Any, high: Any) -> tuple[float, float]:
        """The number of units in a range of keys, both ends included.

        Args:
            low: First key of the range, in the domain's order; a date may be text such as '2024-01-31'.
            high: Last key of the range.

        Returns:
            (noisy_answer, std), in counts.

        Raises:
            NotFoundError: If the range was not asked, or an end is no key of the domain.
            DeclarationError: If the release has no ranges.
        """
        row = self.answers([low], [high]).row(0, named=True)
        return row["noisy_answer"], row["std"]

    def answers(self, lows: Any, highs: Any) -> pl.DataFrame:
        """The number of units in many ranges of keys.

        Args:
            lows: First key of each range; shape (m,).
            highs: Last key of each range; shape (m,).

        Returns:
            low, high, noisy_answer and std, in counts; m rows.

        Raises:
            NotFoundError: If a range was not asked, or an end is no key of the domain.
            DeclarationError: If the release has no ranges, or a range ends before it begins.
        """
        if self.implicit:
            return self._sums(lows, highs)
        if not set(_ENDS) <= set(self.frame.columns):
            raise DeclarationError(f"the release {self.name!r} has no ranges: filter its frame instead")
        asked = pl.DataFrame(
            {end: _as_keys(ends, self.frame[end].dtype) for end, ends in zip(_ENDS, (lows, highs), strict=True)}
        )
        found = asked.join(self.frame.unique(["low", "high"]), on=["low", "high"], how="left", maintain_order="left")
        if found["noisy_answer"].null_count():
            raise NotFoundError(f"the workload {self.metadata['workload']} does not list one of these ranges")
        return found

    def _sums(self, lows: Any, highs: Any) -> pl.DataFrame:
        key = self.metadata["key"][0]
        keys = self.frame[key]
        first, last = (_positions(keys, ends) for ends in (lows, highs))
        if (first > last).any():
            raise DeclarationError("a range ends before it begins, in the order of the domain")
        below = self._prefix_sums()
        answers = below[last + 1] - below[first]
        return pl.DataFrame(
            {
                "low": keys.gather(first),
                "high": keys.gather(last),
                "noisy_answer": answers,
                "std": self._range_std(first, last),
            }
        )

    def _prefix_sums(self) -> NDArray[np.float64]:
        if not hasattr(self, "_prefix"):
            counts = self.frame["noisy_count"].to_numpy()
            self._prefix = np.concatenate([[0.0], np.cumsum(counts)])
        return self._prefix

    def _read_strategy(self) -> Strategy:
        if not hasattr(self, "_strategy"):
            from sparsehist.workload import Workload, strategy_named

            workload = Workload.parse(self.metadata["workload"])
            self._strategy = strategy_named(self.metadata["strategy"], workload)
        return self._strategy

    def _range_std(self, first: NDArray[np.int64], last: NDArray[np.int64]) -> NDArray[np.float64]:
        strategy = self._read_strategy()
        # Each range costs a transform of the whole column, and many may ask for the same one.
        ends, which = np.unique(np.stack([first, last]), axis=1, return_inverse=True)
        if isinstance(strategy, Invertible):
            variances = strategy.range_variances(*ends)
        else:
            variances = np.array([strategy.range_variance(low, high) for low, high in ends.T.tolist()])
        return np.asarray(np.sqrt(variances)[which], np.float64) * float(self.metadata["noise_std"])


def _as_keys(asked: Any, dtype: pl.DataType) -> pl.Series:
    """Keys as a caller writes them; dates may be text."""
    try:
        if dtype == pl.Date and pl.Series(asked).dtype == pl.String:
            return pl.Series(asked).str.to_date("%Y-%m-%d")
        return pl.Series(asked, dtype=dtype)
    except (TypeError, pl.exceptions.PolarsError, OverflowError):
        raise NotFoundError(f"the keys of this release are {dtype}") from None


def _positions(keys: pl.Series, asked: Any) -> NDArray[np.int64]:
    """Where keys stand in the order of the domain."""
    wanted = _as_keys(asked, keys.dtype)
    numbered = pl.DataFrame({"key": keys}).with_row_index("position")
    found = pl.DataFrame({"key": wanted}).join(numbered, on="key", how="left", maintain_order="left")["position"]
    if found.null_count():
        missing = wanted.filter(found.is_null())[0]
        raise NotFoundError(f"{missing!r} is no key of the domain {keys.name!r} was declared with")
    return found.to_numpy().astype(np.int64)
