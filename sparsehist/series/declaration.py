"""What is fixed when a series is created: public parameters, checked before the log is touched."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

from sparsehist.domain import Domain, Product
from sparsehist.errors import DeclarationError, DomainError, LevelError
from sparsehist.ledger.arguments import checked_choice, checked_name
from sparsehist.noise import Family
from sparsehist.privacy import Level, as_level, level_text
from sparsehist.series.own_noise import NoiseChoice, checked_noise, load_family
from sparsehist.store import RegisteredFile, SeriesRecord, write_file

_LARGEST_BOUND = 2**31
_CATALOGUE = "catalogue-"
CHECKED_QUERY = "checked query"
UNCHECKED_SOURCE = "unchecked source"
_RESTS_ON = {
    CHECKED_QUERY: "rests on a checked query: each unit's rows depend on that unit and on public tables alone",
    UNCHECKED_SOURCE: "rests on an unchecked source: that each unit's rows depend on that unit alone is on trust",
}


@dataclass(frozen=True)
class Declaration:
    """The public parameters of a series; equal declarations stand for the same series.

    Attributes:
        name: Of the series.
        unit: Column that holds the privacy unit, or several that do together; None for counts bounded elsewhere.
        key: Key columns, in the order of the domain's.
        max_keys: Distinct keys a unit may touch.
        domain: All keys that could occur.
        noise: Name of the family.
        cap: Bound on the sum of the levels of the series' paths; None for no bound.
        population: Whose costs add up.
        on_null: "error" or "drop", for rows without a unit or a key.
        on_outside: "error" or "drop", for keys outside the domain.
        unverified: Whether the query of the log was declared to go unchecked (SQL's `unverified = true`).
        source: "checked query" where the query of the log was found to keep units apart; "unchecked source" where it
            was declared to go unchecked, or rows came of which nobody can say what made them (a frame, a relation, an
            Arrow stream, counts); empty for files. No part of what makes two declarations equal.
    """

    name: str
    unit: str | tuple[str, ...] | None
    key: tuple[str, ...]
    max_keys: int
    domain: Domain
    noise: str
    cap: Fraction | None
    population: str
    on_null: str
    on_outside: str
    unverified: bool = False
    source: str = field(default="", compare=False)

    @property
    def cap_text(self) -> str | None:
        """The cap as exact text."""
        return None if self.cap is None else level_text(self.cap)

    @property
    def unit_text(self) -> str | None:
        """The unit for people: `user_id`, or `(date, ip_id)`."""
        return f"({', '.join(self.unit)})" if isinstance(self.unit, tuple) else self.unit

    @property
    def rests_on(self) -> str:
        """What the guarantee of each release rests on besides the noise, in words; empty for files."""
        return _RESTS_ON.get(self.source, "")

    @property
    def family(self) -> Family:
        """The noise, with the sensitivity that max_keys implies."""
        return load_family(self.noise, self.max_keys)

    def as_json(self) -> dict[str, Any]:
        """The declaration as it is stored."""
        return {
            "unit": list(self.unit) if isinstance(self.unit, tuple) else self.unit,
            "key": list(self.key),
            "max_keys": self.max_keys,
            "domain": str(self.domain),
            "noise": self.noise,
            "cap": self.cap_text,
            "population": self.population,
            "on_null": self.on_null,
            "on_outside": self.on_outside,
            "unverified": self.unverified,
            "source": self.source,
        }


def declaration_of(record: SeriesRecord) -> Declaration:
    """Read a stored declaration back, with the copies of its catalogues."""
    stored = record.declaration
    copies = {
        file.name.removeprefix(_CATALOGUE).removesuffix(".parquet"): record.directory / file.name
        for file in record.files
        if file.name.startswith(_CATALOGUE)
    }
    return Declaration(
        name=record.name,
        unit=tuple(stored["unit"]) if isinstance(stored["unit"], list) else stored["unit"],
        key=tuple(stored["key"]),
        max_keys=stored["max_keys"],
        domain=Domain.parse(stored["domain"], files=copies),
        noise=stored["noise"],
        cap=None if stored["cap"] is None else as_level(stored["cap"]),
        population=stored["population"],
        on_null=stored["on_null"],
        on_outside=stored["on_outside"],
        unverified=stored.get("unverified", False),
        source=stored.get("source", ""),
    )


def write_catalogues(directory: Path, domain: Domain, *, durable: bool) -> list[RegisteredFile]:
    """Write a copy of every catalogue that is too long to stand in the text of the domain."""
    written = []
    for digest, catalogue in domain.attachments().items():
        copy = io.BytesIO()
        catalogue.write_copy(copy)
        written.append(write_file(directory / f"{_CATALOGUE}{digest}.parquet", copy.getbuffer(), durable=durable))
    return written


def declare(
    *,
    name: str,
    unit: str | Sequence[str] | None,
    key: str | Sequence[str],
    max_keys: int,
    domain: Domain | str,
    noise: NoiseChoice,
    cap: Level | None,
    population: str,
    on_null: str,
    on_outside: str,
    unverified: bool = False,
) -> Declaration:
    """Check the parameters of a new series.

    Raises:
        DeclarationError: If one of them is wrong; the message carries its value.
    """
    columns = (key,) if isinstance(key, str) else tuple(key) if isinstance(key, Sequence) else ()
    if not columns or not all(isinstance(column, str) and column for column in columns):
        raise DeclarationError(f"key must be a column's name or a list of names, got {key!r}")
    if len(set(columns)) != len(columns):
        raise DeclarationError(f"key names a column twice: {key!r}")
    if "noisy_count" in columns:
        raise DeclarationError("a key column cannot be called noisy_count: releases use that name")
    if isinstance(max_keys, bool) or not isinstance(max_keys, int) or not 1 <= max_keys < _LARGEST_BOUND:
        raise DeclarationError(f"max_keys must be a whole number from 1 to {_LARGEST_BOUND - 1}, got {max_keys!r}")
    return Declaration(
        name=checked_name("series", name),
        unit=_checked_unit(unit, columns),
        key=columns,
        max_keys=max_keys,
        domain=_checked_domain(domain, columns),
        noise=checked_noise(noise, max_keys),
        cap=None if cap is None else _checked_cap(cap),
        population=checked_name("population", population),
        on_null=checked_choice("on_null", on_null, ("error", "drop")),
        on_outside=checked_choice("on_outside", on_outside, ("error", "drop")),
        unverified=checked_choice("unverified", unverified, (False, True)),
    )


def _checked_unit(unit: str | Sequence[str] | None, key: tuple[str, ...]) -> str | tuple[str, ...] | None:
    """The column of the unit, or several; parts of such a tuple may be key columns too, as (date, ip) with date."""
    if unit is None:
        return None
    columns = (unit,) if isinstance(unit, str) else tuple(unit) if isinstance(unit, Sequence) else ()
    if not columns or not all(isinstance(column, str) and column for column in columns):
        raise DeclarationError(f"unit must be a column's name or a list of names, got {unit!r}")
    if len(set(columns)) != len(columns):
        raise DeclarationError(f"unit names a column twice: {unit!r}")
    if len(columns) > 1:
        return columns
    if columns[0] in key:
        raise DeclarationError(f"unit must name a column that is no key column, got {unit!r}")
    return columns[0]


def _checked_cap(cap: Level) -> Fraction:
    try:
        return as_level(cap)
    except LevelError as problem:
        raise LevelError(f"cap is a level: {problem}") from None


def _checked_domain(domain: Domain | str, columns: tuple[str, ...]) -> Domain:
    parsed = Domain.parse(domain) if isinstance(domain, str) else domain
    if not isinstance(parsed, Domain):
        raise DomainError(f"domain must be a domain or its text such as 'strings(max_bytes=32)', got {domain!r}")
    if parsed.columns != len(columns):
        raise DomainError(f"{len(columns)} key columns {columns} but a domain of {parsed.columns}: {domain!s}")
    if isinstance(parsed, Product) and tuple(parsed.names) != columns:
        raise DomainError(f"the domain's columns {tuple(parsed.names)} are not the key columns {columns}")
    return parsed
