"""Read, compare and write declarations of stored series, with copies of their catalogues."""

from __future__ import annotations

import io
from pathlib import Path

from sparsehist.declaration import Declaration
from sparsehist.domain import Domain
from sparsehist.errors import NameTakenError, SeriesDiffersError
from sparsehist.store import SeriesRecord

_CATALOGUE = "catalogue-"


def declaration_of(record: SeriesRecord) -> Declaration:
    """Return the declaration of a stored series; its catalogues are read from their copies in the store."""
    names = [file.name for file in record.files if file.name.startswith(_CATALOGUE)]
    copies = {Path(name).stem.removeprefix(_CATALOGUE): record.directory / name for name in names}
    return Declaration.from_json(record.declaration, files=copies)


def check_equal_declaration(series: str, existing: Declaration, declared: Declaration, if_exists: str) -> None:
    """Raise an error if an existing series may not be reused, or if its declaration differs from the new one."""
    stored = existing.as_json()
    differing = [name for name in declared.differing(stored) if name != "name"]
    words = ", ".join(f"{name}={stored.get(name)!r}" for name in differing)
    if if_exists == "error":
        remedy = f", declared with {words}: use another name" if words else "; if_exists='reuse' returns it"
        raise NameTakenError(f"{series}{remedy}", parameter="name")
    if words:
        raise SeriesDiffersError(
            f"{series} with a different declaration: repeat that declaration or use another name; it was declared "
            f"with {words}"
        )


def catalogue_files(domain: Domain) -> dict[str, bytes]:
    """Return a dict from file name to content, for catalogues that are too long to be part of a domain's text."""
    content = {}
    for digest, catalogue in domain.attachments().items():
        copy = io.BytesIO()
        catalogue.write_parquet(copy)
        content[f"{_CATALOGUE}{digest}.parquet"] = copy.getvalue()
    return content
