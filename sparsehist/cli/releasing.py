"""The commands release and plan."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter
from cyclopts.validators import Number
from rich.markup import escape

import sparsehist as sh
from sparsehist.cli.answer import Answer, counted, parameters_table, rows_table
from sparsehist.cli.options import DEFAULT, LevelOptions, PublishedOptions, SeriesName, StorePath, Using, given
from sparsehist.declaration.measures import measures_of
from sparsehist.errors import DeclarationError, InputError, StoreError
from sparsehist.release import any_kind
from sparsehist.release.measure_parameters import levels_by_name
from sparsehist.release.metadata import read_metadata
from sparsehist.release.parameter_rows import release_rows
from sparsehist.release.release_files import check_target

MOST_ROWS = 1000
_SELDOM = 0.0005
_MOST_CELLS = Decimal("1e4000")
_OPTIONS = {"d": "cells", "measures": "measure"}
_SHORT = {
    "expected_false_keys": "false keys",
    "population_epsilon": "epsilon",
    "published_50": "50 %",
    "published_95": "95 %",
    "published_99": "99 %",
}
_ABOUT_LEVELS = """\
[bold]By level[/], in units. 50, 95, 99 %: the true count from which a key is published with that probability.
adds: to what the population has spent; epsilon: of all its releases then, at delta 1e-6 (— if that is too small)."""
_ABOUT_STRATEGIES = """\
Nothing was released. std: root of the mean variance of a query, in units.
ratio: of this variance to the least of any factorization, at one key per unit."""
Workload = Annotated[
    str | None,
    Parameter(
        help="Release sums instead of cells: prefix(), ranges(), \"ranges(keys=[('2024-01-01', '2024-01-31')])\", "
        "identity(), total(), marginals(k=2), \"marginals([['country'], ['country', 'day']])\", kronecker(…, …), "
        "union(…, …)."
    ),
]


def release(
    store: StorePath,
    /,
    *,
    series: SeriesName,
    name: str,
    at: LevelOptions | None = None,
    published: PublishedOptions | None = None,
    max_false_keys: float = 1e7,
    workload: Workload = None,
    strategy: str | None = None,
    out: Path | None = None,
    head: Annotated[int, Parameter(validator=Number(gte=0))] = 0,
    using: Using = DEFAULT,
) -> Answer:
    r"""Release a series at a level, or write out again a release that was made.

    All releases of a series together cost what the finest of them costs, in
    whatever order they are made. A name stands for the same numbers for ever:
    asked for again it costs nothing. With --workload, sums over the keys are
    released: each workload is a noise path of its own, whose cost adds to that
    of the cells.

    For example:
      sparsehist release logs.sparsehist --series queries --name public \
          --level 0.01 --out public.parquet
      sparsehist release logs.sparsehist --series queries --name year \
          --epsilon 1 --delta 1e-6 --false-keys 1 --out year.parquet
      sparsehist release logs.sparsehist --series visits --name by_hour \
          --workload 'ranges()' --level 0.1 --out by_hour.parquet

    Args:
        name: Name of the release: a-z, 0-9 and _. It stands for the same numbers for ever.
        max_false_keys: Refuse a threshold that lets more empty keys through.
        strategy: With --workload: how it is answered; by default the one of least mean error.
        out: File to write: .parquet, .json or .arrow with metadata, or .csv.
        head: Also print this many of the largest rows.
    """
    if out is not None:  # before anything is drawn
        check_target("--out", out, store)
    asked = given(at, published, workload=workload, strategy=strategy, max_false_keys=max_false_keys)
    released = any_kind.release(using.home(store), series, None, name, target=out, **asked)
    if out is not None:
        try:
            released.write(out)
        except (StoreError, InputError) as problem:
            raise type(problem)(
                f"{problem}. The release {name!r} is committed to the store: repeat the command to write it"
            ) from None
    about = read_metadata(released.metadata)
    data: dict[str, Any] = {
        "release": name, "status": "repeated" if released.repeated else "released", "rows": len(released),
        "out": None if out is None else str(out), "metadata": released.metadata,
    }  # fmt: skip
    before = ", released before: nothing is spent" if released.repeated else ""
    shown: list[Any] = [
        f"[bold]release {name}[/] of {series}: {counted(len(released), 'row')}{before}",
        parameters_table(release_rows(about)),
    ]
    if head:
        rows = released.frame.head(head).to_dicts()
        data["head"] = rows
        shown.append(rows_table(rows[:MOST_ROWS], keys=about.declaration.key))
        if len(rows) > MOST_ROWS:
            shown.append(f"… a table ends after {MOST_ROWS:,} rows; --json prints more, --out writes all")
    if not len(released):
        shown.append("No noisy count is above the threshold: a finer level, in another release, publishes more.")
    unwritten = "committed to the store; no file was written. Pass --out to write one, now or later"
    shown.append(unwritten if out is None else f"written to {escape(str(out))}")
    return Answer(data, shown)


def plan(
    store: Path | None = None,
    /,
    *,
    level: list[str] | None = None,
    epsilon: list[str] | None = None,
    delta: str | None = None,
    series: str | None = None,
    cells: str | None = None,
    domain: str | None = None,
    max_keys: int | None = None,
    noise: str | None = None,
    bounding: str | None = None,
    measure: list[str] | None = None,
    published: PublishedOptions | None = None,
    count: list[int] | None = None,
    shows: int | None = None,
    probability: float | None = None,
    equal: int | None = None,
    within: str | None = None,
    workload: Workload = None,
    using: Using = DEFAULT,
) -> Answer:
    r"""Show what releases would do, before any of them is made.

    For each candidate level: the standard deviation of the noise, the threshold,
    the false keys to expect, the true count from which a key is published with 50,
    95 and 99 % probability, and what the release would add to the ledger; and for
    true counts the probability of being published and the mean relative error if
    so. With --workload, the strategies are compared. Nothing is drawn and nothing
    is spent; the log is not looked at.

    For example:
      sparsehist plan --domain 'strings(max_bytes=32)' --max-keys 20 --level 0.01 \
          --level 0.5
      sparsehist plan logs.sparsehist --series queries --level 0.5
      sparsehist plan logs.sparsehist --series visits --workload 'ranges()'
      sparsehist plan --cells 1e9 --max-keys 20 --shows 50
      sparsehist plan --cells 1e9 --max-keys 20 --equal 52 \
          --within 'epsilon_delta(4, 1e-6)'

    Args:
        store: Directory of the store; with --series.
        level: Candidate level, exact; repeat it. 0.001, 0.01, 0.1 and 1 by default.
        epsilon: Instead: candidate epsilon at --delta; repeat it.
        delta: Delta that belongs to --epsilon.
        series: Plan for a series, after what was released from it.
        cells: Without a store: number of keys that could occur, such as 1e9.
        domain: Instead: the domain, such as strings(max_bytes=32).
        max_keys: Without a store: keys that one unit counts towards.
        noise: Without a store: family of noise; gaussian by default.
        bounding: Without a store: keep (the default) or share.
        measure: Without a store: a measure of --measures, such as price:clip=100,step=0.01; repeat it.
        count: True count to show the error at; repeat it. 10 to 10000 by default.
        shows: Instead of levels: the least one that shows a key of this many units.
        probability: With which --shows shows it; 0.95 by default.
        equal: Instead of levels: the cap that leaves room for this many equal series.
        within: Without a store: what --equal divides, such as 'epsilon_delta(4, 1e-6)' or a rho.
    """
    if epsilon and delta is None:
        raise DeclarationError("--epsilon needs --delta, such as 1e-6 (0 with Laplace noise)")
    levels = [*(level or ()), *(sh.EpsilonDelta(each, delta or 0) for each in epsilon or ())] or None
    asked = given(published, counts=count, shows=shows, probability=probability, equal=equal)
    alone = given(
        d=None if cells is None else _whole(cells), domain=domain, max_keys=max_keys, noise=noise, bounding=bounding,
        within=within, measures=measure,
    )  # fmt: skip
    if store is None and series is None:
        if max_keys is None:
            raise DeclarationError("without a store, plan needs --max-keys and either --cells or --domain")
        if "measures" in asked or measure:
            alone["measures"] = _sums(measure, asked.get("measures"))
        made = sh.plan(levels, **asked | alone)
    elif store is None or series is None:
        raise DeclarationError("give a store and --series, or neither and --cells or --domain with --max-keys")
    elif alone:
        words = (f"--{_OPTIONS.get(name, name).replace('_', '-')}" for name in alone)
        raise DeclarationError(f"a series has its own parameters: leave out {', '.join(words)}")
    else:
        planned: Any = using.store(store).series(series)
        if workload is not None:
            rows = planned.plan_workload(workload, levels).to_dicts()
            starred = [{**row, "chosen": "*" if row["chosen"] else ""} for row in rows]
            return Answer({"plan": rows}, [_ABOUT_STRATEGIES, rows_table(starred)])
        if wrong := asked.keys() - inspect.signature(planned.plan).parameters.keys():
            raise DeclarationError(f"--{min(wrong)} has no meaning for {planned.name}: leave it out, and give levels")
        made = planned.plan(**given(levels=levels), **asked)
    data = {"noise": made.noise, "levels": made.levels.to_dicts(), "counts": made.counts.to_dicts()}
    return Answer(data, [*_shown(made)])


def _sums(declared: list[str] | None, levels: str | None) -> dict[sh.Measure, Any]:
    """Return the measures of a plan without a store, with their levels."""
    if not declared or levels is None:
        raise DeclarationError("without a store, --measure declares a measure and --measures gives it a level")
    measures = measures_of(declared)
    by_name = levels_by_name(measures, levels)
    return {each: by_name[each.name] for each in measures if each.name in by_name}


def _whole(cells: str) -> int:
    """Read a number of cells exactly, however large: 1000000, 1e9, 1e69."""
    with suppress(ArithmeticError):
        number = Decimal(cells)
        if 1 <= number <= _MOST_CELLS and number == int(number):
            return int(number)
    raise DeclarationError(f"--cells takes a whole number such as 1000000 or 1e69, got {cells!r}")


def _shown(made: sh.Plan) -> Iterator[Any]:
    """Yield a table by level, a table of probabilities and errors by count, and the refused levels."""
    rows = made.levels.to_dicts()
    levels = [{k: v for k, v in row.items() if not k.startswith("all_per_")} for row in rows]
    yield _ABOUT_LEVELS
    yield rows_table(levels_for_people(levels, without="refused"))
    for row in rows:
        if "all_per_user" in row:
            yield (
                f"one release at level {row['level']} in every period: rho {row['all_per_period']} for one unit in "
                f"one period, {row['all_per_user']} for one unit in all"
            )
    by_count: dict[int, dict[str, Any]] = {}
    for row in made.counts.iter_rows(named=True):
        error = float(f"{100 * row['relative_error']:.2g}")
        cell = f"{round(100 * row['probability'], 1)} %, ± {error} %" if row["probability"] >= _SELDOM else "no"
        by_count.setdefault(row["count"], {"count": row["count"]})[row["level"]] = cell
    yield "[bold]By true count[/]: the probability of being published, and the mean relative error if it is."
    yield rows_table([*by_count.values()])
    for row in rows:
        if row["refused"] is not None:
            yield f"level {row['level']} would be refused: {escape(row['refused'])}"


def levels_for_people(levels: Sequence[Mapping[str, Any]], without: str = "") -> list[dict[str, Any]]:
    """Return the levels of a plan under names that fit a terminal; costs are shown with their currency."""
    shown = []
    for row in levels:
        adds = row["adds"] if row["currency"] == "none" else f"{row['currency']} {row['adds']}"
        named = {name: value for name, value in {**row, "adds": adds}.items() if name not in ("currency", without)}
        shown.append({_SHORT.get(name, name): value for name, value in named.items()})
    return shown
