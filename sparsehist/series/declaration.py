"""What is fixed when a series is created: public parameters, checked before the log is touched."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sparsehist.domain import Domain, Product
from sparsehist.errors import (
    DeclarationError,
    DomainError,
    NameTakenError,
    SeriesDiffersError,
    present,
)
from sparsehist.ledger.arguments import checked_choice, checked_name, checked_text, checked_whole
from sparsehist.noise import Family, family_named, name_of
from sparsehist.noise.family import Norm, sensitivity_norm
from sparsehist.privacy import Level, as_level, level_text
from sparsehist.store import RegisteredFile, SeriesRecord, write_file
from sparsehist.typing import IntArray

if TYPE_CHECKING:
    from sparsehist.counting.contract import Bounding

NoiseChoice = str | Family
"""A family by name, or as an instance with the sensitivity that max_keys implies."""

_LARGEST_BOUND = 2**31 - 1
_CATALOGUE, _BOUNDING = "catalogue-", "bounding"
CHECKED_QUERY = "checked query"
UNCHECKED_SOURCE = "unchecked source"
_RESTS_ON = {
    CHECKED_QUERY: "rests on a checked query: each unit's rows depend on that unit and on public tables alone",
    UNCHECKED_SOURCE: "rests on an unchecked source: that each unit's rows depend on that unit alone is on trust",
}
_OTHER_PERIODS = "that the log of a period holds no rows of another is on trust"

UNITS_PER_COUNT = 64
"""A count of one unit with few keys, in the units that weighted counts are held in."""

KEYS_PER_MAX_KEYS = 64
"""`most_keys` over max_keys, unless declared: weights go down to 1/8 in L2, 1/64 in L1."""


@dataclass(frozen=True)
class Shares:
    """How units with more than max_keys keys are weighed. Public parameters.

    A unit with m distinct keys adds w(m) to each of them, w = min(1, √(l/m)) where noise is measured in L2 and
    min(1, l/m) where in L1, rounded down to a multiple of 1/64: so w·√m is at most √l, w·m at most l, and the noise
    is that of max_keys = l. Counts are whole numbers of 64ths throughout. A unit with more than `most_keys` keys is
    cut to that many first: δ of an open domain and the slack rest on how many cells one unit can touch.

    Example:
        >>> Shares(4, 100, "l2").weights([1, 4, 5, 16, 100]).tolist()
        [64, 64, 57, 32, 12]
    """

    max_keys: int
    most_keys: int
    norm: Norm

    def __post_init__(self) -> None:
        """Refuse a most_keys that is too small or too large."""
        if self.most_keys < self.max_keys:
            raise DeclarationError(f"most_keys={self.most_keys} is less than max_keys={self.max_keys}")
        largest = self.max_keys * UNITS_PER_COUNT ** (2 if self.norm == "l2" else 1)
        if self.most_keys > largest:
            raise DeclarationError(
                f"most_keys={self.most_keys} is too large: beyond {largest} keys the share of each, a multiple of "
                f"1/{UNITS_PER_COUNT}, would be 0"
            )

    def describe(self) -> str:
        """How a unit counts, in words."""
        share = "sqrt(max_keys/keys)" if self.norm == "l2" else "max_keys/keys"
        return (
            f"a unit with more than {self.max_keys} keys counts at each of its keys (at most {self.most_keys}) with "
            f"the weight {share}, rounded down to a multiple of 1/{UNITS_PER_COUNT}"
        )

    def weights(self, keys: object) -> IntArray:
        """Weights in 64ths of units with so many keys, each from 1 to most_keys; same shape."""
        m = np.asarray(keys, np.int64)
        if self.norm == "l1":
            return np.minimum(UNITS_PER_COUNT * self.max_keys // m, UNITS_PER_COUNT)
        # floor √(64² l/m) from the whole part of what is under the root: both have the same whole root
        square = UNITS_PER_COUNT**2 * self.max_keys // m
        root = np.floor(np.sqrt(square.astype(np.float64))).astype(np.int64)
        root -= root * root > square
        root += (root + 1) * (root + 1) <= square
        return np.minimum(root, UNITS_PER_COUNT)

    def most_at(self) -> list[tuple[int, int]]:
        """Each weight that occurs, in 64ths, with the largest number of keys that has it; falling weights."""
        found = []
        keys = 1
        while keys <= self.most_keys:
            weight = int(self.weights(keys))
            square = UNITS_PER_COUNT**2 * self.max_keys
            last = square // weight**2 if self.norm == "l2" else UNITS_PER_COUNT * self.max_keys // weight
            keys = min(last, self.most_keys)
            found.append((weight, keys))
            keys += 1
        return found


@dataclass(frozen=True)
class Declaration:
    """The public parameters of a series, as `create` takes them; equal declarations stand for the same series.

    Attributes:
        noise: Name of the family.
        most_keys: Keys to which a unit is cut before its weight is found; None unless weights are shared.
        key_types: As pairs of a column and a type.
        source: "checked query" where the query of the log was found to keep units apart; "unchecked source" where it
            was declared to go unchecked, or rows came of which nobody can say what made them (a frame, a relation, an
            Arrow stream, counts); empty for files. No part of what makes two declarations equal.
        steps: Of a running series, how many may be appended; None for a log that is counted once.
        period: Which one of a log that is cut into periods, such as "2026-W12"; None for any other log.
        time: The column by which rows of other periods were refused or left out; None where nobody looked.
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
    bounding: str = "keep"
    most_keys: int | None = None
    unverified: bool = False
    key_types: tuple[tuple[str, str], ...] = ()
    source: str = field(default="", compare=False)
    portable: bool = False
    steps: int | None = None
    chosen_by_looking: str = ""
    period: str | None = None
    time: str | None = None

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
        on_trust = self.period is not None and self.time is None
        return "; ".join(filter(None, (_RESTS_ON.get(self.source), _OTHER_PERIODS if on_trust else None)))

    @property
    def family(self) -> Family:
        """The noise, with the sensitivity that max_keys implies; in counts."""
        return family_named(self.noise, self.max_keys)

    @property
    def shares(self) -> Shares | None:
        """How units with many keys are weighed, where they are."""
        if self.most_keys is None:
            return None
        return Shares(self.max_keys, self.most_keys, present(sensitivity_norm(self.family)))

    @property
    def unit_of_counts(self) -> int:
        """Into how many parts a count is divided: true counts, and noise as it is drawn, are in these."""
        return 1 if self.most_keys is None else UNITS_PER_COUNT

    @property
    def family_in_units(self) -> Family:
        """The noise in parts of a count."""
        family = self.family
        if self.most_keys is None:
            return family
        return replace(family, sensitivity=family.sensitivity * UNITS_PER_COUNT)  # type: ignore[type-var, attr-defined]

    @property
    def touched(self) -> list[tuple[int, int]]:
        """What a unit may add to each of its keys, in parts of a count, with the most keys it may add it to."""
        return [(1, self.max_keys)] if (shares := self.shares) is None else shares.most_at()

    @property
    def most_touched(self) -> int:
        """Keys a unit may touch at all."""
        return self.max_keys if self.most_keys is None else self.most_keys

    def as_json(self) -> dict[str, Any]:
        """The declaration as it is stored."""
        plain = {each.name: getattr(self, each.name) for each in fields(self) if each.name != "name"}
        plain |= {
            "unit": list(self.unit) if isinstance(self.unit, tuple) else self.unit,
            "key": list(self.key),
            "domain": str(self.domain),
            "cap": self.cap_text,
            "key_types": dict(self.key_types),
        }
        going_on = {name: value for name in ("steps", "period", "time") if (value := plain.pop(name)) is not None}
        return going_on | plain


