"""What the commands do: call the Python interface and describe what came out."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sparsehist as sh
from sparsehist.cli.answer import Answer, in_words_of_the_command_line
from sparsehist.cli.tables import escape, parameters_table, rows_table
from sparsehist.declaration.checks import checked_wait
from sparsehist.errors import DeclarationError, InputError, StoreError, of_kind
from sparsehist.ledger.ledger import Ledger, law_of
from sparsehist.ledger.signatures import private_key
from sparsehist.ledger.table import unit_warning
from sparsehist.release import any_kind
from sparsehist.release.metadata import read_metadata
from sparsehist.release.parameter_rows import declaration_rows, release_rows
from sparsehist.release.releases import check_estimates, check_file, check_target, of_cells
from sparsehist.series.series import CountedSeries, Series

if TYPE_CHECKING:
    import polars as pl
    from rich.console import RenderableType

    from sparsehist.release.releases import AnyRelease
    from sparsehist.series.periodic_series import PeriodicSeries
    from sparsehist.series.running_series import RunningSeries
    from sparsehist.series.store import Store

MOST_ROWS = 1000
_VOUCHED = (
    "Adopting is safe only if the store this was copied from is gone for good, no other copy of it is used, and "
    "nothing was released after this copy was made."
)
_ABOUT_PLAN = (
    "Nothing was released. std: root of the mean variance of a query, in units.\n"
    "lower_bound: what no factorization goes below at one key per unit; ratio: of the variances."
)


def opening(store: Path, wait: float, who: str | None = None) -> Store:
    """Open a store on disk."""
    check_place(store, wait)
    return sh.open(store, wait=wait, who=who)


def counted_series(store: Store, name: str) -> Series | RunningSeries:
    """Return a series of a name that has releases of its own."""
    found = store.series(name)
    if not isinstance(found, CountedSeries):
        raise DeclarationError(f"{name} is a periodic series: name one of its periods")
    return found


def counting_of(asked: dict[str, Any]) -> sh.Counting:
    """Take what counting may use out of a command's parameters."""
    return sh.Counting(memory_limit=asked.pop("memory_limit", None), threads=asked.pop("threads", None))


def check_place(store: Path, wait: float) -> None:
    """Refuse a store in memory, which would be gone after the command, and a wait that is no number of seconds."""
    if str(store) == ":memory:":
        raise DeclarationError("a store in memory ends with the command: name a directory")
    checked_wait(wait)


def create_series(store: Path, log: sh.Files, *, key: list[str], if_exists: str, **declared: Any) -> Answer:
    """Count files into a new series."""
    wait, who, counting = declared.pop("wait"), declared.pop("who"), counting_of(declared)
    check_place(store, wait)
    done = "created" if if_exists == "error" else done_by_declaring(store, declared["name"], wait)
    log = replace(log, types=declared.pop("key_types"))
    most_keys, portable, way = declared.pop("most_keys"), declared.pop("portable"), declared.pop("bounding")
    if most_keys is not None and way == "keep":
        raise DeclarationError("most_keys goes with bounding='share'")
    bounding = sh.Keep(portable=portable) if way == "keep" else sh.Share(most_keys, portable=portable)
    home = sh.Store(store, wait=wait, who=who)
    series: Any = sh.create(home, log, key=key, if_exists=if_exists, bounding=bounding, counting=counting, **declared)
    data = {"store": str(store), "series": series.name, "status": done, "declaration": series.declaration.as_json()}
    said, warning = notes_of(series)
    hint = f"sparsehist release {store} --series {series.name} --name public --level 0.01 --out public.parquet"
    shown: list[RenderableType] = [
        f"[bold]{done} the series {series.name}[/] in {escape(str(store))}",
        parameters_table(declaration_rows(series.declaration)),
    ]
    released = series.releases().height if done == "reused" else 0
    if released:
        shown.append(f"It was released before, {counted(released, 'time')}: see sparsehist show {escape(str(store))}")
    else:
        shown += ["Nothing is published yet. Next, for example:", f"  {escape(hint)}"]
    if said is not None:
        shown.append(said)
    if warning is not None:
        data["warning"] = warning
        shown.append(f"[bold]warning[/], population {series.declaration.population}: {escape(warning)}")
    return Answer(data, shown)


