"""An entry for the OpenDP registry of deployments: what the store knows, and what its owner says in about.yaml.

The registry's draft schema is pinned in the tests. It shows every text as Markdown: what comes from a store is
escaped for that, and what the owner writes may be Markdown, without HTML and without links that run.
"""

from __future__ import annotations

import html
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sparsehist import __version__
from sparsehist.errors import InputError, NotFoundError, needing, printable, raise_alone
from sparsehist.ledger.ledger import Ledger
from sparsehist.ledger.table import Row, ledger_rows
from sparsehist.report.parameter_rows import keys_text
from sparsehist.series.declaration import Declaration, declaration_of
from sparsehist.series.metadata import InteractiveMetadata, Metadata, WorkloadMetadata
from sparsehist.series.pipeline import published_metadata

if TYPE_CHECKING:
    from sparsehist.series.store_handle import Store

About = Mapping[str, Any] | str | os.PathLike[str]
_Place = tuple[str, ...]
_TEXT, _TEXTS, _TIER = "text", "a list of texts", "1, 2 or 3"
_SLUG, _AS_SLUG = "letters, digits, - and _, as it becomes part of a URL", re.compile(r"[A-Za-z0-9_-]+")
_BASIC = ("deployment", "basic")
_NEEDED: dict[_Place, str] = {
    ("url_slug",): _SLUG,
    **{(*_BASIC, name): _TEXT for name in ("name", "intended_use", "data_product_region", "description")},
    (*_BASIC, "data_curators"): _TEXTS,
    ("deployment", "administrative", "registry_authors"): _TEXTS,
}
"""What no store can know."""
_SAID_TOO = {
    "basic": "data_product_type data_product_sector publication_date",
    "dp_variant": "data_domain unprotected_quantities",
    "privacy_loss": "privacy_unit_details privacy_parameters_details",
    "deployment_model": "model_name_details actors release_type_details data_source_type_details access_type_details",
    "accounting": "post_processing composition",
    "implementation": "preprocessing_and_hyperparameter_tuning mechanisms justification",
    "administrative": "sources notes",
}
_ALLOWED: dict[_Place, str] = _NEEDED | {("tier",): _TIER, ("status",): _TEXT}
_ALLOWED |= {("deployment", part, name): _TEXT for part, names in _SAID_TOO.items() for name in names.split()}
_REPLACED = (("tier",), ("status",), *((*_BASIC, name) for name in ("data_product_type", "publication_date")))
"""Where the owner's word stands in place of the store's; other texts are put below what the store says."""
_MARKS = re.compile(r"([\\`*_{}\[\]<>#|~$&!@]|:(?=/)|(?<=www)\.)", re.IGNORECASE)
_SHORT, _UNBROKEN = 90, 10**6
_LIMIT_OF = {"population": "budget", "series": "cap"}
_RUNS = re.compile(r"(javascript|vbscript|data):")
_NOT_IN_A_LINK = re.compile(r"[\s\\\x00-\x1f]")


def registry_entry(store: Store, about: About, *, delta: float) -> str:
    """The entry as YAML; see `Store.report`."""
    with needing("a registry entry", "'sparsehist[report]'"):
        import yaml
    said = _read(about, yaml)
    known = _Known.of(store, delta)
    problems = _problems(said)
    if known.everybody["epsilon"] is None:
        problems.append(known.everybody["warning"] or f"no epsilon at delta {delta:g}: ask at a larger one")
    if not known.everybody["releases"]:
        problems.append("nothing was released from this store")
    if problems:
        raise InputError("the registry's entry cannot be written: " + "; ".join(problems))
    entry: dict[str, Any] = known.entry()
    for place, value in said.items():
        _put(entry, place, value)
    return str(yaml.dump(entry, Dumper=_quoting(yaml), sort_keys=False, allow_unicode=True, width=_UNBROKEN))


def _quoting(yaml: Any) -> Any:
    """A dumper that quotes every text, so that no reader of YAML takes one for anything else."""

    class Quoting(yaml.SafeDumper):  # type: ignore[misc]
        """Writes what `_text` says."""

        def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002 - the entry is a tree
            """Write a value again where it stands again."""
            return True

    def _text(dumper: Any, text: str) -> Any:
        block = len(text) > _SHORT or "\\" in text or "\n" in text
        return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if block else '"')

    def _mapping(dumper: Any, value: dict[str, Any]) -> Any:
        pairs = [
            (yaml.ScalarNode("tag:yaml.org,2002:str", key), dumper.represent_data(each))
            for key, each in value.items()
        ]
        return yaml.MappingNode("tag:yaml.org,2002:map", pairs, flow_style=False)

    Quoting.add_representer(str, _text)
    Quoting.add_representer(dict, _mapping)
    return Quoting


