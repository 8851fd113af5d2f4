"""Read, compare and write stored declarations, with copies of their catalogues."""

from __future__ import annotations

import io
import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from sparsehist.declaration import Declaration
from sparsehist.domain import Domain
from sparsehist.errors import NameTakenError, SeriesDiffersError
from sparsehist.store import SeriesRecord

if TYPE_CHECKING:
    from sparsehist.counting.contract import Bounding

_CATALOGUE, _BOUNDING = "catalogue-", "bounding"


def declaration_of(record: SeriesRecord) -> Declaration:
    """Return the declaration of a stored series, with the copies of its catalogues."""
    names = [file.name for file in record.files if file.name.startswith(_CATALOGUE)]
    copies = {Path(name).stem.removeprefix(_CATALOGUE): record.directory / name for name in names}
    return Declaration.from_json(record.declaration, files=copies)


def check_alike(series: str, known: Declaration, declared: Declaration, if_exists: str) -> None:
    """Refuse a taken name, unless it may be reused and the declarations are equal; `series` begins the error."""
    stored = known.as_json()
    differing = [name for name in declared.differing(stored) if name != "name"]
    made = ", ".join(f"{name}={stored.get(name)!r}" for name in differing)
    if if_exists == "error":
        remedy = f", declared with {made}: use another name" if made else "; if_exists='reuse' returns it"
        raise NameTakenError(f"{series}{remedy}", parameter="name")
    if made:
        raise SeriesDiffersError(
            f"{series}, and its declaration differs: it was made with {made}; declare the same or use another name"
        )


def files_beside_counts(domain: Domain, met: Bounding | None = None) -> dict[str, bytes]:
    """Return the content of further files: catalogues too long for the domain's text, and statistics of bounding.

    The statistics are secret, for the curator's report.
    """
    content = {} if met is None else {_BOUNDING: json.dumps(asdict(met)).encode()}
    for digest, catalogue in domain.attachments().items():
        copy = io.BytesIO()
        catalogue.write_parquet(copy)
        content[f"{_CATALOGUE}{digest}.parquet"] = copy.getvalue()
    return content


def read_bounding(record: SeriesRecord) -> dict[str, int]:
    """Read the statistics of bounding, as a dict; empty if there are none. Secret."""
    if all(file.name != _BOUNDING for file in record.files):
        return {}
    return dict(json.loads((record.directory / _BOUNDING).read_bytes()))