def declaration_of(record: SeriesRecord) -> Declaration:
    """Read a stored declaration back, with the copies of its catalogues."""
    copies = {
        file.name.removeprefix(_CATALOGUE).removesuffix(".parquet"): record.directory / file.name
        for file in record.files
        if file.name.startswith(_CATALOGUE)
    }
    return read_declaration(record.declaration, record.name, record.population, copies)


def read_declaration(
    stored: Mapping[str, Any], name: str, population: str, copies: Mapping[str, Path]
) -> Declaration:
    """Read what `as_json` gave, with copies of catalogues by digest."""
    read = {
        "name": name,
        "unit": tuple(stored["unit"]) if isinstance(stored["unit"], list) else stored["unit"],
        "key": tuple(stored["key"]),
        "domain": Domain.parse(stored["domain"], files=copies),
        "cap": None if stored["cap"] is None else as_level(stored["cap"]),
        "population": population,
        "key_types": tuple(stored.get("key_types", {}).items()),
    }
    known = {each.name for each in fields(Declaration)}
    return Declaration(**{name: value for name, value in stored.items() if name in known} | read)


def check_alike(
    name: str,
    stored: Mapping[str, Any],
    declared: Mapping[str, Any],
    if_exists: str,
    *,
    remedy: str = "use another name",
) -> None:
    """Refuse to declare what is there already (`name`, in words), unless it is to be reused and is declared alike."""
    fields = [field for field in {**stored, **declared} if stored.get(field) != declared.get(field)]
    made = [_told(field, stored.get(field)) for field in fields if field != "source"]
    if if_exists == "error":
        told = f", declared {', '.join(made)}: use another name" if made else "; if_exists='reuse' gives it back"
        raise NameTakenError(f"{name}{told}")
    if made:
        raise SeriesDiffersError(f"{name}, and its declaration differs: it was made {', '.join(made)}; {remedy}")