# What the owner says.


def _read(about: About, yaml: Any) -> dict[_Place, Any]:
    """What about.yaml says, by place; dates as text."""
    if isinstance(about, Mapping):
        told: Any = about
    else:
        try:
            told = yaml.safe_load(Path(about).read_text(encoding="utf-8"))
        except OSError as problem:
            raise NotFoundError(f"cannot read {about}: {os.strerror(problem.errno or 0)}") from None
        except (yaml.YAMLError, UnicodeDecodeError, RecursionError, ValueError) as problem:
            mark = getattr(problem, "problem_mark", None)
            raise_alone(InputError(f"{about} is not YAML" + (f": see line {mark.line + 1}" if mark else "")))
    if not isinstance(told, Mapping):
        named = "about" if isinstance(about, Mapping) else about
        raise InputError(f"{named} must be a mapping of the registry's fields, with url_slug: and deployment:")
    return dict(_leaves(told, ()))


def _leaves(told: Mapping[Any, Any], above: _Place) -> Iterator[tuple[_Place, Any]]:
    for name, value in told.items():
        place = (*above, str(name))
        if isinstance(value, Mapping) and len(place) < 4:
            yield from _leaves(value, place)
        elif value is not None and value not in ("", []):
            yield place, value.isoformat() if isinstance(value, date) else value


def _problems(said: Mapping[_Place, Any]) -> list[str]:
    """Everything that is wrong with it, in one go."""
    missing = [place for place in _NEEDED if place not in said]
    unknown = [place for place in said if place not in _ALLOWED]
    wrong = [place for place, value in said.items() if place in _ALLOWED and not _fits(value, _ALLOWED[place])]
    running = [place for place, value in said.items() if any(_runs(text) for text in _texts(value))]
    found = []
    if missing:
        found.append(f"about lacks {', '.join(map('.'.join, missing))}")
    if unknown:
        found.append(f"about may not have {', '.join(map('.'.join, unknown))}: the store says it, or nobody")
    found += [f"{'.'.join(place)} must be {_ALLOWED[place]}" for place in wrong]
    if running:
        found.append(f"{', '.join(map('.'.join, running))}: links may not run anything")
    return found


def _fits(value: object, kind: str) -> bool:
    if kind == _TIER:
        return value in (1, 2, 3) and not isinstance(value, bool)
    if kind == _TEXTS:
        return isinstance(value, list) and all(isinstance(one, str) and one.strip() for one in value)
    return isinstance(value, str) and (kind != _SLUG or _AS_SLUG.fullmatch(value) is not None)


def _texts(value: object) -> list[str]:
    return [one for one in (value if isinstance(value, list) else [value]) if isinstance(one, str)]


def _runs(text: str) -> bool:
    """Whether a link in a text could run; Markdown reads entities and backslashes in links."""
    return bool(_RUNS.search(_NOT_IN_A_LINK.sub("", html.unescape(text)).lower()))


def _put(entry: dict[str, Any], place: _Place, value: Any) -> None:
    """Add what the owner says to what the store says."""
    *above, name = place
    part = entry
    for one in above:
        part = part.setdefault(one, {})
    told = [_without_html(one) for one in value] if isinstance(value, list) else value
    if isinstance(told, str):
        told = _without_html(told)
        if part.get(name) and place not in _REPLACED:
            told = f"{part[name]}\n\n{told}"
    part[name] = told


def _without_html(text: str) -> str:
    """Markdown of the owner's: no tags, and nothing that does not print."""
    return printable(text.strip(), keep="\n").replace("\\<", "<").replace("<", "\\<")


# What the store says.


