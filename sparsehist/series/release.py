"""A release: the rows that were published, and public metadata. Needs no store."""

from __future__ import annotations

import hashlib
import io
import json
import os
import secrets
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

import polars as pl

from sparsehist.errors import InputError, NotFoundError, StoreError, raise_alone
from sparsehist.store.private_files import sync_directory

_METADATA_KEY = "sparsehist"
_FORMAT = 1
_IDENTITY = ("store", "series", "name", "generation")


class Origin(Protocol):
    """The store a release came from, as far as a release knows it."""

    def announce(self, target: Path, metadata: Mapping[str, Any], digest: str) -> None:
        """Note in the public ledger beside `target` what is about to be written there."""


class Release:
    """What one round published.

    Attributes:
        frame: Key column(s) under their input names and noisy_count, in counts; sorted by noisy_count,
            largest first, then by key.
        metadata: Public parameters of the release: level, noise, std, threshold and so on.

    Example:
        >>> Release(pl.DataFrame({"url": ["/a"], "noisy_count": [12.5]}), {"name": "public"}).name
        'public'
    """

    __slots__ = ("_frame", "_metadata", "_origin")

    def __init__(self, frame: pl.DataFrame, metadata: Mapping[str, Any], *, origin: Origin | None = None) -> None:
        """Hold a frame and its metadata; `origin` is told where the release is published."""
        self._frame = frame
        self._metadata = MappingProxyType(dict(metadata))
        self._origin = origin

    @property
    def frame(self) -> pl.DataFrame:
        """The published rows."""
        return self._frame

    @property
    def metadata(self) -> Mapping[str, Any]:
        """Public parameters; read-only."""
        return self._metadata

    @property
    def name(self) -> str:
        """Name of the release."""
        return str(self._metadata["name"])

    def __len__(self) -> int:
        """Number of published rows."""
        return self._frame.height

    def __repr__(self) -> str:
        """Name, rows and the parameters one reads a count by."""
        telling = ("workload", "level", "std", "threshold", "expected_false_keys")
        shown = {key: self._metadata[key] for key in telling if self._metadata.get(key) is not None}
        return f"Release({self._metadata.get('series')}.{self._metadata.get('name')}, rows={len(self)}, {shown})"

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Hand the rows to anything that reads Arrow."""
        return self._frame.__arrow_c_stream__(requested_schema)

    def __getstate__(self) -> tuple[bytes, dict[str, Any]]:
        """Pickle the published rows and the metadata, nothing else."""
        return self._frame.serialize(), dict(self._metadata)

    def __setstate__(self, state: tuple[bytes, dict[str, Any]]) -> None:
        """Read a pickle back."""
        self._frame = pl.DataFrame.deserialize(state[0])
        self._metadata = MappingProxyType(state[1])
        self._origin = None

    def intervals(self, confidence: float = 0.95, *, simultaneous: bool = False) -> pl.DataFrame:
        """Confidence intervals for the true counts of the published rows.

        For every true count c: given that a key with that count was published, its interval holds c with
        probability `confidence` (at least that for integer noise, and where a limit would lie below 0). That it was
        published, because its noise was large enough, is taken into account; noisy_count plus or minus a
        multiple of std would be wrong for keys near and below the threshold. Probabilities are over the noise:
        for a value just above the threshold, nothing tells a true count near it from one far below, and such
        intervals reach down to 0. No statement holds given the value itself, without knowing how common which
        counts are.

        Only this release is used, and whatever else was released, the statement holds over all of its keys. It is
        none about keys picked by other releases, say those that appear here for the first time: their noise is not
        that of all. No store is needed.

        Args:
            confidence: Probability that an interval holds the true count; strictly between 0 and 1.
            simultaneous: Make it the probability that all intervals of this release hold theirs, given which keys
                were published: each gets confidence**(1/rows) (Šidák; noises of different keys are independent).

        Returns:
            The frame with two more columns, in counts: `low`, 0 where the limit would lie below (1 in an open
            domain), and `high`. Float64.

        Raises:
            DeclarationError: If the confidence is none.
            InputError: If a key column is called low or high.

        Example:
            >>> import sparsehist as sh
            >>> counts = sh.Counts(pl.DataFrame({"url": ["/a"], "count": [900]}))
            >>> series = sh.create(":memory:", counts, name="visits", key="url", max_keys=1,
            ...                    domain=sh.Strings(max_bytes=8), seed=1)
            >>> release = series.release("public", level=0.5, threshold=100)
            >>> [round(limit, 1) for limit in release.intervals().select("low", "high").row(0)]
            [897.9, 901.8]

        Source: our own derivation; see `sparsehist.histogram.intervals`.
        """
        from sparsehist.series.release_intervals import (
            frame_with_intervals,  # reading a release should not load the families
        )

        return frame_with_intervals(self._frame, self._metadata, confidence=confidence, simultaneous=simultaneous)

    def write_parquet(self, path: str | os.PathLike[str]) -> None:
        """Write rows and metadata as one Parquet file, whole or not at all, and note it in the public ledger.

        The ledger is the file sparsehist-ledger.json in the same directory; it lists what was published
        there, and a store that turns out older than its entries is refused.

        Args:
            path: The file; replaced only where it holds this same release.

        Raises:
            InputError: If something else stands there.
            StoreError: If it cannot be written; whatever stood there before is left.
        """
        target = Path(path)
        refuse_to_replace(target, self._metadata)
        text = json.dumps({"format": _FORMAT, **self._metadata}, sort_keys=True, ensure_ascii=False)
        content = io.BytesIO()
        self._frame.write_parquet(content, metadata={_METADATA_KEY: text})
        if self._origin is not None:
            self._origin.announce(target, self._metadata, hashlib.sha256(content.getbuffer()).hexdigest())
        temporary = target.with_name(f".{target.name}.{secrets.token_hex(6)}")
        try:
            with temporary.open("xb") as file:
                file.write(content.getbuffer())
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(target)
            sync_directory(target.parent)
        except OSError as problem:
            with suppress(OSError):
                temporary.unlink()
            raise StoreError(f"cannot write {target}: {problem.strerror or 'the write failed'}") from None


def refuse_to_replace(target: Path, metadata: Mapping[str, Any]) -> None:
    """Refuse a place where anything stands but the same release.

    Args:
        target: Where a release is to be written.
        metadata: What is known of that release: of its store, series, name and generation, as far as given.

    Raises:
        InputError: If a directory, a file of another kind or another release stands there.
    """
    if target.is_dir():
        raise InputError(f"{target} is a directory: name a file in it")
    if not os.path.lexists(target):
        return
    try:
        found = read(target).metadata
        same = all(found.get(field) == metadata[field] for field in _IDENTITY if field in metadata)
    except InputError:
        same = False
    if not same:
        raise InputError(f"{target} exists and is not this release: name another file, or move that one away first")


def read(path: str | os.PathLike[str]) -> Release:
    """Read a release that was written as Parquet; needs no store.

    Args:
        path: The file.

    Returns:
        The release: the same rows and metadata.

    Raises:
        NotFoundError: If there is no such file.
        InputError: If it is a directory, or not a release.
    """
    source = Path(path)
    if source.is_dir():
        raise InputError(f"{source} is a directory: name a file in it")
    if not source.is_file():
        raise NotFoundError(f"there is no file {source}")
    try:
        stored = pl.read_parquet_metadata(source)
        frame = pl.read_parquet(source, glob=False, hive_partitioning=False)
        metadata = json.loads(stored[_METADATA_KEY])
    except (pl.exceptions.PolarsError, OSError, KeyError, ValueError):
        raise_alone(InputError(f"{source} is not a release written by sparsehist, or it is damaged"))
    if metadata.pop("format", None) != _FORMAT:
        raise InputError(f"{source} was written by another version of sparsehist; upgrade to read it")
    if metadata.get("kind") == "workload":
        from sparsehist.series.workload_release import (
            WorkloadRelease,  # a release of its own kind, which needs this module
        )

        return WorkloadRelease(frame, metadata)
    return Release(frame, metadata)
