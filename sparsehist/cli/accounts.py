"""Commands about what exists, what was spent and what may be: show, ledger, limit, report."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from sparsehist.cli import options
from sparsehist.cli.answer import Answer
from sparsehist.cli.options import DEFAULT, StorePath, Using
from sparsehist.cli.tables import escape, parameters_table, rows_table
from sparsehist.declaration.checks import checked_output
from sparsehist.declaration.declaration import UNCHECKED_SOURCE
from sparsehist.errors import DeclarationError, InputError
from sparsehist.ledger.budgets import budget_from
from sparsehist.ledger.table import for_people
from sparsehist.privacy import as_level, level_text
from sparsehist.privacy.guarantees import EpsilonDelta
from sparsehist.privacy.levels import in_prose
from sparsehist.release.parameter_rows import declaration_rows
from sparsehist.store.private_files import PRIVATE, PUBLIC, write_file

if TYPE_CHECKING:
    import polars as pl
    from rich.console import RenderableType

    from sparsehist.series.periodic_series import PeriodicSeries
    from sparsehist.series.store import Store


_ABOUT_LEDGER = """\
A path costs its finest level; paths and series of a population add up, and populations too unless they
are disjoint. epsilon holds at delta {delta:g} for what did happen; what holds in advance is the limit.
remaining: of a path the largest level it may be released at, else what another path may take."""


def show(store: StorePath, /, *, using: Using = DEFAULT) -> Answer:
    """Show the series of a store and their releases, with their public parameters.

    For example:
      sparsehist show logs.sparsehist
    """
    listed: list[dict[str, Any]] = []
    periodic: list[dict[str, Any]] = []
    shown: list[RenderableType] = []
    with using.open(store) as opened:
        for name in opened.series_names():
            series = options.one_series(opened, name)
            declared = series.declaration
            if declared.period is not None:
                continue
            releases = series.releases().to_dicts()
            listed.append({"name": name, "declaration": declared.as_json(), "releases": releases})
            shown += [f"[bold]{name}[/]", parameters_table(declaration_rows(declared))]
            unused = {column for column in ("workload", "threshold") if all(row[column] is None for row in releases)}
            used = [{column: value for column, value in row.items() if column not in unused} for row in releases]
            used = [row | {"level": level_text(in_prose(as_level(row["level"])))} for row in used]
            shown.append(rows_table(used) if used else "  no releases yet")
        for name in options.periodic_names(opened):
            made: Any = opened.series(name)
            row, rule = made.progress(), made.rule
            periodic.append({"name": name, "declaration": rule.as_json(), "progress": row, "added": made.appended()})
            shown += [f"[bold]{name}[/], one series per {rule.what}", parameters_table(periodic_rows(made, row))]
    shown = shown or ["the store has no series"]
    return Answer({"store": str(store), "series": listed, "periodic": periodic}, shown)


def ledger(
    store: StorePath,
    /,
    *,
    delta: options.ShownDelta = 1e-6,
    series: Annotated[str | None, Parameter(help="Only this series and its population.")] = None,
    since: Annotated[
        str | None,
        Parameter(help="Only what was released since then (UTC), such as 2026-01-31, and its populations."),
    ] = None,
    short: Annotated[bool, Parameter(help="One line per population, and everybody.")] = False,
    events: Annotated[bool, Parameter(help="Also show who did or asked for what, when, refusals included.")] = False,
    out: Annotated[
        Path | None, Parameter(help="Also write it all, with the events, to a .json or .parquet file.")
    ] = None,
    using: Using = DEFAULT,
) -> Answer:
    """Show what has been spent, under which limits, and what remains.

    One row per noise path (its finest level), per series (the sum over its
    paths), per population (the sum over its series), and one for everybody: the
    most that one person may bear, the sum over populations except those declared
    disjoint. `spent` is in rho of zCDP or epsilon of pure DP, rounded up to four
    digits (`level` in --json is exact); `epsilon` holds at --delta for what did
    happen. `remaining` is what the limits leave: of a path, the largest level it
    may be released at. `ex ante` means that a limit stood before the first
    release and was never raised or changed. Dropped series stay.

    For example:
      sparsehist ledger logs.sparsehist --out ledger.json
    """
    _check_outside(store, out)
    with using.open(store) as opened:
        rows = opened.ledger(delta=delta, series=series, since=since, short=short, full=True).to_dicts()
        happened = opened.events() if events else None
        if out is not None:
            opened.export_ledger(out, delta=delta)
    shown: list[RenderableType] = ["nothing: the store has no series, or none of these"]
    if rows:
        shown = [rows_table(for_people(rows)), *_remarks(rows, delta)]
    data: dict[str, Any] = {"store": str(store), "delta": delta, "ledger": rows}
    if happened is not None:
        data["events"] = happened.to_dicts()
        shown.append(rows_table(_events_for_people(happened)))
    if out is not None:
        data["out"] = str(out)
        shown.append(f"written to {escape(str(out))}, with all events")
    return Answer(data, shown)


def _remarks(rows: Sequence[dict[str, Any]], delta: float) -> list[str]:
    """How to read the table, and the warnings in it."""
    said = [_ABOUT_LEDGER.format(delta=delta)]
    for row in (row for row in rows if row["scope"] != "path"):
        what = row["series"] or row["population"] or row["scope"]
        limit = row["limit_at_first_release"]
        if limit is not None and row["standing"] == "ex post":
            said.append(f"The limit of {row['scope']} {what} was {limit} when its first release was made.")
        if row["warning"] is not None:
            said.append(f"[bold]warning[/], {what}: {escape(row['warning'])}")
    unchecked = dict.fromkeys(row["series"] for row in rows if row["source"] == UNCHECKED_SOURCE)
    return [*said, *(f"[bold]warning[/], series {name}: unchecked source; see sparsehist show" for name in unchecked)]


def _events_for_people(events: pl.DataFrame) -> list[dict[str, Any]]:
    return [
        {
            "happened": f"{row['happened']:%Y-%m-%d %H:%M:%S}",
            "who": row["who"],
            "what": row["what"],
            "of": row["series"] or row["population"],
            "release": row["release"],
            "level": row["level"],
            "why": _why(json.loads(row["details"] or "{}"), row["reason"]),
        }
        for row in events.to_dicts()
    ]


def _why(details: dict[str, Any], reason: str | None) -> str | None:
    """What an event declares, in words, and the reason that was given for it."""
    if "because" in details:
        words = details["because"]
    elif "route" in details:
        words = str(budget_from(details))
    else:  # a periodic series declares more, and `show` has that
        said = {name: value for name, value in details.items() if value and not isinstance(value, dict)}
        words = ", ".join(
            f"{name.replace('_', ' ')} {', '.join(value) if isinstance(value, list) else value}"
            for name, value in said.items()
        )
    return "; ".join(part for part in (words, reason) if part) or None


def periodic_rows(made: PeriodicSeries, row: dict[str, Any]) -> list[tuple[str, str]]:
    """The public parameters of a periodic series, and what it has cost."""
    shown = [*declaration_rows(made.declaration), ("periods", row["periods"]), ("budget", row["budget"] or "none")]
    released = set(made.released())
    if appended := [f"{period} (released)" if period in released else period for period in made.appended()]:
        shown.append(("appended", ", ".join(appended)))
    if row["releases"]:
        shown.append((f"spent per {made.rule.unit_period}", f"{row['currency']} {row['per_period'].split()[0]}"))
        shown.append(("spent per user", f"{row['currency']} {row['level']}"))
    return shown


def _check_outside(store: Path, out: Path | None) -> None:
    if out is not None and store.resolve() in out.resolve().parents:
        raise InputError(f"--out {str(out)!r} is inside the store, which nobody but its owner may read")


def limit(
    store: StorePath,
    /,
    *,
    population: Annotated[
        str | None, Parameter(help="The people that a budget is for; 'default' if left out.")
    ] = None,
    rho: Annotated[str | None, Parameter(help="Budget: limit on the sum in zCDP, exact.")] = None,
    epsilon: Annotated[str | None, Parameter(help="Budget, instead: limit on epsilon at --delta.")] = None,
    delta: Annotated[
        str | None, Parameter(help="Beside --epsilon, 0 for pure; beside --rho, what open domains may spend.")
    ] = None,
    route: Annotated[
        str | None,
        Parameter(
            help="How noise is charged: gaussian (exact, Gaussian noise only; the default beside a delta), pure "
            "(Laplace and discrete Laplace), renyi (all but Poisson), poisson."
        ),
    ] = None,
    order: Annotated[
        int | None, Parameter(help="Of the Rényi divergence; chosen for Gaussian noise by default.")
    ] = None,
    open_share: Annotated[
        str | None, Parameter(help="Share of --delta for open domains; half where there is one, else 0.")
    ] = None,
    poisson: Annotated[
        str | None, Parameter(help="A separate limit for Poisson noise, such as 'epsilon_delta(1, 1e-6)'.")
    ] = None,
    series: Annotated[str | None, Parameter(help="Instead: raise the cap of this series, to --cap.")] = None,
    cap: Annotated[str | None, Parameter(help="With --series: the new cap, exact; above the one in force.")] = None,
    disjoint: Annotated[
        list[str] | None,
        Parameter(help="Instead: declare that nobody is in two of these populations; give it twice or more."),
    ] = None,
    reason: Annotated[
        str | None,
        Parameter(help="Why; one line, kept in the ledger for good. Needed for all but the first budget."),
    ] = None,
    using: Using = DEFAULT,
) -> Answer:
    r"""Set the budget of a population, raise a cap, or declare populations disjoint.

    Releases beyond a budget are refused before anything is drawn (exit code 3),
    however levels are chosen by looking at earlier releases. A budget set before
    the first release holds ex ante; one set, raised or changed later holds ex
    post, and the ledger says so. A cap that is raised holds ex post. Costs of
    disjoint populations do not add up for anybody; nothing can check that they
    are, so whoever declares it answers for it.

    For example:
      sparsehist limit logs.sparsehist --epsilon 8 --delta 1e-6 \
          --who 'privacy office'
      sparsehist limit logs.sparsehist --series queries --cap 4 \
          --reason 'the second study needs finer counts'
      sparsehist limit logs.sparsehist --disjoint north --disjoint south \
          --reason 'by country of residence'
    """
    asked: dict[str, Any] = {
        "rho": rho, "epsilon": epsilon, "delta": delta, "route": route, "order": order, "open_share": open_share,
    }  # fmt: skip
    a_budget = any(value is not None for value in (*asked.values(), poisson))
    if [a_budget, series is not None or cap is not None, disjoint is not None].count(True) != 1:
        raise DeclarationError(
            "give a budget (--rho, or --epsilon and --delta), or --series and --cap, or --disjoint twice or more"
        )
    data: dict[str, Any] = {"store": str(store)}
    with using.open(store) as opened:
        if a_budget:
            whose = population or "default"
            apart = None if poisson is None else EpsilonDelta.parse(poisson)
            said = opened.set_budget(population=whose, poisson=apart, reason=reason, **asked)
            shown = [f"the budget of population {whose} is {escape(said)}", *_without_series(opened, [whose])]
            data |= {"population": whose, "budget": asked | {"poisson": poisson}, "said": said, "status": "set"}
        elif disjoint is not None:
            opened.declare_disjoint(disjoint, reason=reason or "")
            shown = [f"nobody is in two of {', '.join(disjoint)}: their costs do not add up for anybody"]
            shown += _without_series(opened, disjoint)
            data |= {"disjoint": disjoint, "status": "declared"}
        elif series is None or cap is None:
            raise DeclarationError("--series and --cap go together: the series, and its new cap")
        else:
            options.one_series(opened, series).raise_cap(cap, reason=reason or "")
            shown = [f"the cap of the series {series} is {escape(cap)} from now on"]
            data |= {"series": series, "cap": cap, "status": "raised"}
    return Answer(data, shown)


def _without_series(store: Store, populations: Sequence[str]) -> list[str]:
    """Say which populations have no series so far: the name may be a slip."""
    known = sorted({options.one_series(store, name).declaration.population for name in store.series_names()})
    missing = [population for population in populations if population not in known]
    there = f"series are in {', '.join(known)}" if known else "the store has no series"
    return [f"No series is in {', '.join(missing)} yet; {there}"] if missing else []


def report(
    store: StorePath,
    /,
    *,
    out: Annotated[Path, Parameter(help="The page, a .html file; outside the store.")],
    delta: options.ShownDelta = 1e-6,
    curator: Annotated[
        bool, Parameter(help="Add exact numbers that only the curator may see; the page says that it is secret.")
    ] = False,
    using: Using = DEFAULT,
) -> Answer:
    r"""Write a report that a privacy officer can read and sign: one HTML page.

    It says what was promised to whom, what remains, every release with its error,
    the largest keys, and what is not promised, from public parameters and published
    rows only. The page loads nothing and runs nothing. Needs sparsehist[plots].

    For example:
      sparsehist report logs.sparsehist --out report.html
    """
    checked_output("--out", out, (".html",))
    _check_outside(store, out)
    with using.open(store) as opened:
        page = opened.report(delta=delta, curator=curator)
    write_file(out, page.encode(), durable=False, mode=PRIVATE if curator else PUBLIC)
    told = "for the curator only: it holds exact numbers" if curator else "public parameters and published rows only"
    return Answer({"store": str(store), "out": str(out), "curator": curator}, [f"{escape(str(out))}: {told}"])
