"""The `Declaration` class: all public parameters of a series."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Literal, NoReturn

from sparsehist.declaration.bounding import Keep, Share, Shares, bounding_of
from sparsehist.declaration.checks import checked, checked_name
from sparsehist.declaration.measures import MEAN_COLUMN, Measure, measures_of
from sparsehist.declaration.parameters import Record, json_of, parameter, parameters
from sparsehist.declaration.recurring import Every, Steps, every_of, steps_of
from sparsehist.domain import Domain, Product, one_cell
from sparsehist.domain.unread import UnreadDomain
from sparsehist.errors import DeclarationError, DomainError, present, shown
from sparsehist.noise import Family, family_named, name_of
from sparsehist.privacy import as_level

LARGEST_BOUND = 2**31 - 1
CHECKED_QUERY = "checked query"
UNCHECKED_SOURCE = "unchecked source"
_RESTS_ON = {
    CHECKED_QUERY: "rests on a checked query: each unit's rows depend only on that unit and on public tables",
    UNCHECKED_SOURCE: "rests on an unchecked source: it assumes that each unit's rows depend only on that unit",
}
_OTHER_PERIODS = "it assumes that the log of a period has no rows of another period"
WITHOUT_KEY = "all units"
"""Key column of releases of a series that counts all units in one cell. Logs have no such column."""
KEY_TYPES = ("date", "integer", "text")
NoiseChoice = str | Family
"""The name of a noise family, or an instance of a family with the sensitivity that max_keys implies."""
_HANDLING = ("error", "drop")
_MOST_OVER_MAX = 64
"""Default ratio most_keys / max_keys. The smallest weight is then 1/8 for the L2 norm, 1/64 for the L1 norm."""
_MEASURED = ("gaussian", "laplace", "discrete_laplace")


def _columns(what: str, names: object) -> tuple[str, ...]:
    columns: tuple[Any, ...] = tuple(names) if isinstance(names, list | tuple) else (names,)
    valid = columns and all(isinstance(column, str) and column for column in columns)
    checked(valid, f"{what} must be a column's name or a list of names", names, what)
    if len(set(columns)) != len(columns):
        raise DeclarationError(f"{what} names a column twice")
    if what == "key" and "noisy_count" in columns:
        raise DeclarationError("a key column cannot be called noisy_count: releases use that name")
    return columns


def _unit(names: object) -> str | tuple[str, ...]:
    columns = _columns("unit", names)
    return columns if len(columns) > 1 else columns[0]


def domain_of(domain: object) -> Domain:
    """Return `domain`, parsed from its text form if it is a string."""
    parsed = Domain.parse(domain) if isinstance(domain, str) else domain
    if isinstance(parsed, Domain):
        return parsed
    rule = "domain must be a domain or its text form, such as 'strings(max_bytes=32)'"
    raise DomainError(f"{rule}, got {shown(domain)}", parameter="domain")


def _key_types(types: object) -> tuple[tuple[str, str], ...]:
    if not isinstance(types, Mapping | tuple):
        raise DeclarationError(f"types must be a mapping from key columns to types, got {shown(types)}")
    pairs = dict(types).items()
    if not all(isinstance(column, str) and kind in KEY_TYPES for column, kind in pairs):
        # The message leaves out the value, because a value may contain data of the log.
        raise DeclarationError(f"types must map each column to one of {', '.join(map(repr, KEY_TYPES))}")
    return tuple(sorted(pairs))


@dataclass(frozen=True, kw_only=True)
class Declaration(Record):
    """The public parameters of a series, fixed when it is created.

    Each field is declared with its help text, bounds and SQL name, so a new parameter needs only a new field. The
    constructor takes values from `sparsehist.create`, the command line, SQL or a store, and checks them.

    Attributes:
        period: Period of a periodic series, such as "2026-W12"; None for other series.
        source: "checked query" if the query of the log passed the check; "unchecked source" if the query was declared
            unverified, or for rows of unknown origin (a frame, a relation, an Arrow stream, counts); empty for files.

    Raises:
        DeclarationError: If a parameter is wrong. The message names it and shows a short value, or the value's type.

    Example:
        >>> Declaration(name="visits", unit="user", key="url", max_keys=20, domain="strings(max_bytes=8)").key
        ('url',)
    """

    name: str = parameter(
        "Name of the series: a-z, 0-9 and _.", read=partial(checked_name, "series"), sql=False, show=None
    )
    unit: str | tuple[str, ...] | None = parameter(
        "Column of the privacy unit (who is protected), such as user_id; or several columns: date,ip_id.",
        None, read=_unit, option=list[str], example="user_id",
    )  # fmt: skip
    key: tuple[str, ...] = parameter(
        "Key column; for a product domain, one column for each part, in the order of the parts. Without key and "
        "domain, all units count in one cell.",
        None, read=partial(_columns, "key"), option=list[str], example="query",
    )  # fmt: skip
    max_keys: int = parameter(
        "Largest number of distinct keys that one unit counts towards. A larger number needs more noise.",
        least=1, most=LARGEST_BOUND, option=int, example="20",
    )  # fmt: skip
    bounding: Keep | Share = parameter(
        "How units with more than max_keys keys count: towards max_keys of their keys (keep), or towards all their "
        "keys with smaller weights and the same noise (share, share(most_keys=640)). If many units have more keys, "
        "share has far less bias.",
        Keep(), read=bounding_of,
    )  # fmt: skip
    domain: Domain = parameter(
        "All possible keys, declared by you and never derived from the log: strings(max_bytes=32), "
        "strings(max_chars=20, alphabet='digits'), integers(1000), dates('2014-05-01', '2014-05-12'), hash64(), "
        "catalogue('DE', 'US'), catalogue(file='areas.csv', column='url'), product(country=…, day=…); or "
        "open(delta='1e-6') if you cannot list them.",
        None, read=domain_of, example="'strings(max_bytes=32)'",
        show=lambda domain: f"{domain.describe()}, {domain.describe_size()}",
    )  # fmt: skip
    noise: str = parameter(
        "Family of noise: gaussian (level: rho of zCDP), laplace or discrete_laplace (level: epsilon of pure DP), "
        "poisson or skellam (level: 1/mean).",
        "gaussian",
    )
    cap: Fraction | None = parameter(
        "Largest total cost of the series, as an exact level such as 2 or 1/3; releases beyond it are refused.",
        None, read=lambda cap: as_level(cap, "cap"),
    )  # fmt: skip
    population: str = parameter(
        "The people behind the units. Costs of all series of a population add up.",
        "default",
        read=partial(checked_name, "population"),
    )
    measures: tuple[Measure, ...] = parameter(
        "Sums by key that releases may publish besides counts: column:clip=B,step=S, where a unit adds at most B to "
        "a key, or clip=-B..B; or events:clip=50 for the number of rows. May be repeated.",
        (), read=measures_of, option=list[str], example="'price:clip=100,step=0.01'",
    )  # fmt: skip
    steps: Steps | None = parameter(
        "Declare a running series with at most this number of steps, whose logs are appended: 365, or steps(365, "
        "start='2026-01-01', every='day').",
        None, read=steps_of,
    )  # fmt: skip
    every: Every | None = parameter(
        "Declare one histogram per day, week or month, whose logs are appended: week, or every('week', periods=52, "
        "protects='user-week', most_periods=4, budget='epsilon_delta(8, 1e-6)').",
        None, read=every_of,
    )  # fmt: skip
    on_null: str = parameter(
        "Rows without unit or key (null, NaN, empty): refuse the log (error) or omit the rows (drop).",
        "error", choices=_HANDLING, option=Literal[_HANDLING],
    )  # fmt: skip
    on_outside: str = parameter(
        "Rows whose key is outside the domain: refuse the log (error) or omit the rows (drop).",
        "error", choices=_HANDLING, option=Literal[_HANDLING],
    )  # fmt: skip
    key_types: tuple[tuple[str, str], ...] = parameter(
        "Convert a key column before counting: column=date, column=integer or column=text (timestamps become days, "
        "booleans and decimals become whole numbers or text). May be repeated.",
        (), read=_key_types, option=list[str], sql=False, show=None,
    )  # fmt: skip
    unverified: bool = parameter(
        "Do not check whether the query may mix units. Ledger, releases and report state that it was not checked.",
        default=False, option=None, show=None,
    )  # fmt: skip
    period: str | None = parameter("Period of a periodic series.", None, option=None, sql=False)
    source: str = parameter("Basis of the guarantee.", "", option=None, sql=False, show=None, compared=False)

    def __post_init__(self) -> None:
        """Check each parameter on its own, then the rules that involve several parameters."""
        if self.key is None and self.domain is None:
            if self.max_keys != 1:
                _refuse("max_keys", "without a key all units count in one cell: max_keys must be 1, or name a key")
            self._fix("key", (WITHOUT_KEY,))
            self._fix("domain", one_cell())
        if self.key is None or self.domain is None:
            raise DomainError(
                "key= and domain= must be given together: declare the domain of all possible keys, such as "
                "sh.Strings(max_bytes=32), or omit both to count all units in one cell",
                parameter="domain",
            )
        super().__post_init__()
        self._fix_noise()
        if isinstance(self.bounding, Share) and self.bounding.most_keys is None:
            self._fix("bounding", replace(self.bounding, most_keys=_MOST_OVER_MAX * self.max_keys))
        self._check_together()
        _ = self.shares  # computing the weights raises an error if one would be rounded down to 0
        if self.every is not None:
            self._fix("population", self.name)

    def _fix_noise(self) -> None:
        """Store the name of the noise family. Refuse a family object whose sensitivity does not fit max_keys."""
        noise: Any = self.noise
        name = name_of(noise) if isinstance(noise, Family) else noise
        self._fix("noise", name if isinstance(name, str) else shown(noise))
        if isinstance(noise, Family) and noise != self.family:
            right = f"this series needs {self.family!r}; write noise={name!r} for it"
            _refuse("noise", f"noise={noise!r} has the wrong sensitivity: {right}")

    def _check_together(self) -> None:
        """Check the rules that involve several parameters. An error states the reason and the parameter to change."""
        running, every, family, noise = self.steps is not None, self.every, self.family, shown(self.noise)
        share, what = isinstance(self.bounding, Share), "a running series" if running else "a periodic series"
        reserved = {name for each in self.measures for name in (each.sum_column, each.name + MEAN_COLUMN)}
        columns = tuple(self.domain.names) if isinstance(self.domain, Product) else self.key
        rules = (
            (columns != self.key or self.domain.columns != len(self.key),
             "domain", f"key= must name the columns of the domain in order; the domain is {self.domain.describe()}"),
            (not {column for column, _ in self.key_types} <= set(self.key),
             "key_types", "types are for key columns only, but one of these columns is not a key column"),
            (isinstance(self.unit, str) and self.unit in self.key,
             "unit", f"unit must name a column that is not a key column, got {shown(self.unit)}"),
            (share and (family.integer or family.norm is None or not hasattr(family, "sensitivity")),
             "bounding", f"bounding='share' needs Gaussian or Laplace noise, got {noise}"),
            (self.measures and self.noise not in _MEASURED,
             "measures", f"measures need Gaussian, Laplace or discrete Laplace noise, got {noise}"),
            (self.measures and running,
             "measures", "a running series has no measures, because a unit's rows for a key may be in several steps"),
            (self.measures and every and every.most_periods,
             "measures", "a periodic series with most_periods has no measures: its pairs are stored without rows"),
            (reserved.intersection(self.key),
             "measures", "a key column has the name of a published column of a measure: rename the key column"),
            (running and every, "every", "give steps= or every=, not both"),
            ((running or every) and self.noise != "gaussian", "noise", f"{what} has Gaussian noise, got {noise}"),
            (running and self.unit is None, "unit", f"{what} needs the column of its unit"),
            (running and share, "bounding", f"{what} counts units with bounding='keep'"),
            (every and self.cap, "cap", f"{what} has a budget, sh.Every(budget=…), and no cap"),
            (every and self.population not in ("default", self.name),
             "population", f"the population of {what} has the name of the series: omit population="),
        )  # fmt: skip
        for wrong, name, words in rules:
            if wrong:
                _refuse(name, words)

    @property
    def key_columns(self) -> tuple[str, ...]:
        """Key columns of the log; empty if all units are counted in one cell."""
        return () if self.key == (WITHOUT_KEY,) else self.key

    @property
    def unit_text(self) -> str | None:
        """The privacy unit as a readable string, such as `user_id` or `(date, ip_id)`."""
        return f"({', '.join(self.unit)})" if isinstance(self.unit, tuple) else self.unit

    @property
    def neighbours(self) -> str:
        """The definition of neighbouring logs, as a phrase for the guarantee of each release."""
        return f"for logs that differ by all rows of one {self.unit_text if isinstance(self.unit, tuple) else 'unit'}"

    @property
    def rests_on(self) -> str:
        """The assumptions about the log that each guarantee rests on, as a string; empty if there are none."""
        other_periods = None if self.period is None else _OTHER_PERIODS
        return "; ".join(filter(None, (_RESTS_ON.get(self.source), other_periods)))

    @property
    def family(self) -> Family:
        """Family of the noise that is added to counts. Its sensitivity, in counts, is computed from `max_keys`."""
        return family_named(self.noise, self.max_keys)

    @property
    def n_steps(self) -> int | None:
        """Number of steps of a running series; None for other series."""
        return None if self.steps is None else self.steps.number

    @property
    def shares(self) -> Shares | None:
        """The weights of units with many keys under bounding="share"; None under bounding="keep"."""
        if self.bounding.most_keys is None:
            return None
        return Shares(self.max_keys, self.bounding.most_keys, present(self.family.norm), self.unit_of_counts)

    @property
    def unit_of_counts(self) -> int:
        """Number of parts in one count. True counts and drawn noise are stored in parts."""
        return self.bounding.parts

    @property
    def family_in_units(self) -> Family:
        """The noise family of counts, with its sensitivity in parts of a count."""
        family = self.family
        if self.unit_of_counts == 1:
            return family
        return replace(family, sensitivity=family.sensitivity * self.unit_of_counts)  # type: ignore[type-var, attr-defined]

    @property
    def touched(self) -> list[tuple[int, int]]:
        """Pairs of a weight, in parts of a count, and the most keys to which a unit can add this weight."""
        return [(1, self.max_keys)] if (shares := self.shares) is None else shares.most_at()

    @property
    def most_touched(self) -> int:
        """Largest number of keys that a unit can count towards."""
        return self.touched[-1][1]

    def as_json(self) -> dict[str, Any]:
        """Return the declaration as a JSON object, which `from_json` reads."""
        return json_of(self) | {"key_types": dict(self.key_types)}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any], *, files: Mapping[str, Path] | None = None) -> Declaration:
        """Read a declaration from the result of `as_json`. `files` maps digests to copies of the domain's catalogues.

        If `files` is None, a domain that names a file becomes an `UnreadDomain`, which has a text form but no keys.
        """
        values = {name: stored[name] for name in parameters(cls) if name in stored}
        if isinstance(text := values["domain"], str):
            columns = len(_columns("key", values["key"]))
            values["domain"] = _stored_domain(text, columns) if files is None else Domain.parse(text, files=files)
        return cls(**values)

    def differing(self, other: Mapping[str, Any]) -> list[str]:
        """Return the names of the parameters whose values differ from those in a stored declaration."""
        mine = self.as_json()
        compared = [name for name, definition in parameters(self).items() if definition.compared]
        return [name for name in compared if mine.get(name) != other.get(name)]


@lru_cache(maxsize=64)
def _stored_domain(text: str, columns: int) -> Domain:
    """Return a domain from its stored text form, without opening files, because the text form may be forged."""
    return UnreadDomain(text, columns) if Domain.names_a_file(text) else Domain.parse(text)


def _refuse(name: str, words: str) -> NoReturn:
    raise DeclarationError(words, parameter=name)
