"""The commands about series whose log goes on; each imports what it needs when it runs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from sparsehist.cli import shared_options as options
from sparsehist.cli.answer import Answer


def create_running(
    store: options.StorePath,
    /,
    *,
    unit: options.Unit,
    key: options.Key,
    max_keys: Annotated[int, Parameter(help="Distinct keys one unit counts towards at most, over all steps.")],
    domain: options.Domain,
    name: Annotated[str, Parameter(help="Name of the new series: a-z, 0-9 and _.")],
    steps: Annotated[int, Parameter(help="How many steps there will be at most, days of a year say.")] = 365,
    cap: Annotated[str | None, Parameter(help="Refuse releases beyond this level, exact.")] = None,
    population: options.Population = "default",
    declared: options.DeclaringOptions = options.DECLARED,
) -> Answer:
    r"""Declare a series whose log goes on, day by day.

    Nothing is counted yet: append adds the log of a step, and release --step the
    running count of any step that was appended. All steps and levels together
    cost what the finest level costs. A unit counts once per key over all steps.

    For example:
      sparsehist create-running logs.sparsehist --unit user_id --key query \
          --max-keys 20 --domain 'strings(max_bytes=32)' --steps 365 --cap 1 \
          --name daily
    """
    import sparsehist as sh
    from sparsehist.cli.commands import done_by_declaring, unit_columns

    done = done_by_declaring(store, name, declared.wait)
    asked = declared.parameters
    home = sh.Store(store, wait=asked.pop("wait"), who=asked.pop("who"))
    asked.pop("key_types")
    series = sh.create(
        home, name=name, unit=unit_columns(unit), key=key, max_keys=max_keys, domain=domain, steps=steps, cap=cap,
        population=population, **asked,
    )  # fmt: skip
    made = series.declaration
    return _declared(store, name, done, f"the running series {name}", made, made.as_json(), "--step 1")


def create_periodic(
    store: options.StorePath,
    /,
    *,
    unit: options.Unit,
    key: options.Key,
    max_keys: Annotated[int, Parameter(help="Distinct keys one unit counts towards at most, in each period.")],
    domain: options.Domain,
    name: Annotated[str, Parameter(help="Name of all periods together, and of their population: a-z, 0-9 and _.")],
    period: Annotated[str, Parameter(help="day, week, month, or a whole number of steps.")] = "week",
    protects: Annotated[
        str,
        Parameter(help="What --budget counts for: user (the sum of all periods), or user-week and the like."),
    ] = "user",
    most_periods: Annotated[int | None, Parameter(help="In how many periods a unit counts at most; all.")] = None,
    periods: Annotated[int | None, Parameter(help="How many there will be at most; those of a year.")] = None,
    budget: Annotated[
        str | None,
        Parameter(help="For all of them together: rho, or 'epsilon_delta(1, 1e-6)'."),
    ] = None,
    declared: options.DeclaringOptions = options.DECLARED,
) -> Answer:
    r"""Declare a log in periods: a series for each, with one budget for all.

    Nothing is counted yet: append --period adds the log of a period, as a series
    like any other. One unit in one period bears the cost of the costliest period,
    one unit over all of them the sum; ledger and show say both.

    For example:
      sparsehist create-periodic logs.sparsehist --unit user_id --key query \
          --max-keys 20 --domain 'strings(max_bytes=32)' --period week \
          --protects user-week --budget 0.1 --name weekly
    """
    import sparsehist as sh
    from sparsehist.cli.commands import done_by_declaring, unit_columns
    from sparsehist.release.calendar import EXAMPLES

    done = done_by_declaring(store, name, declared.wait)
    asked = declared.parameters
    home = sh.Store(store, wait=asked.pop("wait"), who=asked.pop("who"))
    asked.pop("key_types")
    every = sh.Every(period, periods, protects, most_periods, budget)
    made: Any = sh.create(
        home, name=name, unit=unit_columns(unit), key=key, max_keys=max_keys, domain=domain, every=every, **asked
    )
    what, first = f"{name}, a log in {made.rule.what}s,", f"--period {EXAMPLES.get(period, '1')}"
    return _declared(store, name, done, what, made, made.rule.as_json(), first)


def _declared(store: Path, name: str, done: str, what: str, made: Any, declaration: Any, first: str) -> Answer:
    from sparsehist.cli.commands import periodic_rows
    from sparsehist.cli.tables import escape, parameters_table
    from sparsehist.release.parameter_rows import declaration_rows

    log = "log.parquet" if "period" in first else "day_1.parquet"
    hint = f"sparsehist append {store} --series {name} {first} --input {log}"
    rows = periodic_rows(made, made.progress()) if "period" in first else declaration_rows(made)
    shown: list[Any] = [f"[bold]{done} {what}[/] in {escape(str(store))}", parameters_table(rows)]
    if done == "created":
        shown += ["Nothing is counted yet. Next, for example:", f"  {escape(hint)}"]
    return Answer({"store": str(store), "series": name, "status": done, "declaration": declaration}, shown)


def append(
    store: options.StorePath,
    /,
    *,
    series: options.SeriesName,
    step: Annotated[int | None, Parameter(help="Of a running series, from 1.")] = None,
    period: Annotated[
        str | None,
        Parameter(help="Of a log in periods: 2026-W12, 2026-03, any day in it (2026-03-17), or a number from 1."),
    ] = None,
    time: Annotated[
        str | None, Parameter(help="Of a log in periods: column by which rows of other periods are refused.")
    ] = None,
    drop_other_periods: Annotated[bool, Parameter(help="With --time: leave such rows out instead.")] = False,
    input: options.Input,  # noqa: A002
    reading: options.ReadingOptions = options.READ,
    who: options.Who = None,
    wait: options.Wait = 0.0,
) -> Answer:
    """Append the log of the next step to a running series, or that of a period, all or nothing.

    The same log again changes nothing and succeeds. Another log for a step or a
    period that was appended is refused: its counts never change. Of a running
    series, and where a unit counts in some periods only, the store keeps who
    counted, as secret as the log, until finish erases it.

    For example:
      sparsehist append logs.sparsehist --series daily --step 1 --input day_1.parquet
    """
    import sparsehist as sh
    from sparsehist.cli.commands import opening
    from sparsehist.errors import DeclarationError
    from sparsehist.series.running_series import RunningSeries

    if (step is None) == (period is None):
        raise DeclarationError("append takes --step for a running series, or --period for a log in periods")
    log, how = reading.files(input), reading.limits
    made: Any = opening(store, wait, who).series(series)
    if isinstance(made, RunningSeries) != (step is not None):
        raise DeclarationError(f"{series} takes --{'step' if isinstance(made, RunningSeries) else 'period'}")
    if step is None:
        before = made.appended()
        with _telling() as tell:
            added = made.append(
                log, period=str(period), time=time, on_other_period="drop" if drop_other_periods else "error",
                counting=sh.Counting(progress=tell, **how),
            )  # fmt: skip
        name, its, repeated = added.name, str(added.declaration.period), added.declaration.period in before
        shown = f"{its} of {series} was" if repeated else f"appended {its} to {series}: the series {name}"
        data: dict[str, Any] = {"store": str(store), "series": name}
    else:
        if time is not None or drop_other_periods:
            raise DeclarationError("--time and --drop-other-periods go with --period")
        repeated = not made.append(log, step=step, counting=sh.Counting(**how))
        of_steps = f"appended step {step} of {made.steps} to the series {series}"
        shown = f"step {step} of the series {series} was" if repeated else of_steps
        data = {"store": str(store), "series": series, "step": step}
    shown += " appended with this log before; nothing changed" if repeated else "; nothing is published by that"
    return Answer(data | {"status": "repeated" if repeated else "appended"}, [shown])


@contextmanager
def _telling() -> Iterator[Callable[[str], None]]:
    """Phases as everywhere; and that rows are left out, also where no phases are shown."""
    from sparsehist.counting.progress import reporting
    from sparsehist.release.periods import LEAVING_OUT

    with reporting(None) as report:

        def tell(phase: str) -> None:
            report(phase)
            if phase.startswith(LEAVING_OUT) and not sys.stderr.isatty():
                sys.stderr.write(f"{phase}\n")

        yield tell


def finish(
    store: options.StorePath,
    /,
    *,
    series: options.SeriesName,
    yes: options.Yes = False,
    who: options.Who = None,
    wait: options.Wait = 0.0,
) -> Answer:
    """Let nothing more be appended to a running series or a log in periods, and erase who counted; releases go on.

    This cannot be undone.

    For example:
      sparsehist finish logs.sparsehist --series daily --yes
    """
    from sparsehist.cli.commands import confirm, opening
    from sparsehist.errors import DeclarationError

    ending: Any = opening(store, wait, who).series(series)
    if not hasattr(ending, "finish"):
        raise DeclarationError(f"{series} was counted once: there is nothing to finish")
    if not yes:
        confirm(f"Let nothing more be appended to {series} of {store}, for ever? Type its name: ", series)
    ending.finish()
    shown = [f"finished {series}: nothing more can be appended, and nothing says who counted"]
    return Answer({"store": str(store), "series": series, "status": "finished"}, shown)
