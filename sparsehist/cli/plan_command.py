"""The command that plans, as it is parsed and explained; its work is imported when it runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from sparsehist.cli.answer import Answer
from sparsehist.cli.shared_options import Bounding, MostKeys, Wait

if TYPE_CHECKING:
    from rich.console import RenderableType

    from sparsehist.release.planning import Plan
    from sparsehist.series.periodic_series import PeriodicSeries
    from sparsehist.series.running_series import RunningSeries

_SELDOM = 0.0005
_BY_COUNT = "[bold]By true count[/]: the probability of being published, and the mean relative error if it is."
_SHORT = {
    "expected_false_keys": "false keys",
    "population_epsilon": "epsilon",
    "published_50": "50 %",
    "published_95": "95 %",
    "published_99": "99 %",
}


def plan(
    store: Annotated[Path | None, Parameter(help="Directory of the store; with --series.")] = None,
    /,
    *,
    level: Annotated[
        list[str] | None, Parameter(help="Candidate level, exact; repeat it. 0.001, 0.01, 0.1 and 1 by default.")
    ] = None,
    series: Annotated[str | None, Parameter(help="Plan for a series, after what was released from it.")] = None,
    cells: Annotated[
        str | None, Parameter(name="--cells", help="Without a store: number of keys that could occur, such as 1e9.")
    ] = None,
    domain: Annotated[
        list[str] | None,
        Parameter(help="Instead: the domain, such as strings(max_bytes=32); repeat it to compare some."),
    ] = None,
    max_keys: Annotated[int | None, Parameter(help="Without a store: distinct keys one unit counts towards.")] = None,
    noise: Annotated[str, Parameter(help="Without a store: family of noise.")] = "gaussian",
    bounding: Bounding = "keep",
    most_keys: MostKeys = None,
    false_keys: Annotated[
        float | None, Parameter(help="Empty keys to expect among the published; 0.01 where no --threshold is given.")
    ] = None,
    threshold: Annotated[float | None, Parameter(help="In units, instead.")] = None,
    delta: Annotated[float | None, Parameter(help="For open domains, instead: what a release may take.")] = None,
    count: Annotated[
        list[int] | None, Parameter(help="True count to show the error at; repeat it. 10 to 10000 by default.")
    ] = None,
    shows: Annotated[
        int | None, Parameter(help="Instead of levels: the least one that shows a key of so many units.")
    ] = None,
    probability: Annotated[float, Parameter(help="With which --shows shows it.")] = 0.95,
    equal: Annotated[
        int | None, Parameter(help="Instead of levels: the cap that leaves room for so many series alike.")
    ] = None,
    within: Annotated[
        str | None,
        Parameter(help="Without a store: what --equal divides, such as 'epsilon_delta(4, 1e-6)' or a rho."),
    ] = None,
    plot: Annotated[
        Path | None, Parameter(help="Also draw it: a file .svg or .png; needs sparsehist[plots].")
    ] = None,
    what: Annotated[
        str | None, Parameter(help="With --step: 'new' or 'blocks(7)' instead of running counts.")
    ] = None,
    step: Annotated[
        int | None, Parameter(help="Of a running series: the step whose running counts would be released.")
    ] = None,
    wait: Wait = 0.0,
) -> Answer:
    r"""Show what releases would do, before any of them is made.

    For each candidate level: the standard deviation of the noise, the threshold,
    the false keys to expect, the true count from which a key is published with 50,
    95 and 99 % probability, and what the release would add to the ledger; and for
    true counts the probability of being published and the mean relative error if
    so. Nothing is drawn and nothing is spent; the log is not looked at.

    For example:
      sparsehist plan --domain 'strings(max_bytes=32)' --max-keys 20 --level 0.01 \
          --level 0.5
      sparsehist plan logs.sparsehist --series queries --level 0.5 --plot plan.svg
      sparsehist plan --cells 1e9 --max-keys 20 --shows 50
      sparsehist plan --cells 1e9 --max-keys 20 --equal 52 \
          --within 'epsilon_delta(4, 1e-6)'
    """
    import sparsehist as sh
    from sparsehist.errors import DeclarationError

    asked: dict[str, Any] = {"false_keys": false_keys, "threshold": threshold, "open_delta": delta}
    given = {"levels": level, "counts": count, "shows": shows, "equal": equal, "within": within}
    asked |= {name: value for name, value in given.items() if value is not None} | {"probability": probability}
    if plot is not None and plot.suffix not in (".svg", ".png"):
        raise DeclarationError(f"--plot writes .svg or .png, got {str(plot)!r}")
    if (store is None) != (series is None):
        raise DeclarationError("give a store and --series, or neither and --cells or --domain with --max-keys")
    if store is not None:
        if any(value is not None for value in (cells, domain, max_keys, within)):
            raise DeclarationError(
                "a series has its own domain, max_keys and budget: leave out --cells, --domain, --max-keys, --within"
            )
        from sparsehist.cli.commands import opening
        from sparsehist.series.periodic_series import PeriodicSeries

        with opening(store, wait) as opened:
            planned: Any = opened.series(str(series))
            if isinstance(planned, PeriodicSeries):
                made = _of_levels(planned, "a periodic series", asked)
            elif step is None:
                made = planned.plan(**asked)
            else:
                made = _of_levels(planned, "--step", asked | {"what": what, "step": step})
    else:
        if max_keys is None:
            raise DeclarationError("without a store, plan needs --max-keys and either --cells or --domain")
        shared = sh.Keep() if bounding == "keep" else sh.Share(most_keys)
        asked |= {"noise": noise, "bounding": shared}
        domains = domain[0] if domain and len(domain) == 1 else domain
        made = sh.plan(d=_whole(cells), domain=domains, max_keys=max_keys, **asked)
    if plot is not None:
        made.save_plot(plot)
    data = {"noise": made.noise, "levels": list(made.by_level), "counts": list(made.by_count)}
    return Answer(data | {"plot": None if plot is None else str(plot)}, _shown(made, plot))


def _of_levels(log: RunningSeries | PeriodicSeries, what: str, asked: dict[str, Any]) -> Plan:
    """The plan of a log that goes on, which answers no other questions than levels."""
    from sparsehist.errors import DeclarationError

    wrong = [name for name in ("shows", "equal") if name in asked]
    if wrong:
        raise DeclarationError(f"--{wrong[0]} has no meaning with {what}: give levels")
    return log.plan(**{name: value for name, value in asked.items() if name != "probability"})


def _whole(cells: str | None) -> int | None:
    """Read a number of cells exactly, however large: 1000000, 1e9, 10**69."""
    from decimal import Decimal

    from sparsehist.errors import DeclarationError

    if cells is None:
        return None
    base, power, exponent = cells.replace("_", "").partition("**")
    try:
        if power and 0 <= int(exponent) <= 4000:  # Python writes no more digits into an error
            whole: int = int(base) ** int(exponent)
            return whole
        number = Decimal(base if not power and len(cells) < 400 else 0)
        whole = int(number) if 0 <= number.adjusted() <= 4000 else 0
    except (ValueError, ArithmeticError):
        number, whole = Decimal(0), 0
    if whole < 1 or whole != number:
        raise DeclarationError(f"--cells takes a whole number such as 1000000, 1e9 or 10**69, got {cells!r}")
    return whole


def _shown(made: Plan, plot: Path | None) -> list[RenderableType]:
    """A table by level, one of probabilities and errors by count, and what would be refused."""
    from sparsehist.cli.tables import escape, rows_table

    compared = "domain" in made.by_level[0]
    by_count: dict[int, dict[str, Any]] = {}
    for row in made.by_count:
        seldom = row["probability"] < _SELDOM  # how far off such a one would be tells nobody anything
        off = float(f"{100 * row['relative_error']:.2g}")
        cell = "no" if seldom else f"{round(100 * row['probability'], 1)} %, ± {off} %"
        by_count.setdefault(row["count"], {"count": row["count"]})[row["level"]] = cell
    refused = [(row["level"], row["refused"]) for row in made.by_level if row["refused"] is not None]
    levels = [{k: v for k, v in row.items() if not k.startswith("all_per_")} for row in made.by_level]
    heading = (
        "[bold]By level[/], in units. 50, 95, 99 %: the true count from which a key is published with that "
        "probability.\nadds: to what the population has spent; epsilon: of all its releases then, at delta 1e-6 "
        "(— where that delta is too small)."
    )
    return [
        heading,
        rows_table(levels_for_people(levels, without="refused")),
        *(
            f"one release at level {row['level']} in every period: rho {row['all_per_period']} for one unit in one "
            f"period, {row['all_per_user']} for one unit in all"
            for row in made.by_level
            if "all_per_user" in row
        ),
        *([] if compared else (_BY_COUNT, rows_table([*by_count.values()]))),
        *(f"level {level} would be refused: {escape(why)}" for level, why in refused),
        *([f"drawn in {escape(str(plot))}"] if plot is not None else []),
    ]


def levels_for_people(levels: Sequence[Mapping[str, Any]], without: str = "") -> list[dict[str, Any]]:
    """The levels of a plan under names that fit a terminal, and what each adds with its currency."""
    shown = []
    for row in levels:
        adds = row["adds"] if row["currency"] == "none" else f"{row['currency']} {row['adds']}"
        named = {name: value for name, value in {**row, "adds": adds}.items() if name not in ("currency", without)}
        shown.append({_SHORT.get(name, name): value for name, value in named.items()})
    return shown
