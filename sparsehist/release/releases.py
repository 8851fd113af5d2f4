"""Published releases: rows and public metadata. Needs no store."""

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
    from sparsehist.domain import Domain
    from sparsehist.workload import Strategy

_ROWS_SHOWN, _MOST_DRAWN = 10, 10_000
_ENDS = ("low", "high")


def release_of(
    home: Home, publications: frozenset[Path], frame: pl.DataFrame, about: Metadata, *, repeated: bool = False
) -> Release | WorkloadRelease:
    """Return the release of committed rows; `publications` are the directories where its store published before."""
    origin, metadata = None if home.in_memory else StoreOnDisk(home, publications), about.as_dict()
    return _kind_of(metadata)(frame, metadata, origin=origin, repeated=repeated)


def _kind_of(metadata: Mapping[str, Any]) -> type[Release | WorkloadRelease]:
    return WorkloadRelease if metadata.get("kind") == WorkloadMetadata.kind else Release


class AnyRelease:
    """What one round published: rows and public parameters.

    Attributes:
        repeated: Whether the release existed before the call that gave it: then nothing was drawn or spent. True for
            a release that was read from a file.
    """

    def __init__(
        self,
        frame: pl.DataFrame,
        metadata: Mapping[str, Any],
        *,
        origin: StoreOnDisk | None = None,
        repeated: bool = True,
    ) -> None:
        """Hold a frame and its metadata; `origin` is told where the release is published."""
        self.repeated, self._frame, self._origin = repeated, frame, origin
        self._metadata = as_mapping("metadata", metadata)

    @property
    def frame(self) -> pl.DataFrame:
        """The published rows."""
        return self._frame

    @property
    def metadata(self) -> dict[str, Any]:
        """Public parameters: a dict of your own, with values that JSON has and keys in a fixed order."""
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
        """Name, rows and the parameters one reads a count by."""
        telling = ("workload", "level", "std", "threshold", "expected_false_keys")
        told = {key: self._metadata[key] for key in telling if self._metadata.get(key) is not None}
        if self._metadata.get("epsilon_delta") is not None:
            told["level"] = asked_text(read_metadata(self._metadata))
        name = printable(f"{self._metadata.get('series')}.{self._metadata.get('name')}")
        return f"{type(self).__name__}({name}, rows={len(self)}, {told})"

    def _repr_html_(self) -> str:
        """What a notebook shows: its parameters and first rows."""
        return in_notebook(self, self._tables)

    def _tables(self) -> Iterator[str]:
        about, frame = read_metadata(self._metadata), self._frame.head(_ROWS_SHOWN)
        yield html_table(f"Release {about.name} of {about.series}", ABOUT, release_rows(about))
        rows = [tuple(map(shown, row)) for row in frame.iter_rows()]
        numbers = sum(dtype.is_numeric() for dtype in frame.dtypes[len(about.declaration.key) :])
        yield html_table(f"The first {len(rows)} of {len(self):,} rows", frame.columns, rows, numbers)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Hand the rows to anything that reads Arrow."""
        return self._frame.__arrow_c_stream__(requested_schema)

    def __getstate__(self) -> tuple[bytes, dict[str, Any]]:
        """Pickle the published rows and the metadata, nothing else."""
        return self._frame.serialize(), dict(self._metadata)

    def __setstate__(self, state: tuple[bytes, dict[str, Any]]) -> None:
        """Read a pickle back."""
        AnyRelease.__init__(self, pl.DataFrame.deserialize(state[0]), state[1])

    def plot(self, *, most: int = 20, confidence: float = 0.95) -> Any:
        """Draw the largest rows with their intervals; of a workload with one standard deviation to each side.

        Args:
            most: Rows to draw.
            confidence: Of each interval, as for `intervals`; a workload has none.

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

        The ledger is the file sparsehist-ledger.json in the same directory; it lists what was published
        there, and a store that turns out older than its entries is refused.

        Args:
            path: The file, which ends in .parquet or .pq; replaced only where it holds this same release.

        Raises:
            InputError: If something else stands there, or its name ends otherwise.
            StoreError: If it cannot be written; whatever stood there before is left.
        """
        write_release(target_of(path, PARQUET), self._frame, self._metadata, self._origin)

    def write_csv(self, path: str | os.PathLike[str], *, spreadsheet_safe: bool = True) -> None:
        r"""Write the rows as CSV, without metadata, whole or not at all, and note it in the public ledger.

        A spreadsheet runs a text such as `=cmd` as a formula, so an apostrophe is written before every text that
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
        """Write the release in the format that the file's name says, whole or not at all.

        Args:
            path: Ends in .parquet or .pq (`write_parquet`), .csv (`write_csv`), .json (an object with the fields
                "metadata" and "rows", a list of one object a row) or .arrow (Arrow IPC, metadata in its schema).
        """
        write_release(target_of(path, ENDINGS), self._frame, self._metadata, self._origin)


