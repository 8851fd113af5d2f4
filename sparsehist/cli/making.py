"""Commands that make series: create, append, finish, check."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import polars as pl
from cyclopts import Parameter

import sparsehist as sh
from sparsehist.cli import options
from sparsehist.cli.answer import Answer, in_options
from sparsehist.cli.declared import given, option_names, options_of
from sparsehist.cli.options import DEFAULT, READ, ReadingOptions, StorePath, Using
from sparsehist.cli.tables import escape, parameters_table, rows_table, significant
from sparsehist.counting.log_check import checked
from sparsehist.counting.progress import reporting
from sparsehist.errors import DeclarationError, InputError
from sparsehist.release.parameter_rows import declaration_rows
from sparsehist.series.series import Series

if TYPE_CHECKING:
    from rich.console import RenderableType

_Declared = options_of("Declared")
_NEEDED = {"--input": "input", "--unit": "unit", "--key": "key", "--domain": "domain", "--max-keys": "max_keys"}
_Checked = options_of("Checked", ("unit", "key", "domain", "max_keys", "on_null", "on_outside"), optional=True)


def create(
    store: StorePath,
    /,
    *,
    declared: Annotated[_Declared, Parameter(name="*")],  # type: ignore[valid-type]
    input: options.Inputs = None,  # noqa: A002
    if_exists: options.IfExists = "error",
    reading: Annotated[ReadingOptions, Parameter(name="*")] = READ,
    using: Using = DEFAULT,
) -> Answer:
    r"""Count a log into a new series, or declare one whose logs are appended.

    Reads the log once, counts for every key how many units touched it, keeps at
    most --max-keys keys of each unit, and stores the counts in a private
    directory (mode 0700). Nothing is published and nothing is spent yet. The
    declaration (unit, key, bound, domain, noise, cap) is fixed from then on.

    With --steps (running counts of one log that goes on) or --every (one
    histogram per day, week or month) nothing is counted yet: append adds the
    log of each step or period.

    For example:
      sparsehist create logs.sparsehist --input 'log/*.parquet' --unit user_id \
          --key query --max-keys 20 --domain 'strings(max_bytes=32)' --cap 2 \
          --name queries
      sparsehist create logs.sparsehist --unit user_id --key query --max-keys 20 \
          --domain 'strings(max_bytes=32)' --steps 365 --name daily
    """
    asked = given(declared)
    appended = "steps" in asked or "every" in asked
    if appended and (input or reading != READ):
        raise DeclarationError(
            "with --steps or --every, logs are appended: give --input and how to read it to append"
        )
    log = None if appended else reading.files(input)
    name = asked["name"]
    opened, existed = using.new(store), False
    if if_exists == "reuse" and store.exists():
        existed = name in (*opened.series_names(), *options.periodic_names(opened))
    series: Any = sh.create(opened, log, **asked, if_exists=if_exists, counting=reading.counting())
    warning = opened.ledger(series=name, full=True)["warning"].drop_nulls()
    released = 0 if appended else series.releases().height
    status = "reused" if existed else "created"
    data = {"store": str(store), "series": name, "status": status, "declaration": series.declaration.as_json()}
    shown: list[RenderableType] = [
        f"[bold]{status} the series {name}[/] in {escape(str(store))}",
        parameters_table(declaration_rows(series.declaration)),
    ]
    if appended:
        which = "--step 1" if "steps" in asked else "--period 2026-W01"
        shown += ["Logs are appended. For example:"]
        shown.append(f"  {escape(f'sparsehist append {store} --series {name} {which} --input log.parquet')}")
    elif released:
        shown.append(f"It has {released} releases: see sparsehist show {escape(str(store))}")
    else:
        next_step = f"sparsehist release {store} --series {name} --name public --level 0.01 --out public.parquet"
        shown += ["Nothing is published yet. Next, for example:", f"  {escape(next_step)}"]
    if len(warning):
        data["warning"] = warning[0]
        shown.append(f"[bold]warning[/], population {series.declaration.population}: {escape(warning[0])}")
    return Answer(data, shown)


def append(
    store: StorePath,
    /,
    *,
    series: options.SeriesName,
    step: Annotated[str | None, Parameter(help="Of a running series: a number from 1, or a day in it.")] = None,
    period: Annotated[
        str | None,
        Parameter(help="Of a periodic series: 2026-W12, 2026-03, any day in it (2026-03-17), or a number from 1."),
    ] = None,
    time: Annotated[
        str | None, Parameter(help="With --period: column of the time of each row, to be checked.")
    ] = None,
    drop_other_periods: Annotated[bool, Parameter(help="With --time: leave rows of other periods out.")] = False,
    input: options.Inputs = None,  # noqa: A002
    reading: Annotated[ReadingOptions, Parameter(name="*")] = READ,
    using: Using = DEFAULT,
) -> Answer:
    """Append the log of the next step to a running series, or that of a period, all or nothing.

    The same log again changes nothing and succeeds. Another log for a step or a
    period that was appended is refused: its counts never change. Of a running
    series, and where a unit counts in some periods only, the store keeps who
    counted, as secret as the log, until finish erases it.

    For example:
      sparsehist append logs.sparsehist --series daily --step 1 --input day_1.parquet
    """
    if (step is None) == (period is None):
        raise DeclarationError("append takes --step for a running series, or --period for a periodic series")
    if period is None and (time is not None or drop_other_periods):
        raise DeclarationError("--time and --drop-other-periods go with --period")
    asked: dict[str, Any] = {"step": int(step) if step and step.isdecimal() else step}
    if period is not None:
        asked = {"period": period, "time": time, "on_other_period": "drop" if drop_other_periods else "error"}
    with using.open(store) as opened:
        goes_on: Any = _appended(opened, series)
        before = goes_on.appended() if period is not None else []
        made = goes_on.append(reading.files(input), counting=reading.counting(), **asked)
        appended = made if period is None else made.declaration.period not in before
    what = f"step {step}" if period is None else f"period {period}"
    data = {"store": str(store), "series": series, "status": "appended" if appended else "repeated"}
    done = f"appended {what} to {series}; nothing is published by that"
    again = f"{what} of {series} was appended with this log before; nothing changed"
    return Answer(data | {"step" if period is None else "period": step or period}, [done if appended else again])


def finish(
    store: StorePath, /, *, series: options.SeriesName, yes: options.Yes = False, using: Using = DEFAULT
) -> Answer:
    """Let nothing more be appended to a running or periodic series, and erase who counted; releases go on.

    This cannot be undone.

    For example:
      sparsehist finish logs.sparsehist --series daily --yes
    """
    with using.open(store) as opened:
        ending: Any = _appended(opened, series)
        if not yes:
            confirm(f"Let nothing more be appended to {series} of {store}? Type its name: ", series)
        ending.finish()
    shown = [f"finished {series}: nothing more can be appended, and nothing says who counted"]
    return Answer({"store": str(store), "series": series, "status": "finished"}, shown)


def _appended(store: sh.Store, name: str) -> object:
    """A running or periodic series."""
    found = store.series(name)
    if isinstance(found, Series):
        raise DeclarationError(f"{name} was counted once: only a running or periodic series takes more")
    return found


def confirm(question: str, answer: str, warning: str = "") -> None:
    """Ask on the terminal."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise DeclarationError(f"{warning}This cannot be undone: give --yes to confirm")
    sys.stderr.write(question)
    sys.stderr.flush()
    if sys.stdin.readline().strip() != answer:
        raise DeclarationError("another name was typed: nothing was done")


