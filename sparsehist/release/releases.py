"""Published releases, with rows and public metadata. A release can be used without its store."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from sparsehist.declaration.checks import checked_confidence
from sparsehist.errors import (
    DeclarationError,
    InputError,
    NotFoundError,
    as_mapping,
    needing,
    of_kind,
    printable,
    raise_alone,
)
from sparsehist.html import ABOUT, html_table, in_notebook, shown
from sparsehist.privacy import as_level
from sparsehist.release.home import Home
from sparsehist.release.metadata import CellMetadata, WorkloadMetadata, level_in_words, read_metadata, release_rows
from sparsehist.release.release_files import ENDINGS, PARQUET, read_release, write_release
from sparsehist.typing import FloatArray, IntArray

if TYPE_CHECKING:
    from sparsehist.workload import Strategy

_ROWS_SHOWN = 10
_ENDS = ("low", "high")


def release_of(frame: pl.DataFrame, metadata: Mapping[str, Any], **origin: Any) -> Release | WorkloadRelease:
    """Make a `Release` or `WorkloadRelease`, depending on the metadata. `origin` is passed on to the constructor."""
    kind = WorkloadRelease if metadata.get("kind") == WorkloadMetadata.kind else Release
    return kind(frame, metadata, **origin)


class AnyRelease:
    """A published release: rows and public metadata.

    Attributes:
        repeated: Whether the release existed before the call that returned it. If so, the call drew no noise and
            spent nothing. Always True for a release read from a file.
    """

    def __init__(
        self, frame: pl.DataFrame, metadata: Mapping[str, Any], *, home: Home | None = None, repeated: bool = True
    ) -> None:
        """Make a release from rows and metadata. If `home` is given, its store records where the release is saved."""
        self.repeated, self._frame, self._home = repeated, frame, home
        self._metadata = as_mapping("metadata", metadata)

    @property
    def frame(self) -> pl.DataFrame:
        """The published rows."""
        return self._frame

    @property
    def metadata(self) -> dict[str, Any]:
        """Public parameters, as a new dict of JSON values with keys in a fixed order."""
        return dict(self._metadata)

    @property
    def name(self) -> str:
        """Name of the release."""
        return str(self._metadata["name"])

    @property
    def level(self) -> Fraction:
        """Level of the release, as an exact fraction."""
        return as_level(self._metadata["level"])

    def __len__(self) -> int:
        """Number of published rows."""
        return self._frame.height

    def __repr__(self) -> str:
        """Return the name, the number of rows and the parameters needed to interpret a count."""
        names = ("workload", "level", "std", "threshold", "expected_false_keys")
        parameters = {name: self._metadata[name] for name in names if self._metadata.get(name) is not None}
        if self._metadata.get("epsilon_delta") is not None:
            parameters["level"] = level_in_words(read_metadata(self._metadata))
        name = printable(f"{self._metadata.get('series')}.{self._metadata.get('name')}")
        return f"{type(self).__name__}({name}, rows={len(self)}, {parameters})"

    def _repr_html_(self) -> str:
        """Return the parameters and the first rows as HTML for a notebook."""
        return in_notebook(self, self._tables)

    def _tables(self) -> Iterator[str]:
        public, frame = read_metadata(self._metadata), self._frame.head(_ROWS_SHOWN)
        yield html_table(f"Release {public.name} of {public.series}", ABOUT, release_rows(public))
        rows = [tuple(map(shown, row)) for row in frame.iter_rows()]
        numbers = sum(dtype.is_numeric() for dtype in frame.dtypes[len(public.declaration.key) :])
        yield html_table(f"The first {len(rows)} of {len(self):,} rows", frame.columns, rows, numbers)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Export the rows to any library that reads Arrow."""
        return self._frame.__arrow_c_stream__(requested_schema)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle only the published rows and the metadata."""
        return type(self), (self._frame, self._metadata)

    def write_parquet(self, path: str | os.PathLike[str]) -> None:
        """Write rows and metadata as one Parquet file (.parquet or .pq), completely or not at all.

        An existing file is replaced only if it contains this release. The public ledger in the same directory,
        sparsehist-ledger.json, lists the releases written there. A copy of the store that was made before a
        listed release is refused.

        Raises:
            InputError: If a different file exists at `path`, or the name has another ending.
            StoreError: If the file cannot be written; an existing file stays unchanged.
        """
        write_release(path, self._frame, self._metadata, self._home, PARQUET)

    def write(self, path: str | os.PathLike[str], *, spreadsheet_safe: bool = True) -> None:
        r"""Write the release in the format given by the file name's ending; the rules of `write_parquet` apply.

        Spreadsheets run a string such as `=cmd` as a formula. In CSV files, an apostrophe is therefore put before
        every string that starts with = + - @, a tab, a line break or an apostrophe. Control characters other than
        tabs and line feeds become escapes such as `\x1b`, and backslashes are doubled. All these changes can be
        undone.

        Args:
            path: Ends in .parquet or .pq, .csv (rows only), .json (an object with "metadata" and "rows", a list with
                one object per row) or .arrow (Arrow IPC, metadata in its schema).
            spreadsheet_safe: False writes the strings of a CSV file unchanged.
        """
        write_release(path, self._frame, self._metadata, self._home, ENDINGS, spreadsheet_safe=spreadsheet_safe)


class Release(AnyRelease):
    """A published release of cells.

    Attributes:
        frame: The key columns, named as in the log, and noisy_count, in counts; sorted by noisy_count, largest first,
            then by key.
        metadata: Public parameters of the release: level, noise, std, threshold, declaration and so on.

    Example:
        >>> Release(pl.DataFrame({"url": ["/a"], "noisy_count": [12.5]}), {"name": "public"}).name
        'public'
    """

    @property
    def threshold(self) -> float | None:
        """Threshold of the release, in counts; None if every cell is published."""
        return None if self._metadata["threshold"] is None else float(self._metadata["threshold"])

    def plot(self, *, most: int = 20, confidence: float = 0.95) -> Any:
        """Return an Altair chart of the largest counts with their `intervals`; needs the extra `plots`.

        Args:
            most: Maximum number of rows to plot.
            confidence: Confidence of each interval.
        """
        with needing("a plot", "'sparsehist[plots]'"):
            import altair as alt
        rows = self.intervals(confidence).head(most)
        # Replace < in keys: Altair may write keys into a script in HTML, and a key such as </script> would end it.
        keys = [
            printable(" · ".join(map(str, key))).replace("<", "\N{FULLWIDTH LESS-THAN SIGN}")
            for key in rows[:, : rows.columns.index("noisy_count")].rows()
        ]
        data = rows.select("noisy_count", *_ENDS, key=pl.Series(keys, dtype=pl.String)).to_dicts()
        base = alt.Chart(alt.InlineData(values=data)).encode(y=alt.Y("key:N", sort=None, title=None))
        limits = base.mark_rule().encode(x=alt.X("low:Q", title="units"), x2="high:Q")
        return limits + base.mark_point(filled=True, opacity=1).encode(x="noisy_count:Q")

    def intervals(self, confidence: float = 0.95, *, simultaneous: bool = False) -> pl.DataFrame:
        """Add confidence intervals for the bounded counts of the published rows.

        If a key is published, its interval contains its true count with probability at least `confidence`, whatever
        the true count. (The noisy count plus or minus a multiple of std would be wrong near the threshold, where
        keys are published because their noise is large.) The confidence does not hold for keys selected by noisy
        count or by other releases.

        Args:
            confidence: Strictly between 0 and 1.
            simultaneous: Make `confidence` the probability that all intervals of the published keys contain their
                true counts: each interval gets confidence**(1/rows) (Šidák).

        Returns:
            The frame with two more columns of Float64, in counts: `low`, at least 0 (1 in an open domain), and
            `high`. A measure adds columns such as `price_sum_low` and `price_sum_high`, for clipped sums of bounded
            pairs; with events and Gaussian noise also `price_mean_low` and `price_mean_high` (Fieller), infinite if
            the number of events may be 0. With `simultaneous`, the confidence holds for each kind of column
            separately.

        Example:
            >>> import sparsehist as sh
            >>> counts = sh.Counts(pl.DataFrame({"url": ["/a"], "count": [900]}), largest=1)
            >>> series = sh.create(sh.open(":memory:", seed=1), counts, name="visits", key="url", max_keys=1,
            ...                    domain=sh.Strings(max_bytes=8))
            >>> release = series.release("public", level=0.5, threshold=100)
            >>> [round(limit, 1) for limit in release.intervals().select("low", "high").row(0)]
            [897.3, 901.2]
        """
        from sparsehist.histogram.intervals import count_limits  # imported here, because the import is slow
        from sparsehist.release.cell_parameters import measure_limits

        alpha = 1 - checked_confidence(confidence)
        if simultaneous and len(self):
            alpha = -math.expm1(math.log(confidence) / len(self))
        of_sums = measure_limits(self._frame, self._public, alpha)
        return self._with_columns(_ENDS, partial(count_limits, alpha=alpha), of_sums)

    def estimates(self) -> pl.DataFrame:
        """Add estimates of the bounded counts that correct for the threshold; this post-processing costs nothing.

        Keys with true counts near or below the threshold are published only if their noise is large, so their noisy
        counts are too large. The estimate is a weighted mean of all possible true counts. The weight of a true count
        is the probability that a key with this count is published with this noisy count.

        Returns:
            The frame with two more columns of Float64, in counts: `estimate`, at least 0 (1 in an open domain), and
            `estimate_error`, its root mean squared error under a uniform prior on counts.
        """
        from sparsehist.histogram.intervals import count_estimates

        return self._with_columns(("estimate", "estimate_error"), count_estimates, {})

    @property
    def _public(self) -> CellMetadata:
        return of_kind(read_metadata(self._metadata), CellMetadata)

    def _with_columns(
        self, names: tuple[str, ...], solve: Callable[..., Sequence[FloatArray]], further: Mapping[str, FloatArray]
    ) -> pl.DataFrame:
        """Return the frame with more columns: `names`, computed by `solve`, and the columns of the dict `further`."""
        public, frame = self._public, self._frame
        solved: Sequence[FloatArray] = [np.zeros(0) for _ in names]
        if not frame.is_empty():
            # An open domain publishes only keys that some unit touched, so true counts are at least 1.
            least, noisy = float(public.declaration.domain.is_open), frame["noisy_count"].to_numpy()
            law = (public.family, as_level(public.level), noisy, public.effective_threshold, public.grid)
            solved = solve(*law, least=least)
        columns = {**dict(zip(names, solved, strict=True)), **further}
        if taken := columns.keys() & set(frame.columns):
            raise InputError(
                f"a key column has the same name as a new column: rename the key column; the name is {min(taken)!r}"
            )
        return frame.with_columns(pl.Series(name, column) for name, column in columns.items())


class WorkloadRelease(AnyRelease):
    """A published release of a workload.

    Attributes:
        frame: One row per query, with noisy_answer and std in counts. The other columns describe the query: low and
            high, or the key columns (null where the query sums over all keys of the column), or only the query's
            index. For the workload of all ranges, the frame has one row per cell instead, with key and noisy_count,
            and `answer` adds up these counts.
        metadata: Public parameters; `std` is the root mean square over the answers.
    """

    @property
    def implicit(self) -> bool:
        """Whether `answer` computes answers on demand, because the frame does not have one row per query."""
        return "noisy_count" in self.frame.columns

    def answer(self, low: Any, high: Any) -> tuple[float, float]:
        """Return (noisy_answer, std), in counts, for the range of keys from `low` to `high`, both included.

        Keys are ordered as in the domain. Dates may be given as text such as '2024-01-31'.

        Raises:
            NotFoundError: If an end is not a key of the domain.
            DeclarationError: If the release has one row per query, or the range ends before it begins.
        """
        row = self.answers([low], [high]).row(0, named=True)
        return row["noisy_answer"], row["std"]

    def answers(self, lows: Any, highs: Any) -> pl.DataFrame:
        """Return a frame with low, high, noisy_answer and std, in counts, for many ranges; see `answer`."""
        if not self.implicit:
            raise DeclarationError(f"the release {self.name!r} has one row for each query: filter its frame instead")
        keys = self._frame[:, 0]
        first, last = (self._positions(ends) for ends in (lows, highs))
        if (first > last).any():
            raise DeclarationError("a range ends before it begins, in the order of the domain")
        prefix_sums = np.concatenate([[0.0], np.cumsum(self._frame["noisy_count"].to_numpy())])
        # The variance of a range is slow to compute, so repeated ranges are computed once.
        ends, which = np.unique(np.stack([first, last]), axis=1, return_inverse=True)
        std = np.sqrt(self._strategy.range_variances(*ends))[which] * self._public.noise_std
        sums = prefix_sums[last + 1] - prefix_sums[first]
        return pl.DataFrame({"low": keys[first], "high": keys[last], "noisy_answer": sums, "std": std})

    def quantiles(self, probabilities: Sequence[float], *, confidence: float = 0.95) -> pl.DataFrame:
        """Estimate quantiles of the key from prefix sums of counts; this post-processing costs nothing.

        The p-quantile is the first key whose prefix sum is at least p times the total. Each interval contains the
        true quantile of the bounded counts with probability at least `confidence`.

        Returns:
            q, value, low and high, one row for each probability; the last three are keys of the domain.

        Raises:
            DeclarationError: If the release has no prefix sums of all cells, or a probability or the confidence is
                not strictly between 0 and 1.

        Source: our own derivation (docs/mathematics.md, measures).
        """
        from scipy.special import ndtri

        frame, factor = self._frame, float(ndtri(0.5 + checked_confidence(confidence) / 2))
        if self.implicit:
            frame = self.answers(frame[:1, 0].new_from_index(0, len(self)), frame[:, 0])
        elif "low" in frame.columns:
            frame = frame.filter(pl.col("low") == pl.col("low").min()).unique("high").sort("high")
        if "low" not in frame.columns or frame.height != self._strategy.workload.n_cells:
            raise DeclarationError(
                "quantiles need the prefix sums of all cells of a series with a single key column: "
                "make a release with workload=sh.workload.Prefix()"
            )
        keys, prefix, std = frame["high"], frame["noisy_answer"].to_numpy(), frame["std"].to_numpy()
        shares = np.array([checked_confidence(each, "a probability") for each in probabilities])[:, np.newaxis]
        excess, margin = prefix - shares * prefix[-1], factor * (std + shares * std[-1])
        # Given the margins of error, `low` is the first key that can be the quantile, and `high` is the last.
        low = np.sum(~np.logical_or.accumulate(excess >= -margin, axis=1), axis=1).clip(max=len(keys) - 1)
        high = np.sum(np.logical_or.accumulate((excess < margin)[:, ::-1], axis=1), axis=1).clip(max=len(keys) - 1)
        value = np.searchsorted(np.maximum.accumulate(prefix), shares[:, 0] * prefix[-1]).clip(low, high)
        return pl.DataFrame({"q": shares[:, 0], "value": keys[value], "low": keys[low], "high": keys[high]})

    def _positions(self, keys: Any) -> IntArray:
        """Return the position of each key in the order of the domain."""
        ordered = self._frame[:, 0]
        requested = as_keys(keys, ordered.dtype).alias("key").to_frame()
        numbered = ordered.alias("key").to_frame().with_row_index("position")
        positions = requested.join(numbered, on="key", how="left", maintain_order="left")["position"]
        if positions.null_count():
            which = shown(requested[0, 0]) if len(requested) == 1 else "one of these"
            raise NotFoundError(f"{which} is not a key of the domain of {ordered.name!r}")
        return positions.to_numpy().astype(np.int64)

    @cached_property
    def _public(self) -> WorkloadMetadata:
        return of_kind(read_metadata(self._metadata), WorkloadMetadata)

    @cached_property
    def _strategy(self) -> Strategy:
        from sparsehist.workload import Workload, strategy_named

        return strategy_named(self._public.strategy, Workload.parse(self._public.workload))


def as_keys(
    keys: Any, dtype: pl.DataType, what: str = "this release", error: type[InputError] = NotFoundError
) -> pl.Series:
    """Return the caller's keys as a Polars series of the domain's type; dates may be text."""
    try:
        if dtype != pl.Date:
            return pl.Series(keys, dtype=dtype)
        days = pl.Series(keys)
        return days if days.dtype == pl.Date else days.str.to_date("%Y-%m-%d")
    except (TypeError, ValueError, pl.exceptions.PolarsError, OverflowError):
        kind = "dates such as '2026-01-31'" if dtype == pl.Date else f"of type {dtype}"
        raise_alone(error(f"the keys of {what} are {kind}"))


def read(path: str | os.PathLike[str]) -> Release | WorkloadRelease:
    """Read a release from a Parquet file, without its store. The file may be untrusted: no code that it names is run.

    Raises:
        NotFoundError: If there is no such file.
        InputError: If the path is a directory, or the file is not a release.
    """
    return release_of(*read_release(path))