class Release(AnyRelease):
    """What one round of cells published.

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
        """Threshold as it was chosen, in counts; None where everything is published."""
        return None if self._metadata["threshold"] is None else float(self._metadata["threshold"])

    def intervals(self, confidence: float = 0.95, *, simultaneous: bool = False) -> pl.DataFrame:
        """Confidence intervals for the bounded counts of the published rows.

        For every true count c: given that a key with that count was published, its interval holds c with at least
        the probability `confidence`. The noisy count plus or minus a multiple of std would be wrong near the
        threshold, where keys are published because their noise is large. It does not hold given the value itself, or
        over keys picked by other releases.

        Args:
            confidence: Probability that an interval holds the true count; strictly between 0 and 1.
            simultaneous: Make it the probability that all intervals of this release hold theirs, given which keys
                were published: each gets confidence**(1/rows) (Šidák).

        Returns:
            The frame with two more columns of Float64, in counts: `low`, at least 0 (1 in an open domain), and
            `high`. Of a measure also `price_sum_low` and `price_sum_high`, for clipped sums of bounded pairs; with
            events `price_mean_low` and `price_mean_high` (Fieller), infinite where the number of events may be 0.
            With `simultaneous` each kind of column holds on its own.

        Raises:
            DeclarationError: If the confidence does not lie strictly between 0 and 1.
            InputError: If a key column is called low or high.

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
        from sparsehist.histogram.intervals import count_limits  # reading a release should not import the families
        from sparsehist.release.measure_parameters import measure_limits

        alpha = 1 - checked_confidence(confidence)
        if simultaneous and len(self):
            alpha = -math.expm1(math.log(confidence) / len(self))
        of_sums = measure_limits(self._frame, of_kind(read_metadata(self._metadata), CellMetadata), alpha)
        return self._with_columns(_ENDS, partial(count_limits, alpha=alpha), of_sums)

    def estimates(self) -> pl.DataFrame:
        """Best estimates of the bounded counts, given that the rows were published: post-processing, at no cost.

        Near the threshold and below it only keys with large noise are published, so their noisy counts are too
        large. The estimate weighs every count by how likely it is to be published as this value: better than
        noisy_count a standard deviation or more below the threshold, worse just above it, and the same far above.

        Returns:
            The frame with two more columns of Float64, in counts: `estimate`, at least 0 (1 in an open domain), and
            `estimate_error`, its root mean squared error under a uniform prior on counts.

        Raises:
            InputError: If a key column has the name of one of them.

        Source: our own derivation; see `sparsehist.histogram.intervals`.
        """
        from sparsehist.histogram.intervals import count_estimates

        return self._with_columns(("estimate", "estimate_error"), count_estimates)

    def consistent(self, *workloads: WorkloadRelease, domain: Domain | None = None) -> list[pl.DataFrame]:
        """Make this release of cells and releases of workloads of the same series agree: post-processing, at no cost.

        Each is weighted by the inverse of its squared error: that of `estimates`, and the covariance of the noise of
        workloads. All frames then follow from one vector of counts. A cell that was *not* published is not taken for
        0. Counts near the threshold may be biased as `estimates` are.

        Args:
            workloads: At least one, of the same series; of each workload and strategy one release, the finest.
            domain: That of the series; needed where the metadata holds only a digest of a long catalogue.

        Returns:
            The frame of each release, this one first, with two more columns of Float64, in counts: `consistent`,
            which may be negative, and `consistent_error`, its standard deviation.

        Raises:
            InputError: If the releases are not of one series, or a key column has the name of one to be added.
            DeclarationError: If there are more than 2,048 cells or queries or two releases of one workload, or if the
                domain cannot be told from the metadata.
        """
        from sparsehist.release.consistency import consistent

        return consistent(self, workloads, domain)

    def _with_limits(self, most: int, confidence: float) -> tuple[pl.DataFrame, str]:
        found = self.intervals(confidence).head(most).rename({"noisy_count": "value"})
        return found, f"units, with {100 * confidence:g} % intervals"

    def _with_columns(
        self,
        names: tuple[str, ...],
        law: Callable[..., Sequence[FloatArray]],
        further: Mapping[str, FloatArray] | None = None,
    ) -> pl.DataFrame:
        """Add columns that the law of the published counts gives, and further ones."""
        about, frame = of_kind(read_metadata(self._metadata), CellMetadata), self._frame
        given: Sequence[FloatArray] = [np.zeros(0) for _ in names]
        if not frame.is_empty():
            given = law(
                about.family,
                as_level(about.level),
                frame["noisy_count"].to_numpy(),
                about.effective_threshold,
                about.grid,
                # A key of an open domain is published only if somebody touched it.
                least=1.0 if about.declaration.domain.is_open else 0.0,
            )
        columns = dict(zip(names, given, strict=True)) | dict(further or {})
        for name in columns:
            if name in frame.columns:
                raise InputError(f"a key column is called {name!r}, as a column to be added: rename it in the log")
        return frame.with_columns(pl.Series(name, column) for name, column in columns.items())