def done_by_declaring(store: Path, name: str, wait: float) -> str:
    """Whether what is declared will be created, or is there: then it will be reused, or refused."""
    check_place(store, wait)
    if not store.exists():
        return "created"
    with opening(store, wait) as opened:
        return "reused" if name in (*opened.series_names(), *in_periods(opened)) else "created"


def unit_columns(given: list[str]) -> tuple[str, ...]:
    """The columns that --unit names: several in one word have commas between them."""
    return tuple(name for word in given for name in word.split(","))


def periodic_rows(made: PeriodicSeries, row: dict[str, Any]) -> list[tuple[str, str]]:
    """The public parameters of a periodic series, and what it has cost."""
    shown = [*declaration_rows(made.declaration), ("periods", row["periods"]), ("budget", row["budget"] or "none")]
    if added := made.appended():
        released = set(made.released())
        told = ", ".join(f"{period} (released)" if period in released else period for period in added)
        shown.insert(-1, ("added", told))
    if row["releases"]:
        shown += [(f"spent per {made.rule.unit_period}", f"{row['currency']} {row['per_period'].split()[0]}")]
        shown += [("spent per user", f"{row['currency']} {row['level']}")]
    return shown


def notes_of(series: Series) -> tuple[str | None, str | None]:
    """What a missing cap means under a budget that charges it, and what has to be known of the population's units."""
    declared = series.declaration
    with series.store.home.hold() as state:
        ledger = Ledger.of(state)
    warning, law = unit_warning(ledger.of_population(declared.population)), law_of(declared.noise)
    budget = ledger.budget(declared.population).now
    charges = None if budget is None or declared.cap is not None else budget.filter_for(law)
    if charges is None or charges.by_path(law):
        return None, warning
    return (
        f"It has no cap: the budget of population {declared.population} charges {declared.noise} noise once, so the "
        "level of the first release will be its cap."
    ), warning


def compare_strategies(store: Path, series: str, workload: str | None, level: str | None, wait: float) -> Answer:
    """What each strategy would do; nothing is released."""
    import polars as pl

    if workload is None:
        raise DeclarationError("--plan needs --workload")
    with opening(store, wait) as opened:
        compared = of_kind(opened.series(series), Series).plan_workload(workload, level)
    marked = compared.with_columns(chosen=pl.when("chosen").then(pl.lit("*")).otherwise(pl.lit("")))
    return Answer({"plan": compared.to_dicts()}, [_ABOUT_PLAN, rows_table(marked)])


def release_series(
    store: Path,
    series: str,
    name: str,
    *,
    step: int | None = None,
    what: str | None = None,
    out: Path | None,
    sign: Path | None,
    head: int,
    wait: float,
    who: str | None = None,
    estimates: bool = False,
    **asked: Any,
) -> Answer:
    """Make or read a release of a series, write it where that is asked, and show it."""
    if head < 0:
        raise DeclarationError(f"--head takes a number of rows from 0 up, got {head}")
    _check_destination(store, out, sign)  # before anything is drawn
    if out is not None:
        check_estimates(out, estimates=estimates)
    asked |= {option: told for option, told in (("step", step), ("what", what)) if told is not None}
    with opening(store, wait, who) as opened:
        if out is not None:
            check_file(opened.home, out, series, name, signed=sign is not None)
        made: Any = counted_series(opened, series)
        released = any_kind.release(opened.home, made.declaration, made.series_id, name, **asked)
    if out is not None:
        write_committed(released, out, sign, estimates=estimates)
    rows = (of_cells(released).estimates() if estimates else released.frame).head(head) if head else None
    return _told(released.metadata, len(released), series, out, repeated=released.repeated, head=rows)


