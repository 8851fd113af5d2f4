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
from sparsehist.store import RegisteredFile, SeriesRecord, write_file

if TYPE_CHECKING:
    from sparsehist.counting.contract import Bounding

_CATALOGUE, _BOUNDING = "catalogue-", "bounding"


def declaration_of(record: SeriesRecord) -> Declaration:
    """Return the declaration of a stored series, with the copies of its catalogues."""
    names = [file.name for file in record.files if file.name.startswith(_CATALOGUE)]
    copies = {Path(name).stem.removeprefix(_CATALOGUE): record.directory / name for name in names}
    return Declaration.from_json(record.declaration, files=copies)


def check_alike(
    what: str, known: Declaration, declared: Declaration, if_exists: str, *, remedy: str = "use another name"
) -> None:
    """Refuse a taken name, unless it may be reused and the declarations are equal; `what` begins the error."""
    stored = known.as_json()
    differing = [name for name in declared.differing(stored) if name != "name"]
    made = ", ".join(f"{name}={stored.get(name)!r}" for name in differing)
    if if_exists == "error":
        told = f", declared with {made}: use another name" if made else "; if_exists='reuse' returns it"
        raise NameTakenError(f"{what}{told}", parameter="name")
    if made:
        raise SeriesDiffersError(f"{what}, and its declaration differs: it was made with {made}; {remedy}")


def write_catalogues(directory: Path, domain: Domain, *, durable: bool) -> list[RegisteredFile]:
    """Write a copy of every catalogue that is too long for the text of the domain."""
    written = []
    for digest, catalogue in domain.attachments().items():
        copy = io.BytesIO()
        catalogue.write_parquet(copy)
        written.append(write_file(directory / f"{_CATALOGUE}{digest}.parquet", copy.getbuffer(), durable=durable))
    return written


def write_bounding(directory: Path, met: Bounding | None, *, durable: bool) -> list[RegisteredFile]:
    """Write the statistics of bounding, if known, for the curator's report. Secret."""
    if met is None:
        return []
    return [write_file(directory / _BOUNDING, json.dumps(asdict(met)).encode(), durable=durable)]


def read_bounding(record: SeriesRecord) -> dict[str, int]:
    """Read the result of `write_bounding`, as a dict; empty if there is none. Secret."""
    if all(file.name != _BOUNDING for file in record.files):
        return {}
    found: dict[str, int] = json.loads((record.directory / _BOUNDING).read_bytes())
    return found
