"""Copies of catalogues too long for a line of text, kept with the series that they are the domain of."""

from __future__ import annotations

import io
from pathlib import Path

from sparsehist.domain import Domain
from sparsehist.store import RegisteredFile, SeriesRecord, write_file

_PREFIX, _SUFFIX = "catalogue-", ".parquet"


def write_catalogues(directory: Path, domain: Domain, *, durable: bool) -> list[RegisteredFile]:
    """Write a copy of every catalogue whose values the domain's text leaves out."""
    written = []
    for digest, catalogue in domain.attachments().items():
        copy = io.BytesIO()
        catalogue.write_copy(copy)
        written.append(write_file(directory / f"{_PREFIX}{digest}{_SUFFIX}", copy.getbuffer(), durable=durable))
    return written


def catalogue_copies(record: SeriesRecord) -> dict[str, Path]:
    """The copies kept with a series, by digest, for `Domain.parse`."""
    names = [file.name for file in record.files if file.name.startswith(_PREFIX)]
    return {name.removeprefix(_PREFIX).removesuffix(_SUFFIX): record.directory / name for name in names}