def _told(field: str, value: object) -> str:
    return f"without {field}=" if value is None else f"with {field}={value!r}"


def write_catalogues(directory: Path, domain: Domain, *, durable: bool) -> list[RegisteredFile]:
    """Write a copy of every catalogue that is too long to stand in the text of the domain."""
    written = []
    for digest, catalogue in domain.attachments().items():
        copy = io.BytesIO()
        catalogue.write_copy(copy)
        written.append(write_file(directory / f"{_CATALOGUE}{digest}.parquet", copy.getbuffer(), durable=durable))
    return written


def write_bounding(directory: Path, met: Bounding | None, *, durable: bool) -> list[RegisteredFile]:
    """Write what bounding met, where that is known, for the curator's page. Secret."""
    if met is None:
        return []
    return [write_file(directory / _BOUNDING, json.dumps(asdict(met)).encode(), durable=durable)]


def read_bounding(record: SeriesRecord) -> dict[str, int]:
    """What `write_bounding` wrote, as a dict; empty where it is not known. Secret."""
    if all(file.name != _BOUNDING for file in record.files):
        return {}
    found: dict[str, int] = json.loads((record.directory / _BOUNDING).read_bytes())
    return found


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
    bounding: str = "keep",
    most_keys: int | None = None,
    unverified: bool = False,
    key_types: Mapping[str, str] | None = None,
    portable: bool = False,
    chosen_by_looking: str | None = None,
) -> Declaration:
    """Check the parameters of a new series."""
    from sparsehist.counting.contract import checked_key_types  # which loads the engines

    columns = _checked_columns("key", key)
    if "noisy_count" in columns:
        raise DeclarationError("a key column cannot be called noisy_count: releases use that name")
    checked_whole("max_keys", max_keys, 1, _LARGEST_BOUND)
    stored, cells = checked_noise(noise, max_keys), _checked_domain(domain, columns)
    return Declaration(
        name=checked_name("series", name),
        unit=_checked_unit(unit, columns),
        key=columns,
        max_keys=max_keys,
        domain=cells,
        noise=stored,
        cap=None if cap is None else as_level(cap, "cap"),
        population=checked_name("population", population),
        on_null=checked_choice("on_null", on_null, ("error", "drop")),
        on_outside=checked_choice("on_outside", on_outside, ("error", "drop")),
        bounding=checked_choice("bounding", bounding, ("keep", "share")),
        most_keys=_checked_most_keys(bounding, most_keys, max_keys, family_named(stored, max_keys)),
        unverified=checked_choice("unverified", unverified, (False, True)),
        key_types=tuple(sorted(checked_key_types(key_types, columns, cells).items())),
        portable=checked_choice("portable", portable, (False, True)),
        chosen_by_looking=checked_text("chosen_by_looking", chosen_by_looking) or "",
    )