def _told(
    metadata: dict[str, Any],
    n_rows: int,
    series: str,
    out: Path | None,
    *,
    repeated: bool,
    head: pl.DataFrame | None = None,
) -> Answer:
    """What is said of a release; `head` are the rows to show."""
    about = read_metadata(metadata)
    data: dict[str, Any] = {
        "release": about.name,
        "status": "repeated" if repeated else "released",
        "rows": n_rows,
        "out": None if out is None else str(out),
        "metadata": metadata,
    }
    shown: list[RenderableType] = [
        f"[bold]release {about.name}[/] of {series}: {counted(n_rows, 'row')}"
        + (", released before: nothing is spent" if repeated else ""),
        parameters_table(release_rows(about)),
    ]
    if head is not None:
        data["head"] = head.to_dicts()
        shown.append(rows_table(head.head(MOST_ROWS), keys=about.key))
        if head.height > MOST_ROWS:
            shown.append(f"… a table ends after {MOST_ROWS:,} rows; --json prints more, --out writes all")
    if not n_rows:
        shown.append("No noisy count is above the threshold: a finer level, in another release, publishes more.")
    again = "committed to the store, written nowhere: give --out to write it, now or later"
    shown.append(again if out is None else f"written to {escape(str(out))}")
    return Answer(data, shown)


def _check_destination(store: Path, out: Path | None, sign: Path | None) -> None:
    if out is not None:
        check_target("--out", out, store)
    if sign is not None:
        if out is None:
            raise DeclarationError("--sign signs the file that --out names")
        private_key(sign)


def write_committed(released: AnyRelease, out: Path, sign: Path | None, *, estimates: bool = False) -> None:
    """Write a release, and say where it is if that fails."""
    try:
        released.write(out, sign=sign, estimates=estimates)
    except (StoreError, InputError) as problem:
        raise type(problem)(
            f"{problem}. The release {released.name!r} is committed to the store: repeat the command to write it"
        ) from None


def check_store(store: Path, *, wait: float) -> Answer:
    """Compare every file of a store with its digest, and erase what was set aside."""
    check_place(store, wait)
    with sh.Store(store, wait=wait) as opened, opened.home.hold() as state:
        state.verify()
    return Answer(
        {"store": str(store), "status": "whole"}, [f"{escape(str(store))} is whole: every file is as it was written"]
    )


def adopt_store(store: Path, *, home_is_gone: bool, wait: float) -> Answer:
    """Adopt a store; on a terminal, ask whoever does not vouch yet."""
    check_place(store, wait)
    if not home_is_gone and sys.stdin.isatty():
        home_is_gone = input(f"{_VOUCHED} Type 'home is gone' if so: ").strip().lower() == "home is gone"
    sh.adopt(store, home_is_gone=home_is_gone, wait=wait)
    return Answer({"store": str(store), "status": "adopted"}, [f"{escape(str(store))} is ready for use"])


