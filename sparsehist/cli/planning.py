"""The command `plan`, which shows what releases would publish and cost."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import polars as pl
from cyclopts import Parameter

import sparsehist as sh
from sparsehist.cli.answer import Answer, rows_table
from sparsehist.cli.options import DEFAULT, PublishedOptions, Using, Workload, arguments, options_of
from sparsehist.errors import DeclarationError

_SHORT_NAMES = {
    "expected_false_keys": "false keys",
    "population_epsilon": "epsilon",
    "published_50": "50 %",
    "published_95": "95 %",
    "published_99": "99 %",
}
_ABOUT_LEVELS = """\
By level, in units. 50, 95, 99 %: the true count from which a key is published with that probability.
adds: cost added to the population. epsilon: of the population afterwards, at delta 1e-6 (— if none holds)."""
_ABOUT_COUNTS = "By true count: the probability of publication, and the mean relative error if published."
_ABOUT_STRATEGIES = """\
Nothing was released. std: square root of the mean variance of an answer, in units.
ratio: mean variance over the least of all factorizations, for one key per unit."""
_Planned = options_of("Planned", "domain max_keys noise bounding")


def plan(
    store: Path | None = None,
    /,
    *,
    level: list[str] | None = None,
    epsilon: list[str] | None = None,
    delta: str | None = None,
    series: str | None = None,
    declared: Annotated[_Planned | None, Parameter(name="*")] = None,  # type: ignore[valid-type]
    published: PublishedOptions | None = None,
    count: list[int] | None = None,
    shows: int | None = None,
    workload: Workload = None,
    using: Using = DEFAULT,
) -> Answer:
    r"""Show what releases would publish and cost, without releasing anything.

    For each level, the command shows the standard deviation of the noise, the threshold,
    the expected false keys, the cost, and how large a true count must be to be published
    with a probability of 50, 95 and 99 %. For each true count given with --count, it shows
    the probability of being published and the mean relative error. With --workload, it
    compares strategies. Nothing is drawn or spent, and the log is not read.

    For example:
      sparsehist plan --domain 'strings(max_bytes=32)' --max-keys 20 --level 0.01
      sparsehist plan logs.sparsehist --series queries --level 0.5
      sparsehist plan logs.sparsehist --series visits --workload 'ranges()'

    Args:
        store: Directory of the store, with --series. Without a store, give --domain and --max-keys of a new series.
        level: Candidate level, exact; may be repeated. 0.001, 0.01, 0.1 and 1 by default.
        epsilon: Instead of --level: candidate epsilon at --delta; may be repeated.
        delta: Delta of the guarantee (epsilon, delta); needed with --epsilon.
        series: Plan further releases of this series.
        count: True count for which the error is shown; may be repeated. 10 to 10000 by default.
        shows: Instead of levels: plan the smallest level that shows a key of this many units with probability 0.95.
    """
    if epsilon and delta is None:
        raise DeclarationError("--epsilon needs --delta, such as 1e-6, or 0 with Laplace noise")
    levels = [*(level or ()), *(sh.EpsilonDelta(each, delta or 0) for each in epsilon or ())] or None
    options = arguments(published, counts=count, shows=shows, workload=workload)
    alone = arguments(declared)
    enough = "domain" in alone if series is None else not alone
    if (store is None) != (series is None) or not enough:
        raise DeclarationError("give either a store and --series, or the --domain and --max-keys of a new series")
    planned: Any = sh if store is None else using.store(store).series(str(series))
    of_strategies = workload is not None and series is not None
    applies = {"workload"} if of_strategies else inspect.signature(planned.plan).parameters.keys()
    if wrong := options.keys() - applies:
        raise DeclarationError(f"leave out this option, which does not apply to this plan: {min(wrong)}=")
    if of_strategies:
        rows = planned.plan_workload(workload, levels).to_dicts()
        starred = [{**row, "chosen": "*" if row["chosen"] else ""} for row in rows]
        return Answer({"plan": rows}, [_ABOUT_STRATEGIES, rows_table(starred)])
    plan = planned.plan(**arguments(levels=levels), **options, **alone)
    data = {"noise": plan.noise, "levels": plan.levels.to_dicts(), "counts": plan.counts.to_dicts()}
    return Answer(data, [*_shown(plan)])


def _shown(plan: sh.Plan) -> Iterator[Any]:
    """Yield two tables of a plan, by level and by true count, and a line for each level that would be refused."""
    rows = plan.levels.to_dicts()
    yield _ABOUT_LEVELS
    yield rows_table([{_SHORT_NAMES.get(name, name): row[name] for name in row if name != "refused"} for row in rows])
    percent = [(100 * pl.col(name)).round(1) for name in ("probability", "relative_error")]
    cells = plan.counts.select("count", "level", cell=pl.format("{} %, ± {} %", *percent))
    yield _ABOUT_COUNTS
    yield rows_table(cells.pivot("level", index="count", values="cell").to_dicts())
    yield from (f"level {row['level']} would be refused: {row['refused']}" for row in rows if row["refused"])
