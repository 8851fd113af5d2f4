"""The commands, as they are parsed and explained; each imports its work when it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from sparsehist import __version__
from sparsehist.cli import ledger_commands, plan_command, running_commands
from sparsehist.cli import shared_options as options
from sparsehist.cli.answer import Answer

_ABOUT = """\
Release the histogram of a sensitive log (how many units touched each key)
under differential privacy, over domains too large to list, again and again:
at any level, in any order, for the cost of the finest release.

Typical use:
  sparsehist create logs.sparsehist --input 'log/*.parquet' --unit user_id \\
      --key query --max-keys 20 --domain 'strings(max_bytes=32)' --name queries
  sparsehist release logs.sparsehist --series queries --name public \\
      --level 0.01 --false-keys 1 --out public.parquet
  sparsehist ledger logs.sparsehist"""

_EPILOGUE = """\
--json, anywhere on the line, prints one JSON object instead of text;
--log-level info tells on stderr what is done, by names and declared
parameters (default warning: nothing but errors).
Exit codes: 0 done or already done, 2 bad input or a full disk, 3 refused by a
limit, 4 store in use, 5 a series to be reused has another declaration, query or
log; 1 an internal error or output that cannot be printed, 130 interrupted, 141
the reader of the output has gone."""

app = App(
    name="sparsehist",
    help=_ABOUT,
    help_epilogue=_EPILOGUE,
    help_format="plaintext",
    version=__version__,
    exit_on_error=False,
    print_error=False,
    result_action="return_value",
    suppress_keyboard_interrupt=False,
    default_parameter=Parameter(negative=()),
)

Rows = Annotated[int, Parameter(help="Print at most this many rows of a result.")]
Parameters = Annotated[
    list[str] | None,
    Parameter(
        help="name=value for $name in the script; may be repeated. Written like a SQL number, true, false, null or "
        "'text', the value is that; everything else is text.",
    ),
]


@app.command(sort_key=0)
def create(
    store: options.StorePath,
    /,
    *,
    input: options.Input,  # noqa: A002
    unit: options.Unit,
    key: options.Key,
    max_keys: options.MaxKeys,
    domain: options.Domain,
    name: Annotated[str, Parameter(help="Name of the new series: a-z, 0-9 and _.")],
    noise: Annotated[
        str,
        Parameter(
            help="Family of noise: gaussian (level: rho of zCDP), laplace or discrete_laplace (level: epsilon of "
            "pure DP), poisson or skellam (level: 1/mean)."
        ),
    ] = "gaussian",
    cap: Annotated[
        str | None,
        Parameter(help="Refuse releases beyond this level, workloads added to it; exact, such as 2 or 1/3."),
    ] = None,
    population: options.Population = "default",
    bounding: options.Bounding = "keep",
    most_keys: options.MostKeys = None,
    portable: Annotated[
        bool, Parameter(help="Cut units with too many keys as every engine would, so that each counts alike.")
    ] = False,
    reading: options.ReadingOptions = options.READ,
    declared: options.DeclaringOptions = options.DECLARED,
) -> Answer:
    r"""Count a log into a new series.

    Reads the log once, counts for every key how many units touched it, keeps at
    most --max-keys keys of each unit, and stores the counts in a private
    directory (mode 0700). Nothing is published and nothing is spent yet. The
    declaration (unit, key, bound, domain, noise, cap) is fixed from then on.

    For example:
      sparsehist create logs.sparsehist --input 'log/*.parquet' --unit user_id \
          --key query --max-keys 20 --domain 'strings(max_bytes=32)' --cap 2 \
          --name queries
    """
    from sparsehist.cli.commands import create_series, unit_columns

    return create_series(
        store, reading.files(input),
        name=name, unit=unit_columns(unit), key=key, max_keys=max_keys, domain=domain, noise=noise, cap=cap,
        population=population, bounding=bounding, most_keys=most_keys, portable=portable,
        **reading.limits, **declared.parameters,
    )  # fmt: skip


@app.command(sort_key=1)
def release(
    store: options.StorePath,
    /,
    *,
    series: options.SeriesName,
    name: Annotated[
        str, Parameter(help="Name of the release: a-z, 0-9 and _. It stands for the same numbers for ever.")
    ],
    step: Annotated[int | None, Parameter(help="Of a running series: up to which step units are counted.")] = None,
    what: Annotated[
        str | None,
        Parameter(
            help="Of a running series: running counts, or 'new' units of the step, or of 'blocks(7)' of steps."
        ),
    ] = None,
    level: Annotated[
        str | None,
        Parameter(
            help="Privacy level, exact (0.01, 1/3); larger is finer. With Gaussian noise it is rho of zCDP. Needed "
            "for a new name."
        ),
    ] = None,
    threshold: Annotated[
        float | None, Parameter(help="Publish cells whose noisy count is above this many units.")
    ] = None,
    false_keys: Annotated[
        float | None,
        Parameter(
            help="Instead of --threshold: empty keys to expect among the published; 0.01 when neither is given."
        ),
    ] = None,
    delta: Annotated[
        float | None,
        Parameter(
            help="For an open domain, instead of --threshold: what this release may add to the delta of the series; "
            "half of what remains when neither is given."
        ),
    ] = None,
    max_false_keys: Annotated[float, Parameter(help="Refuse a threshold that lets more empty keys through.")] = 1e7,
    out: options.Out = None,
    sign: options.SignBy = None,
    head: Annotated[int, Parameter(help="Also print this many of the largest rows.")] = 0,
    estimates: Annotated[
        bool,
        Parameter(
            help="Beside noisy counts, best estimates given that the key was published, and their errors: in .csv "
            "and in what --head prints. They cost nothing."
        ),
    ] = False,
    who: options.Who = None,
    wait: options.Wait = 0.0,
) -> Answer:
    r"""Release a series at a level, or write out again a release that was made.

    Levels may come in any order, finer or coarser than before: all releases of
    the series together cost what the finest of them costs. The release is
    committed to the store before anything is written; the same request again
    succeeds, draws nothing, costs nothing and writes the same file.

    For example:
      sparsehist release logs.sparsehist --series queries --name public \
          --level 0.01 --false-keys 1 --out public.parquet
    """
    from sparsehist.cli.commands import release_series

    return release_series(
        store, series, name,
        level=level, threshold=threshold, false_keys=false_keys, open_delta=delta, max_false_keys=max_false_keys,
        out=out, sign=sign, head=head, estimates=estimates, who=who, wait=wait, step=step, what=what,
    )  # fmt: skip


@app.command(sort_key=2, usage="Usage: sparsehist check [OPTIONS] [LOG]\n")
def check(
    log: Annotated[list[str] | None, Parameter(help="Files or quoted globs, as for --input.")] = None,
    /,
    *,
    input: Annotated[list[str] | None, Parameter(help="Parquet, CSV or JSON lines: file or quoted glob.")] = None,  # noqa: A002
    unit: options.Unit | None = None,
    key: options.Key | None = None,
    domain: options.Domain | None = None,
    max_keys: options.MaxKeys | None = None,
    on_null: options.OnNull = "error",
    on_outside: options.OnOutside = "error",
    key_type: options.KeyTypes = None,
    reading: options.ReadingOptions = options.READ,
    store: Annotated[
        Path | None, Parameter(help="Instead of a log: check every file of a store, and clear what dead runs left.")
    ] = None,
    wait: options.Wait = 0.0,
) -> Answer:
    r"""Show the owner of a log what `create` would refuse, leave out or cut.

    Runs every rule over the log: rows without unit or key, keys outside the
    domain, units above the bound. Nothing is written. Exits with 2 if `create`
    would refuse the log. The numbers are those of the true log: they are for its
    owner, are not private, and must not be published.

    With --store it reads every file of a store instead, says which are damaged,
    and removes the remains of counts and backups that were killed.

    For example:
      sparsehist check 'log/*.parquet' --unit user_id --key query \
          --max-keys 20 --domain 'strings(max_bytes=32)'
      sparsehist check --store logs.sparsehist
    """
    from sparsehist.cli.commands import check_files, check_store, unit_columns

    if store is not None:
        return check_store(store, wait=wait)
    return check_files(
        reading.files([*(log or []), *(input or [])]),
        unit=unit_columns(unit or []), key=key, domain=domain, max_keys=max_keys, on_null=on_null,
        on_outside=on_outside, key_types=options.key_types(key_type), **reading.limits,
    )  # fmt: skip


@app.command(sort_key=0)
def choose_max_keys(
    store: options.StorePath,
    /,
    *,
    input: options.Input,  # noqa: A002
    unit: options.Unit,
    key: options.Key,
    domain: options.Domain,
    name: Annotated[
        str, Parameter(help="Of the choice: its series are called NAME_keys and NAME_profile.")
    ] = "choice",
    noise: Annotated[str, Parameter(help="Family of noise of the later series.")] = "gaussian",
    population: options.Population = "default",
    largest_keys: Annotated[
        int, Parameter(help="For how many keys, the largest ones, the error is to be small.")
    ] = 500,
    level: Annotated[str, Parameter(help="What the choice may cost, exact.")] = "0.005",
    release_level: Annotated[
        str | None, Parameter(help="Level of the later release; refuse if the budget has no room for both.")
    ] = None,
    on_null: options.OnNull = "error",
    on_outside: options.OnOutside = "error",
    reading: options.ReadingOptions = options.READ,
    who: options.Who = None,
    wait: options.Wait = 0.0,
) -> Answer:
    r"""Choose --max-keys and --bounding for a log, privately and at a small price.

    Two small releases, which stand in the ledger and which later releases add
    to, show the largest keys and how many keys units have: enough to weigh what
    each bound would cut against its noise. Asked again, it costs nothing.

    For example:
      sparsehist choose-max-keys logs.sparsehist --input 'log/*.parquet' \
          --unit user_id --key query --domain 'strings(max_bytes=32)' \
          --level 0.01 --release-level 0.1
    """
    from sparsehist.cli.commands import chosen_bound, unit_columns

    return chosen_bound(
        store, reading.files(input),
        unit=unit_columns(unit), key=key, domain=domain, name=name, noise=noise, population=population,
        largest_keys=largest_keys, level=level, release_level=release_level, on_null=on_null, on_outside=on_outside,
        who=who, wait=wait, **reading.limits,
    )  # fmt: skip


@app.command(sort_key=1)
def release_workload(
    store: options.StorePath,
    /,
    *,
    series: options.SeriesName,
    name: Annotated[str, Parameter(help="Name of the release, unique over the series: a-z, 0-9 and _.")],
    workload: Annotated[
        str | None,
        Parameter(
            help="What is asked: prefix(), ranges(), \"ranges(keys=[('2024-01-01', '2024-01-31')])\", "
            "identity(), total(), marginals(k=2), \"marginals([['country'], ['country', 'day']])\", kronecker(…, …), "
            "union(…, …). Needed for a new name."
        ),
    ] = None,
    level: Annotated[str | None, Parameter(help="Privacy level, exact; needed for a new name.")] = None,
    strategy: Annotated[
        str,
        Parameter(
            help="How it is answered: auto takes the least mean error and keeps to it; --plan lists what there is."
        ),
    ] = "auto",
    post_processing: Annotated[
        list[str] | None, Parameter(help="consistent or non_negative; repeat it for both. Costs nothing.")
    ] = None,
    out: options.Out = None,
    sign: options.SignBy = None,
    head: Annotated[int, Parameter(help="Also print this many of the first rows.")] = 0,
    plan: Annotated[bool, Parameter(help="Release nothing: compare the strategies at this level.")] = False,
    who: options.Who = None,
    wait: options.Wait = 0.0,
) -> Answer:
    r"""Release prefix sums, ranges, marginals or other sums of a series.

    Each workload is a noise path of its own: all its releases together cost what
    the finest costs, and that adds to the cost of the cells. All ranges are
    published as one row per key, from which any range is answered later with its
    standard deviation (`sh.read(file).answer(low, high)` in Python). --plan
    spends nothing.

    For example:
      sparsehist release-workload logs.sparsehist --series visits --name by_hour \
          --workload 'ranges()' --level 0.1 --out by_hour.parquet
    """
    from sparsehist.cli.commands import compare_strategies, release_series

    if plan:
        return compare_strategies(store, series, workload, level, wait)
    return release_series(
        store, series, name, workload=workload or "",
        level=level, strategy=strategy, post_processing=post_processing, out=out, sign=sign, head=head, who=who,
        wait=wait,
    )  # fmt: skip


app.command(running_commands.create_running, sort_key=1)
app.command(running_commands.create_periodic, sort_key=1)
app.command(running_commands.append, sort_key=1)
app.command(running_commands.finish, sort_key=1)
app.command(plan_command.plan, sort_key=2, usage="Usage: sparsehist plan [OPTIONS] [STORE]\n")
app.command(ledger_commands.ledger, sort_key=3)
app.command(ledger_commands.report, sort_key=3)
app.command(ledger_commands.budget, sort_key=3)
app.command(ledger_commands.raise_cap, sort_key=3)
app.command(ledger_commands.disjoint, sort_key=3)
app.command(ledger_commands.keygen, sort_key=4)
app.command(ledger_commands.verify, sort_key=4)


@app.command(sort_key=4)
def show(store: options.StorePath, /, *, wait: options.Wait = 0.0) -> Answer:
    """Show the series of a store and their releases, with their public parameters.

    For example:
      sparsehist show logs.sparsehist
    """
    from sparsehist.cli.commands import show_store

    return show_store(store, wait=wait)


@app.command(sort_key=5)
def backup(
    store: options.StorePath,
    destination: Annotated[Path, Parameter(name="DEST", help="New directory for the copy.")],
    /,
    *,
    wait: options.Wait = 0.0,
) -> Answer:
    """Copy a store, consistently and durably.

    The copy is as secret as the store. It is refused until it is adopted in the
    place of a lost store, and for ever once the store has released something
    after it: two stores would draw two noises for one level.

    For example:
      sparsehist backup logs.sparsehist /backups/logs.sparsehist
    """
    from sparsehist.cli.commands import opening
    from sparsehist.cli.tables import escape

    with opening(store, wait) as opened:
        opened.backup(destination)
    shown = [f"copied {escape(str(store))} to {escape(str(destination))}; it holds the same secrets"]
    return Answer({"store": str(store), "backup": str(destination)}, shown)


@app.command(sort_key=6)
def adopt(
    store: options.StorePath,
    /,
    *,
    home_is_gone: Annotated[
        bool,
        Parameter(
            negative="",
            help="You vouch that the store this was copied from is gone for good, that no other copy of it is used, "
            "and that nothing was released after this copy was made. Asked for on a terminal.",
        ),
    ] = False,
    wait: options.Wait = 0.0,
) -> Answer:
    """Accept a copied or restored store in the place of one that is gone for good.

    Refused while the original is still where it was, and if anything was released
    from it since the copy was made, as far as that can be told.

    For example:
      sparsehist adopt logs.sparsehist --home-is-gone
    """
    from sparsehist.cli.commands import adopt_store

    return adopt_store(store, home_is_gone=home_is_gone, wait=wait)


@app.command(sort_key=7)
def drop(
    store: options.StorePath,
    /,
    *,
    series: options.SeriesName,
    yes: options.Yes = False,
    reason: Annotated[str | None, Parameter(help="Why; one line, kept in the ledger for good.")] = None,
    who: options.Who = None,
    wait: options.Wait = 0.0,
) -> Answer:
    """Erase a series: its keys, counts and noise.

    This cannot be undone. What the series has cost stays in the ledger, and what
    was published stays published.

    For example:
      sparsehist drop logs.sparsehist --series queries --yes
    """
    from sparsehist.cli.commands import drop_series

    return drop_series(store, series, yes=yes, reason=reason, who=who, wait=wait)


@app.command(sort_key=9)
def demo(
    *,
    directory: Annotated[
        Path, Parameter("--dir", help="Where to leave store and releases; an earlier demo there is replaced.")
    ] = Path(".demo"),
    picture: Annotated[Path | None, Parameter(help="Also save what is printed as an SVG picture.")] = None,
) -> Answer:
    """Release a real log at three levels, out of order, and show them side by side.

    The log ships with the package: a week of visits to the areas of a web site by
    37,711 people (CC BY 4.0). Takes a few seconds and needs no network.

    For example:
      sparsehist demo
    """
    from sparsehist.cli.demonstration import demonstrate

    return demonstrate(directory, picture=picture)


@app.command(sort_key=20)
def run(
    script: Annotated[Path, Parameter(help="File of statements; - reads standard input.", allow_leading_hyphen=True)],
    /,
    *,
    store: Annotated[
        Path | None, Parameter(help="Directory of the store; the first CREATE SERIES makes it if there is none.")
    ] = None,
    param: Parameters = None,
    table: Annotated[
        list[str] | None,
        Parameter(
            help="name=source: a table of the script read from s3, gs, az or https, delta:path, iceberg:path or "
            "files; may be repeated."
        ),
    ] = None,
    keep_going: Annotated[
        bool, Parameter(help="Leave out statements that are wrong or fail; run the others.")
    ] = False,
    dry_run: Annotated[bool, Parameter(help="Run nothing: show each statement and what it would spend.")] = False,
    rows: Rows = 40,
    who: options.Who = None,
    wait: options.Wait = 0.0,
) -> Answer:
    """Run a script of SQL.

    CREATE SERIES, RELEASE, PLAN, SHOW SERIES | RELEASES | LEDGER and DROP SERIES
    work on the store, all else goes to DuckDB; a release is the table
    series.release. The whole script is checked first: if anything is wrong,
    nothing runs. It stops at the first error; what was committed before stays.

    For example:
      sparsehist run script.sql --store logs.sparsehist --param level=0.01
    """
    from sparsehist.cli.sql_work import run_file

    return run_file(
        script, store, param or [], table or [], keep_going=keep_going, dry_run=dry_run, rows=rows, who=who, wait=wait
    )  # fmt: skip


@app.command(sort_key=21, usage="Usage: sparsehist sql [OPTIONS] [STORE]\n")
def sql(
    store: Annotated[Path | None, Parameter(help="Directory of the store.")] = None,
    /,
    *,
    analyst: Annotated[
        Path | None,
        Parameter(
            ("--analyst", "--read-only"),
            help="Instead of a store: a directory of published Parquet files and their public ledger, read-only.",
        ),
    ] = None,
    verify: Annotated[
        list[Path] | None,
        Parameter(help="With --analyst: public key you trust, which must have signed all of it; may be repeated."),
    ] = None,
    memory_limit: Annotated[
        str | None, Parameter(help="With --analyst: what queries may take, such as 4GB; see docs/sql.md.")
    ] = None,
    time_limit: Annotated[float | None, Parameter(help="With --analyst: seconds that a query may take.")] = None,
    rows: Rows = 40,
    who: options.Who = None,
    wait: options.Wait = 0.0,
) -> Answer:
    """Open a prompt for SQL on a store, or on published files.

    Statements end with a semicolon and may take several lines; .help explains.
    The prompt needs the extra sparsehist[sql]; a script on standard input does not.

    For example:
      sparsehist sql logs.sparsehist
    """
    from sparsehist.cli.sql_work import open_prompt

    return open_prompt(
        store, analyst, rows=rows, who=who, wait=wait, verify=verify or None, memory_limit=memory_limit,
        time_limit=time_limit,
    )  # fmt: skip