def check_files(log: sh.Files, *, domain: str | None, **declared: Any) -> Answer:
    """Tell the owner of a log what would be refused, left out or cut."""
    from sparsehist.counting.log_check import checked
    from sparsehist.counting.progress import reporting

    asked = {"input": log.paths, "unit": declared["unit"], "key": declared["key"], "max_keys": declared["max_keys"]}
    missing = [f"--{name.replace('_', '-')}" for name, value in {**asked, "domain": domain}.items() if not value]
    if missing or domain is None:
        raise DeclarationError(f"to check a log, give {', '.join(missing)}; to check a store, --store")
    with reporting(None) as report:
        around = [max(1, quarters * declared["max_keys"] // 4) for quarters in (1, 2, 4, 8, 16, 64)]
        found, bias = checked(log, domain=domain, bounds=around, progress=report, **declared)
    told = found["outcome"].map_elements(in_words_of_the_command_line, return_dtype=found["outcome"].dtype)
    found = found.with_columns(told)
    refused = bool(found["outcome"].str.starts_with("refused").any())
    verdict = "[bold red]`create` would refuse this log[/]" if refused else "`create` would take this log"
    shown: list[RenderableType] = [rows_table(found)]
    if bias is not None and bias.height:
        shown.append(
            "What bounding takes: pairs_cut is its share of all pairs of a unit and a key; keep_bias and share_bias\n"
            "are, in counts, the root mean square over the 500 largest keys."
        )
        shown.append(rows_table([{name: _short(value) for name, value in row.items()} for row in bias.to_dicts()]))
    shown.append(f"{verdict}. The numbers are secret: they are for the owner of the log.")
    data = {"refused": refused, "rules": found.to_dicts(), "bias": [] if bias is None else bias.to_dicts()}
    return Answer(data, shown, exit_code=InputError.exit_code if refused else 0)


def _short(value: float | str) -> float | str:
    return value if isinstance(value, int | str) else float(f"{value:.3g}")


def chosen_bound(store: Path, log: sh.Files, **asked: Any) -> Answer:
    """Choose max_keys privately, and say what it rests on and what it cost."""
    home = sh.Store(store, wait=asked.pop("wait"), who=asked.pop("who"))
    choice = sh.choose_max_keys(home, log, counting=counting_of(asked), **asked)
    best = choice.estimates.sort("error", "max_keys").head(5)
    data = {
        "max_keys": choice.max_keys, "bounding": choice.bounding, "level": choice.level,
        "series": [choice.keys, choice.profile], "estimates": choice.estimates.to_dicts(),
    }  # fmt: skip
    shown: list[RenderableType] = [
        f"[bold]--max-keys {choice.max_keys} --bounding {choice.bounding}[/]",
        "What the best bounds would cost a key among the largest, in counts:",
        rows_table([{name: _short(value) for name, value in row.items()} for row in best.to_dicts()]),
        f"Level {choice.level} is spent, in the series {choice.keys} and {choice.profile}; later releases add to it.",
    ]
    return Answer(data, shown)


def show_store(store: Path, *, wait: float) -> Answer:
    """Show series and releases."""
    with opening(store, wait) as opened:
        every = [counted_series(opened, name) for name in opened.series_names()]
        found = [(series, series.releases().to_dicts()) for series in every if series.declaration.period is None]
        logs: list[Any] = [opened.series(name) for name in in_periods(opened)]
        periodic = [(made, made.progress()) for made in logs]
    listed = [
        {"name": series.name, "declaration": series.declaration.as_json(), "releases": releases}
        for series, releases in found
    ]
    shown: list[RenderableType] = [] if found or periodic else ["the store has no series"]
    for series, releases in found:
        shown += [f"[bold]{series.name}[/]", parameters_table(declaration_rows(series.declaration))]
        unused = {name for name in ("workload", "threshold") if all(row[name] is None for row in releases)}
        used = [{name: value for name, value in row.items() if name not in unused} for row in releases]
        shown.append(rows_table(used) if used else "  no releases yet")
    told = []
    for made, row in periodic:  # one for all its periods
        told.append(
            {"name": made.name, "declaration": made.rule.as_json(), "progress": row, "added": made.appended()}
        )
        shown += [f"[bold]{made.name}[/], a log in {made.rule.what}s", parameters_table(periodic_rows(made, row))]
    return Answer({"store": str(store), "series": listed, "periodic": told}, shown)


def in_periods(opened: Store) -> list[str]:
    """Names of the logs in periods; what they need is imported for them alone."""
    with opened.home.hold() as state:
        return [*Ledger.of(state).limits.periods]


def drop_series(store: Path, series: str, *, yes: bool, reason: str | None, who: str | None, wait: float) -> Answer:
    """Erase a series, if whoever asks means it."""
    with opening(store, wait, who) as opened:
        opened.series(series)
        with opened.home.hold() as state:
            warning = Ledger.of(state).ended_by_dropping(series)
        if not yes:
            confirm(f"{warning}Erase the series {series} of {store} for ever? Type its name: ", series, warning)
        opened.drop(series, reason=reason)
    shown = [f"{warning}Erased the series {series}; what it has cost stays in the ledger"]
    data = {"store": str(store), "series": series, "status": "dropped"}
    return Answer(data | ({"warning": warning.strip()} if warning else {}), shown)


def confirm(question: str, answer: str, warning: str = "") -> None:
    """Ask on the terminal."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise DeclarationError(f"{warning}This cannot be undone: give --yes to confirm")
    sys.stderr.write(question)
    sys.stderr.flush()
    if sys.stdin.readline().strip() != answer:
        raise DeclarationError("another name was typed: nothing was done")


def counted(n: int, what: str) -> str:
    """A number of things."""
    return f"{n:,} {what}" if n == 1 else f"{n:,} {what}s"