class WorkloadRelease(AnyRelease):
    """What one round of a workload published.

    Attributes:
        frame: One row per query: low and high, or the key columns (null where the query sums over one), or the number
            of the query; then noisy_answer and std, in counts. Of a workload that is not listed (all ranges) one row
            per cell of the domain, in its order: key column and noisy_count; `answer` and `answers` add these up.
        metadata: Public parameters; `std` is the root mean square over the answers.
    """

    @property
    def implicit(self) -> bool:
        """Whether the queries are not listed, but answered on demand."""
        return "noisy_count" in self.frame.columns

    def answer(self, low: Any, high: Any) -> tuple[float, float]:
        """Return the number of units in a range of keys, both ends included.

        Args:
            low: First key of the range, in the domain's order; a date may be text such as '2024-01-31'.
            high: Last key of the range.

        Returns:
            (noisy_answer, std), in counts.

        Raises:
            NotFoundError: If the range was not asked, or an end is no key of the domain.
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
            # Each range costs a transform of the whole column, and callers may repeat ranges.
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
        """Quantiles of the key over all units, from prefix sums of its cells: post-processing, at no cost.

        The quantile of p is the first key up to which a share p of all units lies. An interval holds those keys at
        which noisy prefix sums do not contradict it: each at least with that confidence, for bounded counts.

        Args:
            probabilities: Strictly between 0 and 1.
            confidence: Of each interval.

        Returns:
            q, value, low and high, one row for each probability; the last three are keys of the domain.

        Raises:
            DeclarationError: If the release has no prefix sums of all cells, or a probability is none.

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
    """Read a release that was written as Parquet; needs no store, and imports nothing that the file names.

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
