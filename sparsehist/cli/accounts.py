"""Commands on a whole store: show, ledger, limit, report, backup, adopt, drop."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

import sparsehist as sh
from sparsehist.cli.answer import Answer, parameter_lines, rows_table
from sparsehist.cli.options import DEFAULT, SeriesName, StorePath, Using, arguments
from sparsehist.declaration.declaration import UNCHECKED_SOURCE, Declaration
from sparsehist.errors import DeclarationError
from sparsehist.ledger.ledger import Ledger
from sparsehist.ledger.table import event_for_people, for_people, ledger_rows
from sparsehist.privacy import as_level, level_text
from sparsehist.privacy.levels import in_prose
from sparsehist.release import pipeline
from sparsehist.release.limits import declare_disjoint, raise_cap, set_budget
from sparsehist.release.metadata import declaration_rows
from sparsehist.release.stored_declaration import declaration_of
from sparsehist.store.private_files import PUBLIC, write_file

_ABOUT_LEDGER = """\
A noise path costs as much as its finest level. The costs of paths, of series and of populations that are
not disjoint add up. epsilon covers all releases so far, at delta {delta:g}; limit is the largest cost allowed.
remaining: for a path, the largest level at which it may still be released; otherwise, what a new path may cost."""


def show(store: StorePath, /, *, using: Using = DEFAULT) -> Answer:
    """Show the series of a store and their releases, with their public parameters.

    For example:
      sparsehist show logs.sparsehist
    """
    listed: list[dict[str, Any]] = []
    periodic: list[dict[str, Any]] = []
    shown: list[Any] = []
    with using.home(store).hold() as state:
        added: dict[str, list[str]] = {}
        for record in state.all_series():
            declared = declaration_of(record)
            if declared.period is not None:
                added.setdefault(declared.population, []).append(declared.period)
                continue
            releases = pipeline.rows_of_releases(state, record)
            listed.append({"name": record.name, "declaration": declared.as_json(), "releases": releases})
            levels = [row | {"level": level_text(in_prose(as_level(row["level"])))} for row in releases]
            table = rows_table(levels, seldom=("workload", "threshold")) if levels else "  no releases yet"
            shown += [record.name, parameter_lines(declaration_rows(declared)), table]
        for name, stored in Ledger.of(state).limits.declarations.items():
            rows = declaration_rows(Declaration.from_json(stored))
            periodic.append({"name": name, "declaration": stored, "added": added.get(name, [])})
            rows.append(("appended", ", ".join(added.get(name, [])) or "nothing yet"))
            shown += [f"{name}, a periodic series", parameter_lines(rows)]
    return Answer({"store": str(store), "series": listed, "periodic": periodic}, shown or ["the store has no series"])


def ledger(
    store: StorePath,
    /,
    *,
    delta: float = 1e-6,
    series: str | None = None,
    events: bool = False,
    using: Using = DEFAULT,
) -> Answer:
    """Show the costs of all releases, the limits on them, and what remains.

    Each noise path has a row with the level of its finest release. Each series has a row
    with the sum over its paths, and each population a row with the sum over its series.
    The row `everybody` shows the most that all releases together can cost one person.
    `spent` is the cost of a row: rho of zCDP or epsilon of pure DP, rounded up. In --json,
    `level` is the exact cost. Dropped series are included.

    For example:
      sparsehist ledger logs.sparsehist --events

    Args:
        delta: Delta at which epsilon is shown.
        series: Show only this series and its population.
        events: Also show all events, including refusals: who did what, and when.
    """
    with using.home(store).hold() as state:
        rows = ledger_rows(Ledger.of(state), delta, series=series)
        happened = state.events() if events else []
    shown: list[Any] = ["the store has no series, or no series of this name"]
    if rows:
        shown = [rows_table(for_people(rows)), _ABOUT_LEDGER.format(delta=delta)]
    warnings = [(row["series"] or row["population"] or row["scope"], row["warning"]) for row in rows]
    warnings += [(row["series"], "unchecked source") for row in rows if row["source"] == UNCHECKED_SOURCE]
    shown += [f"warning, {name}: {text}" for name, text in dict.fromkeys(warnings) if text]
    data: dict[str, Any] = {"store": str(store), "delta": delta, "ledger": rows}
    if events:
        data["events"] = happened
        shown.append(rows_table([event_for_people(event) for event in happened]))
    return Answer(data, shown)


def limit(
    store: StorePath,
    /,
    *,
    population: str = "default",
    rho: str | None = None,
    epsilon: str | None = None,
    delta: str | None = None,
    route: str | None = None,
    open_share: str | None = None,
    series: str | None = None,
    cap: str | None = None,
    disjoint: list[str] | None = None,
    reason: str | None = None,
    using: Using = DEFAULT,
) -> Answer:
    r"""Set the budget of a population, raise a cap, or declare populations disjoint.

    Releases beyond a budget are refused before anything is drawn (exit code 3). A
    budget holds even if levels are chosen after looking at earlier releases. A limit
    that is set before the first release holds ex ante; a limit that is set, raised or
    changed later holds ex post. The package cannot check that populations are disjoint.

    For example:
      sparsehist limit logs.sparsehist --epsilon 8 --delta 1e-6 \
          --who 'privacy office'
      sparsehist limit logs.sparsehist --series queries --cap 4 \
          --reason 'the second study needs finer counts'
      sparsehist limit logs.sparsehist --disjoint north --disjoint south --reason 'by country'

    Args:
        population: The people whose costs the budget limits.
        rho: Budget: limit on the sum in zCDP, exact.
        epsilon: Budget instead of --rho: limit on epsilon at --delta.
        delta: With --epsilon: its delta, 0 for pure DP. With --rho: the delta that open domains may spend.
        route: How noise is charged: gaussian (exact; the default beside a delta), pure (Laplace), renyi, poisson.
        open_share: Share of --delta for open domains. By default half if the population has an open domain, else 0.
        series: Instead of a budget: the series whose cap is raised to --cap.
        cap: With --series: the new cap, exact; above the current cap.
        disjoint: Instead of a budget: a population that shares nobody with the others; give it at least twice.
        reason: Reason for the ledger, in one line. Required, except for the first budget.
    """
    budget = arguments(rho=rho, epsilon=epsilon, delta=delta, route=route, open_share=open_share)
    if [bool(budget), series is not None, disjoint is not None].count(True) != 1 or (series is None) != (cap is None):
        raise DeclarationError(
            "give a budget (--rho, or --epsilon and --delta), or --series and --cap, or --disjoint at least twice"
        )
    home, data = using.home(store), {"store": str(store)}
    if series is not None:
        raise_cap(home, series, cap or "", reason=reason or "")
        shown = f"the cap of the series {series} is now {cap}"
        return Answer(data | {"series": series, "cap": cap, "status": "raised"}, [shown])
    if disjoint is not None:
        declare_disjoint(home, disjoint, reason=reason or "")
        shown = f"the populations {', '.join(disjoint)} are disjoint: their costs are not added"
        return Answer(data | {"disjoint": disjoint, "status": "declared"}, [shown])
    text = set_budget(home, population=population, reason=reason, **budget)
    shown = f"the budget of population {population} is {text}"
    return Answer(data | {"population": population, "budget": text, "status": "set"}, [shown])


def report(store: StorePath, /, *, out: Path, delta: float = 1e-6, using: Using = DEFAULT) -> Answer:
    """Write a report for a privacy officer: one HTML page.

    The page shows all guarantees, costs and limits, the releases and their errors, and
    the keys with the largest noisy counts. All its content is public. The command needs
    sparsehist[plots].

    For example:
      sparsehist report logs.sparsehist --out report.html

    Args:
        out: The page to write: a .html file outside the store.
        delta: Delta at which epsilon is shown.
    """
    from sparsehist.release.release_files import check_target

    check_target("--out", out, store, (".html",))
    write_file(out, using.store(store).report(delta=delta).encode(), durable=False, mode=PUBLIC)
    shown = f"wrote {out}: it contains only public parameters and published rows"
    return Answer({"store": str(store), "out": str(out)}, [shown])


def backup(
    store: StorePath, destination: Annotated[Path, Parameter(name="DEST")], /, *, using: Using = DEFAULT
) -> Answer:
    """Make a consistent copy of a store.

    The copy is as secret as the store. It can be used only after the store is lost and
    the copy is adopted. If anything is released from the store after the copy was made,
    the copy is refused for good: it lacks the noise of that release, and would draw
    different noise for the same level.

    For example:
      sparsehist backup logs.sparsehist /backups/logs.sparsehist

    Args:
        destination: New directory for the copy.
    """
    using.store(store).backup(destination)
    shown = [f"copied {store} to {destination}; the copy is as secret as the store"]
    return Answer({"store": str(store), "backup": str(destination)}, shown)


def adopt(store: StorePath, /, *, home_is_gone: bool = False, using: Using = DEFAULT) -> Answer:
    """Use a copied or restored store in place of an original that is gone for good.

    The copy is refused while the original still exists at its path, or if a generation
    file or public ledger shows that something was released after the copy was made.

    For example:
      sparsehist adopt logs.sparsehist --home-is-gone

    Args:
        home_is_gone: Confirm that the original is gone for good, that no other copy of it is used, and that nothing
            was released after this copy was made.
    """
    sh.adopt(using.home(store).path, home_is_gone=home_is_gone, wait=using.wait)
    return Answer({"store": str(store), "status": "adopted"}, [f"{store} is ready for use"])


def drop(
    store: StorePath, /, *, series: SeriesName, yes: bool = False, reason: str | None = None, using: Using = DEFAULT
) -> Answer:
    """Erase a series: its keys, counts and noise.

    This cannot be undone. A periodic series can be dropped only after all its periods
    were dropped, and only if none of them was ever released. The costs of the series
    stay in the ledger, and published files are not erased.

    For example:
      sparsehist drop logs.sparsehist --series queries --yes

    Args:
        yes: Confirm that the series is to be erased.
        reason: Reason for the ledger, in one line.
    """
    with using.home(store).hold() as state:
        warning = Ledger.of(state).ended_by_dropping(series)
    if not yes:
        raise DeclarationError(f"{warning}Dropping a series cannot be undone: give --yes to drop {series}")
    using.store(store).drop(series, reason=reason)
    data = {"store": str(store), "series": series, "status": "dropped"}
    return Answer(data, [f"{warning}Erased the series {series}; its costs stay in the ledger"])