def check(
    log: Annotated[list[str] | None, Parameter(help="Files or quoted globs, as for --input.")] = None,
    /,
    *,
    input: options.Inputs = None,  # noqa: A002
    declared: Annotated[_Checked | None, Parameter(name="*")] = None,  # type: ignore[valid-type]
    reading: Annotated[ReadingOptions, Parameter(name="*")] = READ,
    store: Annotated[Path | None, Parameter(help="Instead of a log: check every file of a store.")] = None,
    using: Using = DEFAULT,
) -> Answer:
    r"""Show the owner of a log what `create` would refuse, leave out or cut.

    Runs every rule over the log: rows without unit or key, keys outside the
    domain, units above the bound. Nothing is written. Exits with 2 if `create`
    would refuse the log. The numbers are those of the true log: they are for its
    owner, are not private, and must not be published.

    With --store it compares every file of a store with its digest instead.

    For example:
      sparsehist check 'log/*.parquet' --unit user_id --key query \
          --max-keys 20 --domain 'strings(max_bytes=32)'
      sparsehist check --store logs.sparsehist
    """
    if store is not None:
        with using.open(store) as opened, opened.home.hold() as state:
            state.verify()
        whole = f"{escape(str(store))} is whole: every file is as it was written"
        return Answer({"store": str(store), "status": "whole"}, [whole])
    asked: dict[str, Any] = {} if declared is None else given(declared)
    paths = [*(log or []), *(input or [])]
    missing = [option for option, name in _NEEDED.items() if name not in asked and not (name == "input" and paths)]
    if missing:
        raise DeclarationError(f"to check a log, give {', '.join(missing)}; to check a store, --store")
    around = [max(1, quarters * asked["max_keys"] // 4) for quarters in (1, 2, 4, 8, 16, 64)]
    with reporting(None) as progress:
        found, bias = checked(
            reading.files(paths),
            bounds=around,
            progress=progress,
            key_types=reading.types(),
            **asked,
            **reading.counting().resources(),
        )
    outcomes = [in_options(outcome, option_names()) for outcome in found["outcome"]]
    found = found.with_columns(outcome=pl.Series(outcomes, dtype=pl.String))
    refused = bool(found["outcome"].str.starts_with("refused").any())
    shown: list[RenderableType] = [rows_table(found)]
    if bias is not None and bias.height:
        shown.append(
            "What bounding takes: pairs_cut is its share of all pairs of a unit and a key; keep_bias and share_bias\n"
            "are, in counts, the root mean square over the 500 largest keys."
        )
        shown.append(rows_table(significant(bias.to_dicts())))
    verdict = "[bold red]`create` would refuse this log[/]" if refused else "`create` would take this log"
    shown.append(f"{verdict}. The numbers are secret: they are for the owner of the log.")
    data = {"refused": refused, "rules": found.to_dicts(), "bias": [] if bias is None else bias.to_dicts()}
    return Answer(data, shown, exit_code=InputError.exit_code if refused else 0)
