"""Published releases: rows and public metadata. They work without their store."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from sparsehist.declaration.checks import checked_confidence, checked_whole
from sparsehist.errors import DeclarationError, InputError, NotFoundError, as_mapping, of_kind, printable
from sparsehist.html import ABOUT, html_table, in_notebook, shown
from sparsehist.privacy import as_level
from sparsehist.release.home import Home
from sparsehist.release.metadata import CellMetadata, Metadata, WorkloadMetadata, read_metadata
from sparsehist.release.parameter_rows import asked_text, release_rows
from sparsehist.release.release_files import (
    CSV,
    ENDINGS,
    PARQUET,
    StoreOnDisk,
    read_release,
    target_of,
    write_release,
)
from sparsehist.typing import FloatArray

if TYPE_CHECKING:
    from sparsehist.workload import Strategy

_ROWS_SHOWN, _MOST_DRAWN = 10, 10_000
_ENDS = ("low", "high")


def release_of(
    home: Home, publications: frozenset[Path], frame: pl.DataFrame, about: Metadata, *, repeated: bool = False
) -> Release | WorkloadRelease:
    """Return committed rows as a release; `publications` are directories where the store has published."""
    origin, metadata = None if home.in_memory else StoreOnDisk(home, publications), about.as_dict()
    return _kind_of(metadata)(frame, metadata, origin=origin, repeated=repeated)


def _kind_of(metadata: Mapping[str, Any]) -> type[Release | WorkloadRelease]:
    return WorkloadRelease if metadata.get("kind") == WorkloadMetadata.kind else Release


class AnyRelease:
    """A published release: rows and public metadata.

    Attributes:
        repeated: Whether the release existed before the call that returned it, so that nothing was drawn or spent.
            True for a release that was read from a file.
    """

    def __init__(
        self,
        frame: pl.DataFrame,
        metadata: Mapping[str, Any],
        *,
        origin: StoreOnDisk | None = None,
        repeated: bool = True,
    ) -> None:
        """Keep a frame and its metadata; `origin` is the store to be told about written files."""
        self.repeated, self._frame, self._origin = repeated, frame, origin
        self._metadata = as_mapping("metadata", metadata)

    @property
    def frame(self) -> pl.DataFrame:
        """The published rows."""
        return self._frame

    @property
    def metadata(self) -> dict[str, Any]:
        """Public parameters: a new dict of JSON values, with keys in a fixed order."""
        return dict(self._metadata)

    @property
    def name(self) -> str:
        """Name of the release."""
        return str(self._metadata["name"])

    @property
    def level(self) -> Fraction:
        """Level, exact."""
        return as_level(self._metadata["level"])

    def __len__(self) -> int:
        """Number of published rows."""
        return self._frame.height

    def __repr__(self) -> str:
        """Show name, rows and the parameters needed to interpret a count."""
        telling = ("workload", "level", "std", "threshold", "expected_false_keys")
        told = {key: self._metadata[key] for key in telling if self._metadata.get(key) is not None}
        if self._metadata.get("epsilon_delta") is not None:
            told["level"] = asked_text(read_metadata(self._metadata))
        name = printable(f"{self._metadata.get('series')}.{self._metadata.get('name')}")
        return f"{type(self).__name__}({name}, rows={len(self)}, {told})"

    def _repr_html_(self) -> str:
        """Show parameters and first rows in a notebook."""
        return in_notebook(self, self._tables)

    def _tables(self) -> Iterator[str]:
        about, frame = read_metadata(self._metadata), self._frame.head(_ROWS_SHOWN)
        yield html_table(f"Release {about.name} of {about.series}", ABOUT, release_rows(about))
        rows = [tuple(map(shown, row)) for row in frame.iter_rows()]
        numbers = sum(dtype.is_numeric() for dtype in frame.dtypes[len(about.declaration.key) :])
        yield html_table(f"The first {len(rows)} of {len(self):,} rows", frame.columns, rows, numbers)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Export the rows to any library that reads Arrow."""
        return self._frame.__arrow_c_stream__(requested_schema)

    def __getstate__(self) -> tuple[bytes, dict[str, Any]]:
        """Pickle the published rows and the metadata only."""
        return self._frame.serialize(), dict(self._metadata)

    def __setstate__(self, state: tuple[bytes, dict[str, Any]]) -> None:
        """Restore a pickled release."""
        AnyRelease.__init__(self, pl.DataFrame.deserialize(state[0]), state[1])

    def plot(self, *, most: int = 20, confidence: float = 0.95) -> Any:
        """Draw the largest rows with their intervals; for a workload, one standard deviation to each side.

        Args:
            most: Rows to draw.
            confidence: Confidence of each interval, as for `intervals`; not used for a workload.

        Returns:
            An altair chart. Keys are escaped.

        Raises:
            DeclarationError: If `most` or the confidence is out of bounds.
            NotFoundError: If altair is not installed; names the extra `plots`.
        """
        from sparsehist.release.plots import plot_largest

        checked_whole("most", most, 1, _MOST_DRAWN)
        rows, about = self._with_limits(most, confidence)
        return plot_largest(rows, about, f"The largest rows of {self.name}")

    def _with_limits(self, most: int, confidence: float) -> tuple[pl.DataFrame, str]:
        """Return the largest rows as low, value, high beside their keys, and what these numbers are."""
        raise NotImplementedError

    def write_parquet(self, path: str | os.PathLike[str]) -> None:
        """Write rows and metadata as one Parquet file, whole or not at all, and note it in the public ledger.

        The ledger is the file sparsehist-ledger.json in the same directory. It lists what was published there; a
        store that is older than its entries is refused.

        Args:
            path: The file, which ends in .parquet or .pq; replaced only where it holds this same release.

        Raises:
            InputError: If another file exists there, or the name has another ending.
            StoreError: If it cannot be written; an existing file is left as it was.
        """
        write_release(target_of(path, PARQUET), self._frame, self._metadata, self._origin)

    def write_csv(self, path: str | os.PathLike[str], *, spreadsheet_safe: bool = True) -> None:
        r"""Write the rows as CSV, without metadata, whole or not at all, and note it in the public ledger.

        A spreadsheet runs a text such as `=cmd` as a formula. So an apostrophe is written before every text that
        begins with one of = + - @, a tab, a line break or an apostrophe. Control characters other than tabs and line
        feeds become `\x1b` and the like, and a backslash becomes two. Both can be undone. Numbers stay as they are.

        Args:
            path: The file, which ends in .csv; replaced only where it holds the same bytes.
            spreadsheet_safe: False writes every text as it is, for programs.

        Raises:
            SparsehistError: As for `write_parquet`.
        """
        target = target_of(path, CSV)
        write_release(target, self._frame, self._metadata, self._origin, spreadsheet_safe=spreadsheet_safe)

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the release in the format that the file's ending names, completely or not at all.

        Args:
            path: Ends in .parquet or .pq (`write_parquet`), .csv (`write_csv`), .json (an object with the fields
                "metadata" and "rows", a list of one object a row) or .arrow (Arrow IPC, metadata in its schema).
        """
        write_release(target_of(path, ENDINGS), self._frame, self._metadata, self._origin)


class Release(AnyRelease):
    """A published release of cells.

    Attributes:
        frame: Key column(s) under their input names and noisy_count, in counts; sorted by noisy_count,
            largest first, then by key.
        metadata: Public parameters of the release: level, noise, std, threshold, declaration and so on.

    Example:
        >>> Release(pl.DataFrame({"url": ["/a"], "noisy_count": [12.5]}), {"name": "public"}).name
        'public'
    """

    @property
    def threshold(self) -> float | None:
        """Threshold as it was chosen, in counts; None if everything is published."""
        return None if self._metadata["threshold"] is None else float(self._metadata["threshold"])

    def intervals(self, confidence: float = 0.95, *, simultaneous: bool = False) -> pl.DataFrame:
        """Confidence intervals for the bounded counts of the published rows.

        For every true count c: given that a key with count c was published, its interval contains c with at least the
        probability `confidence`. (The noisy count plus or minus a multiple of std would be wrong near the threshold,
        where keys are published because their noise is large.) This does not hold for keys selected by their noisy
        count, or by other releases.

        Args:
            confidence: Probability that an interval holds the true count; strictly between 0 and 1.
            simultaneous: Make `confidence` the probability that all intervals of this release contain their true
                counts, given which keys were published: each gets confidence**(1/rows) (Šidák).

        Returns:
            The frame with two more columns of Float64, in counts: `low`, at least 0 (1 in an open domain), and
            `high`. For a measure also `price_sum_low` and `price_sum_high`, for clipped sums of bounded pairs; with
            events `price_mean_low` and `price_mean_high` (Fieller), infinite if the number of events may be 0. With
            `simultaneous`, the confidence holds for each kind of column separately.

        Raises:
            DeclarationError: If the confidence does not lie strictly between 0 and 1.
            InputError: If a key column is named low or high.

        Example:
            >>> import sparsehist as sh
            >>> counts = sh.Counts(pl.DataFrame({"url": ["/a"], "count": [900]}), largest=1)
            >>> series = sh.create(sh.open(":memory:", seed=1), counts, name="visits", key="url", max_keys=1,
            ...                    domain=sh.Strings(max_bytes=8))
            >>> release = series.release("public", level=0.5, threshold=100)
            >>> [round(limit, 1) for limit in release.intervals().select("low", "high").row(0)]
            [897.3, 901.2]

        Source: our own derivation; see `sparsehist.histogram.intervals`.
        """
        from sparsehist.histogram.intervals import count_limits  # slow import, not needed to read a release
        from sparsehist.release.measure_parameters import measure_limits

        alpha = 1 - checked_confidence(confidence)
        if simultaneous and len(self):
            alpha = -math.expm1(math.log(confidence) / len(self))
        of_sums = measure_limits(self._frame, of_kind(read_metadata(self._metadata), CellMetadata), alpha)
        return self._with_columns(_ENDS, partial(count_limits, alpha=alpha), of_sums)

    def estimates(self) -> pl.DataFrame:
        """Best estimates of the bounded counts, given that the rows were published: post-processing, at no cost.

        Near the threshold and below it, only keys with large noise are published, so their noisy counts are too
        large. The estimate weighs every true count by its likelihood of being published as this value. Its error is
        smaller than that of noisy_count for counts a standard deviation or more below the threshold, larger just
        above it, and equal far above.

        Returns:
            The frame with two more columns of Float64, in counts: `estimate`, at least 0 (1 in an open domain), and
            `estimate_error`, its root mean squared error under a uniform prior on counts.

        Raises:
            InputError: If a key column is named estimate or estimate_error.

        Source: our own derivation; see `sparsehist.histogram.intervals`.
        """
        from sparsehist.histogram.intervals import count_estimates

        return self._with_columns(("estimate", "estimate_error"), count_estimates)

    def _with_limits(self, most: int, confidence: float) -> tuple[pl.DataFrame, str]:
        found = self.intervals(confidence).head(most).rename({"noisy_count": "value"})
        return found, f"units, with {100 * confidence:g} % intervals"

    def _with_columns(
        self,
        names: tuple[str, ...],
        law: Callable[..., Sequence[FloatArray]],
        further: Mapping[str, FloatArray] | None = None,
    ) -> pl.DataFrame:
        """Add columns computed from the law of the published counts, and further ones."""
        about, frame = of_kind(read_metadata(self._metadata), CellMetadata), self._frame
        given: Sequence[FloatArray] = [np.zeros(0) for _ in names]
        if not frame.is_empty():
            given = law(
                about.family,
                as_level(about.level),
                frame["noisy_count"].to_numpy(),
                about.effective_threshold,
                about.grid,
                # A published key of an open domain has at least one unit.
                least=1.0 if about.declaration.domain.is_open else 0.0,
            )
        columns = dict(zip(names, given, strict=True)) | dict(further or {})
        for name in columns:
            if name in frame.columns:
                raise InputError(f"a key column is called {name!r}, as a column to be added: rename it in the log")
        return frame.with_columns(pl.Series(name, column) for name, column in columns.items())


class WorkloadRelease(AnyRelease):
    """A published release of a workload.

    Attributes:
        frame: One row per query: low and high, or the key columns (null if the query sums over it), or the number of
            the query; then noisy_answer and std, in counts. If queries are not listed (all ranges): one row per cell
            of the domain, in its order: key column and noisy_count; `answer` and `answers` sum these.
        metadata: Public parameters; `std` is the root mean square over the answers.
    """

    @property
    def implicit(self) -> bool:
        """Whether queries are answered on demand instead of listed."""
        return "noisy_count" in self.frame.columns

    def answer(self, low: Any, high: Any) -> tuple[float, float]:
        """Return the number of units in a range of keys, both ends included.

        Args:
            low: First key of the range, in the domain's order; a date may be text such as '2024-01-31'.
            high: Last key of the range.

        Returns:
            (noisy_answer, std), in counts.

        Raises:
            NotFoundError: If the workload does not contain the range, or an end is not a key of the domain.
            DeclarationError: If the release has no ranges, or the range ends before it begins.
        """
        row = self.answers([low], [high]).row(0, named=True)
        return row["noisy_answer"], row["std"]

    def answers(self, lows: Any, highs: Any) -> pl.DataFrame:
        """Return the number of units in many ranges of keys: `answer` for each pair of ends, of shape (m,).

        Returns:
            low, high, noisy_answer and std, in counts; m rows.
        """
        from sparsehist.release.workload_answers import as_keys, positions

        if self.implicit:
            keys = self.frame[self._about.declaration.key[0]]
            first, last = (positions(keys, ends) for ends in (lows, highs))
            if (first > last).any():
                raise DeclarationError("a range ends before it begins, in the order of the domain")
            sums = self._prefix_sums[last + 1] - self._prefix_sums[first]
            # Each range costs a transform of the whole column, so repeated ranges are computed once.
            ends, which = np.unique(np.stack([first, last]), axis=1, return_inverse=True)
            std = np.sqrt(self._strategy.range_variances(*ends))[which] * self._about.noise_std
            asked = {"low": keys.gather(first), "high": keys.gather(last)}
            return pl.DataFrame({**asked, "noisy_answer": sums, "std": std})
        if not set(_ENDS) <= set(self.frame.columns):
            raise DeclarationError(f"the release {self.name!r} has no ranges: filter its frame instead")
        given = [as_keys(keys, self.frame[end].dtype) for end, keys in zip(_ENDS, (lows, highs), strict=True)]
        if len(given[0]) != len(given[1]):
            raise DeclarationError("lows and highs need one entry for each range")
        wanted = pl.DataFrame(dict(zip(_ENDS, given, strict=True)))
        found = wanted.join(self.frame.unique(_ENDS), on=_ENDS, how="left", maintain_order="left")
        if found["noisy_answer"].null_count():
            raise NotFoundError(f"the workload {self._about.workload} does not list one of these ranges")
        return found

    def quantiles(self, probabilities: Sequence[float], *, confidence: float = 0.95) -> pl.DataFrame:
        """Estimate quantiles of the key over all units from prefix sums: post-processing, at no cost.

        The p-quantile is the first key up to which at least a share p of all units lies. An interval contains the
        keys that the noisy prefix sums do not contradict; it contains the quantile of bounded counts with at least
        this confidence.

        Args:
            probabilities: Strictly between 0 and 1.
            confidence: Confidence of each interval.

        Returns:
            q, value, low and high, one row for each probability; the last three are keys of the domain.

        Raises:
            DeclarationError: If the release has no prefix sums of all cells, or a probability is out of range.

        Source: our own derivation; docs/mathematics.md, measures.
        """
        from sparsehist.release.workload_answers import quantiles

        return quantiles(self, probabilities, checked_confidence(confidence))

    def _with_limits(self, most: int, confidence: float) -> tuple[pl.DataFrame, str]:
        del confidence
        rows = self.frame
        if self.implicit:
            rows = rows.sort("noisy_count", descending=True).head(most)
            rows = self.answers(rows[:, 0], rows[:, 0]).drop("high").rename({"low": "key"})
        found = rows.sort("noisy_answer", descending=True).head(most).rename({"noisy_answer": "value"})
        found = found.rename({name: f"from_{name}" for name in found.columns if name in _ENDS})
        found = found.with_columns(low=pl.col("value") - pl.col("std"), high=pl.col("value") + pl.col("std"))
        return found.drop("std"), "units, with one standard deviation to each side"

    @cached_property
    def _about(self) -> WorkloadMetadata:
        return of_kind(read_metadata(self._metadata), WorkloadMetadata)

    @cached_property
    def _prefix_sums(self) -> FloatArray:
        return np.concatenate([[0.0], np.cumsum(self.frame["noisy_count"].to_numpy())])

    @cached_property
    def _strategy(self) -> Strategy:
        from sparsehist.workload import Workload, strategy_named

        return strategy_named(self._about.strategy, Workload.parse(self._about.workload))


def read(path: str | os.PathLike[str]) -> Release | WorkloadRelease:
    """Read a release from Parquet, without its store; import nothing that the file names.

    Args:
        path: The file.

    Returns:
        The release: the same rows and metadata.

    Raises:
        NotFoundError: If there is no such file.
        InputError: If it is a directory or not a release.
    """
    frame, metadata = read_release(path)
    return _kind_of(metadata)(frame, metadata)