def _checked_columns(what: str, given: str | Sequence[str]) -> tuple[str, ...]:
    columns = (given,) if isinstance(given, str) else tuple(given) if isinstance(given, Sequence) else ()
    if not columns or not all(isinstance(column, str) and column for column in columns):
        raise DeclarationError(f"{what} must be a column's name or a list of names, got {given!r}")
    if len(set(columns)) != len(columns):
        raise DeclarationError(f"{what} names a column twice: {given!r}")
    return columns


def _checked_unit(unit: str | Sequence[str] | None, key: tuple[str, ...]) -> str | tuple[str, ...] | None:
    """The column of the unit, or several; parts of such a tuple may be key columns too, as (date, ip) with date."""
    if unit is None:
        return None
    columns = _checked_columns("unit", unit)
    if len(columns) > 1:
        return columns
    if columns[0] in key:
        raise DeclarationError(f"unit must name a column that is no key column, got {columns[0]!r}")
    return columns[0]


def _checked_most_keys(bounding: str, most_keys: int | None, max_keys: int, family: Family) -> int | None:
    """Keys to which a unit is cut where weights are shared; None where they are not."""
    if bounding != "share":
        if most_keys is not None:
            raise DeclarationError(f"most_keys={most_keys!r} is for bounding='share'; max_keys bounds what is kept")
        return None
    if family.integer or sensitivity_norm(family) is None or not hasattr(family, "sensitivity"):
        raise DeclarationError(
            f"bounding='share' needs real noise scaled to a sensitivity, Gaussian or Laplace: weights are parts of a "
            f"count, and {family!r} is not made for them"
        )
    most = KEYS_PER_MAX_KEYS * max_keys if most_keys is None else most_keys
    if isinstance(most, bool) or not isinstance(most, int):
        raise DeclarationError(f"most_keys must be a whole number, got {most_keys!r}")
    return Shares(max_keys, most, present(sensitivity_norm(family))).most_keys


def _checked_domain(domain: Domain | str, columns: tuple[str, ...]) -> Domain:
    parsed = Domain.parse(domain) if isinstance(domain, str) else domain
    if not isinstance(parsed, Domain):
        raise DomainError(f"domain must be a domain or its text such as 'strings(max_bytes=32)', got {domain!r}")
    if parsed.columns != len(columns):
        raise DomainError(f"the key is {_quoted(columns)}, and the domain has {parsed.columns} column(s): {domain!s}")
    if isinstance(parsed, Product) and tuple(parsed.names) != columns:
        raise DomainError(
            f"the domain's columns {_quoted(parsed.names)} are not the key columns {_quoted(columns)}: name the same "
            "ones in the same order"
        )
    return parsed


def _quoted(columns: Sequence[str]) -> str:
    return ", ".join(map(repr, columns))


def checked_noise(noise: NoiseChoice, max_keys: int) -> str:
    """The name by which a series stores its noise."""
    if isinstance(noise, str):
        family_named(noise, max_keys)
        return noise
    name = name_of(noise)
    if name is None:
        raise DeclarationError(
            f"noise must be a name such as 'gaussian', or an instance such as sparsehist.noise.Gaussian(...), "
            f"got {type(noise).__name__}"
        )
    family = family_named(name, max_keys)
    if noise != family:
        raise DeclarationError(
            f"noise={noise!r} does not suit units of max_keys={max_keys}, which need {family!r}; "
            f"pass that, or noise={name!r}"
        )
    return name