@dataclass(frozen=True)
class _Known:
    """What the store knows, all of it public: `made` is the metadata of all releases, in order."""

    store_id: str
    delta: float
    rows: Sequence[Row]
    disjoint: Sequence[frozenset[str]]
    declared: Sequence[Declaration]
    made: Sequence[Metadata]
    periods: Mapping[str, Any]

    @classmethod
    def of(cls, store: Store, delta: float) -> _Known:
        with store._hold() as state:
            ledger = Ledger.of(state)
            records = state.all_series()
            made = [about for record in records for about in published_metadata(state, record)]
            declared = [declaration_of(record) for record in records]
            rows, limits = ledger_rows(ledger, delta), ledger.limits
            return cls(state.store_id, delta, rows, limits.disjoint, declared, made, limits.periods)

    @property
    def everybody(self) -> Row:
        """What the one person who bears the most bears."""
        return next((row for row in self.rows if row["scope"] == "everybody"), {"epsilon": 0.0, "releases": 0})

    def entry(self) -> dict[str, Any]:
        """In the order of the registry's template."""
        first = self.everybody["first_release"]
        return {
            "url_slug": "",
            "status": "Draft",
            "tier": 3,
            "deployment": {
                "basic": {
                    "name": "",
                    "data_curators": [],
                    "intended_use": "",
                    "data_product_type": "Summary statistics",
                    "data_product_region": "",
                    "description": "",
                    "publication_date": f"{first:%Y-%m-%d}",
                },
                "dp_variant": {
                    "variant_name": self.variant,
                    "data_domain": self._domains(),
                    "unprotected_quantities": self._unprotected(),
                },
                "privacy_loss": {
                    "privacy_unit": ", ".join(_unique(_escaped(self._unit(told)) for told in self.declared)),
                    "privacy_unit_details": self._neighbours(),
                    "privacy_parameters": self._parameters(),
                    "privacy_parameters_details": self._standing(),
                },
                "deployment_model": {
                    "model_name": "Central",
                    "actors": "The curator holds logs and store and is trusted with both. Readers of releases need "
                    "not be trusted, nor trust each other: all releases together are covered.",
                    **self._kinds(),
                },
                "accounting": {"post_processing": self._post_processing(), "composition": self._composition()},
                "implementation": {
                    "preprocessing_and_hyperparameter_tuning": self._preprocessing(),
                    "mechanisms": self._mechanisms(),
                },
                "administrative": {
                    "notes": f"Written by sparsehist {_escaped(__version__)} from the ledger of store "
                    f"{_escaped(self.store_id)}.",
                    "registry_authors": [],
                },
            },
        }

    def _unit(self, told: Declaration) -> str:
        rule = self.periods.get(told.population)
        unit = told.unit_text or "bounded elsewhere"
        return unit if rule is None or rule.protects != rule.unit_period else f"{unit} in one {rule.what}"

    @property
    def variant(self) -> str:
        """As the registry names it: the strongest that holds for everything together, but for numerical slack."""
        worst = self.everybody
        if worst["delta_infinity"] or worst["cost"] is None:
            return "Approximate DP"
        return "Pure DP" if worst["currency"] == "epsilon" else "Zero-concentrated DP"

    def _parameters(self) -> dict[str, float]:
        worst = self.everybody
        if self.variant == "Pure DP":
            return {"epsilon": float(worst["level"])}
        approximate = {"epsilon": worst["epsilon"], "delta": self.delta}
        return approximate if self.variant == "Approximate DP" else approximate | {"rho": worst["cost"]}

    def _standing(self) -> str:
        worst = self.everybody
        together = (
            f"For whoever bears the most, all releases together are ({worst['epsilon']:.6g}, {self.delta:g})-"
            "differentially private, ex post. By how much draws may miss their law in total variation is at most "
            f"{worst['numerical_slack']:.3g}, which epsilon does not count."
        )
        told = [together]
        for row in self.rows:
            limit = row[_LIMIT_OF[row["scope"]]] if row["scope"] in _LIMIT_OF else None
            if limit is not None:
                what = f"{row['scope']} {row['series'] or row['population']}"
                stands = f", {row['standing']}" if row["standing"] else ""
                told.append(_escaped(f"The limit of {what} is {limit}{stands}; it leaves {row['remaining']}."))
        return "\n\n".join(told)

    def _domains(self) -> str:
        return "\n\n".join(
            _escaped(
                f"Series {told.name}: logs of units with keys, of which {', '.join(told.key)} lies in "
                f"{told.domain.describe()}, {keys_text(told.domain)}."
            )
            for told in self.declared
        )

    def _unprotected(self) -> str:
        told = ["None is computed from the data: domains, bounds, levels and thresholds are declared."]
        told += [
            _escaped(f"Of series {each.name} it was declared that this was chosen by looking at the log, which no "
                     f"guarantee covers: {each.chosen_by_looking}.")
            for each in self.declared if each.chosen_by_looking
        ]  # fmt: skip
        return "\n\n".join(told)

    def _neighbours(self) -> str:
        told = ["Adjacent logs differ by all rows of one unit."]
        for each in self.declared:
            how = f"it counts once for each key, towards at most {_number(each.max_keys, 'key')}"
            how = each.shares.describe() if each.shares else how
            whose = f"the unit is {each.unit_text}, in" if each.unit else "its units were bounded elsewhere,"
            told.append(_escaped(f"Series {each.name}: {whose} population {each.population}; {how}."))
        for name, rule in self.periods.items():
            most = (
                f"; one unit counts in at most {_number(rule.most_periods, rule.what)}" if rule.most_periods else ""
            )
            told.append(
                _escaped(
                    f"Population {name} is a log in {rule.what}s, and its budget protects one {rule.protects}{most}."
                )
            )
        told += [
            _escaped(f"Nobody is in two of the populations {', '.join(sorted(one))}, as declared.")
            for one in self.disjoint
        ]
        return "\n\n".join(told)

    def _kinds(self) -> dict[str, str]:
        running = any(told.steps is not None for told in self.declared)
        dynamic = running or bool(self.periods)
        sources = ["Steps are appended to a log that goes on."] if running else []
        sources += ["Of a log that goes on, each period is counted once, when it is over."] if self.periods else []
        if any(told.steps is None and told.period is None for told in self.declared):
            sources.append(f"Each {'other ' if dynamic else ''}series is counted once, from one log.")
        asked = any(isinstance(about, InteractiveMetadata) for about in self.made)
        releases = self.everybody["releases"]
        return {
            "release_type": "Many releases" if releases > 1 else "One release",
            "release_type_details": f"{releases} so far; each has a name that stands for the same numbers for ever.",
            "data_source_type": "Dynamic" if dynamic else "Static",
            "data_source_type_details": " ".join(sources),
            "access_type": "Interactive" if asked else "Non-interactive",
        }

    def _post_processing(self) -> str:
        told = ["Noisy counts are rounded to a grid that no data decides; those above a threshold are published."]
        steps = _unique(
            step for about in self.made if isinstance(about, WorkloadMetadata) for step in about.post_processing
        )
        told += [f"Answers of workloads: {_escaped(', '.join(steps))}."] if steps else []
        return "\n\n".join(told)

    def _composition(self) -> str:
        return (
            "Releases on one noise path are made from one process, whatever their order, and cost what the finest of "
            "them costs. Noise paths of a series and series of a population add up; populations add up too, but for "
            "those declared disjoint. Budgets are filters: they hold however levels follow from earlier releases."
        )

    def _preprocessing(self) -> str:
        rows = {"drop": "left out", "error": "refused"}
        checked = {"checked query": "a query that was checked to keep units apart", "": "files as they are"}
        unchecked = "a source that nobody checked"
        return "\n\n".join(
            _escaped(
                f"Series {told.name}: made from {checked.get(told.source, unchecked)}; rows without "
                f"unit or key are {rows[told.on_null]}, keys outside the domain {rows[told.on_outside]}."
            )
            for told in self.declared
        )

    def _mechanisms(self) -> str:
        kinds = _unique(f"{about.kind} with {about.noise} noise" for about in self.made)
        return (
            f"{_escaped('; '.join(kinds))}, by sparsehist {_escaped(__version__)}.\n\n"
            "Noise is added to every cell of the domain; cells that are not published are drawn later, with the same "
            "law. Randomness is a cryptographic stream keyed by the operating system, and published numbers lie on a "
            "grid. Time and memory depend on the data: only the curator may watch them. The store is private to its "
            "owner."
        )


def _number(n: int, what: str) -> str:
    return f"{n} {what}" if n == 1 else f"{n} {what}s"


def _unique(texts: Iterator[str]) -> list[str]:
    return list(dict.fromkeys(texts))


def _escaped(text: str) -> str:
    """Text from a store as Markdown shows it as it is; addresses do not become links."""
    return _MARKS.sub(r"\\\1", printable(text))
