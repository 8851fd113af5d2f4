"""The commands about what was spent, what may be, and who signs for it; each imports what it needs when it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from sparsehist.cli.answer import Answer
from sparsehist.cli.shared_options import Delta, SeriesName, StorePath, Wait, Who

Reason = Annotated[str, Parameter(help="Why; one line, kept in the ledger for good.")]


def ledger(
    store: StorePath,
    /,
    *,
    delta: Delta = 1e-6,
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
    wait: Wait = 0.0,
) -> Answer:
    """Show what has been spent, under which limits, and what remains.

    One row per noise path (the finest level released from it), per series (the
    sum over its paths), per population (the sum over its series), and one for
    everybody: the most that one person may bear, the sum over populations but for
    those declared disjoint. `spent` is exact, in rho of zCDP or epsilon of pure DP;
    `epsilon` holds at --delta for what did happen, by the best of all routes.
    `remaining` is what the limits leave: of a path, the largest level it may be
    released at. `ex ante` means that a limit stood before the first release and was
    never raised or changed; all else holds for what did happen only. Dropped series
    stay.

    For example:
      sparsehist ledger logs.sparsehist --out ledger.json
    """
    from sparsehist.cli.accounts import events_for_people, in_tables, rows_of
    from sparsehist.cli.commands import opening
    from sparsehist.cli.tables import escape, rows_table

    _check_outside(store, out)
    with opening(store, wait) as opened:
        rows = rows_of(opened, delta, series=series, since=since, short=short)
        happened = opened.events() if events else None
        if out is not None:
            opened.export_ledger(out, delta=delta)
    shown: list[Any] = in_tables(rows, delta) if rows else ["nothing: the store has no series, or none of these"]
    data = {"store": str(store), "delta": delta, "ledger": rows}
    if happened is not None:
        data["events"] = happened.to_dicts()
        shown.append(rows_table(events_for_people(happened)))
    if out is not None:
        data["out"] = str(out)
        shown.append(f"written to {escape(str(out))}, with all events")
    return Answer(data, shown)


def _check_outside(store: Path, out: Path | None) -> None:
    from sparsehist.errors import InputError

    if out is not None and store.resolve() in out.resolve().parents:
        raise InputError(f"--out {str(out)!r} is inside the store, which nobody but its owner may read")


def budget(
    store: StorePath,
    /,
    *,
    population: Annotated[str, Parameter(help="Whose; the people behind the units.")] = "default",
    rho: Annotated[str | None, Parameter(help="Limit on the sum in zCDP, exact.")] = None,
    epsilon: Annotated[str | None, Parameter(help="Instead: limit on epsilon at --delta.")] = None,
    delta: Annotated[
        str | None,
        Parameter(help="At which epsilon holds, 0 for pure; beside --rho, what open domains may spend."),
    ] = None,
    route: Annotated[
        str | None,
        Parameter(
            help="How noise is charged: gaussian (exact, Gaussian noise only; the default beside a delta), pure "
            "(Laplace and discrete Laplace), renyi (all but Poisson), poisson."
        ),
    ] = None,
    order: Annotated[
        int | None, Parameter(help="Of the Rényi divergence; the best for Gaussian noise by default.")
    ] = None,
    open_share: Annotated[
        str | None, Parameter(help="Share of --delta for open domains; half where there is one, else 0.")
    ] = None,
    poisson: Annotated[
        str | None, Parameter(help="An (epsilon, delta) apart for Poisson noise, such as 'epsilon_delta(1, 1e-6)'.")
    ] = None,
    reason: Annotated[
        str | None, Parameter(help="Why; one line, kept in the ledger for good. Needed to raise or change a budget.")
    ] = None,
    who: Who = None,
    wait: Wait = 0.0,
) -> Answer:
    r"""Limit what the series of a population may spend together.

    Releases beyond it are refused before anything is drawn (exit code 3), however
    levels are chosen by looking at earlier releases. Its route and its split of
    delta are fixed now. A budget set before the first release holds ex ante; one
    set, raised or changed later holds ex post, and the ledger says so.

    For example:
      sparsehist budget logs.sparsehist --epsilon 8 --delta 1e-6 \
          --who 'privacy office'
    """
    from sparsehist.cli.accounts import rows_of, without_series
    from sparsehist.cli.commands import opening
    from sparsehist.cli.tables import escape
    from sparsehist.privacy.guarantees import EpsilonDelta

    asked: dict[str, Any] = {
        "rho": rho, "epsilon": epsilon, "delta": delta, "route": route, "order": order, "open_share": open_share,
    }  # fmt: skip
    apart = None if poisson is None else EpsilonDelta.parse(poisson)
    with opening(store, wait, who) as opened:
        said = opened.set_budget(population=population, poisson=apart, reason=reason, **asked)
        spent = [row for row in rows_of(opened) if row["scope"] == "population" and row["population"] == population]
        shown = [f"the budget of population {population} is {escape(said)}"]
        if spent and spent[0]["releases"]:
            shown.append("It has releases already, so that the budget holds ex post: see sparsehist ledger")
        shown += without_series(opened, [population])
    told = {"store": str(store), "population": population, "said": said, "status": "set"}
    return Answer(told | {"budget": asked | {"poisson": poisson}}, shown)


def report(
    store: StorePath,
    /,
    *,
    out: Annotated[Path, Parameter(help="The page, a .html file; outside the store.")],
    delta: Delta = 1e-6,
    curator: Annotated[
        bool, Parameter(help="Add exact numbers that only the curator may see; the page says that it is secret.")
    ] = False,
    wait: Wait = 0.0,
) -> Answer:
    r"""Write a report that a privacy officer can read and sign: one HTML page.

    It says what was promised to whom, what remains, every release with its error,
    the largest keys, and what is not promised, from public parameters and published
    rows only. The page asks nothing of any network and runs nothing. Needs
    sparsehist[report].

    For example:
      sparsehist report logs.sparsehist --out report.html
    """
    from sparsehist.cli.commands import opening
    from sparsehist.cli.tables import escape
    from sparsehist.declaration.checks import checked_output
    from sparsehist.store.private_files import PRIVATE, PUBLIC, write_file

    checked_output("--out", out, (".html",))
    _check_outside(store, out)
    with opening(store, wait) as opened:
        page = opened.report(delta=delta, curator=curator)
    write_file(out, page.encode(), durable=False, mode=PRIVATE if curator else PUBLIC)
    told = "for the curator only: it holds exact numbers" if curator else "public parameters and published rows only"
    return Answer({"store": str(store), "out": str(out), "curator": curator}, [f"{escape(str(out))}: {told}"])


def raise_cap(
    store: StorePath,
    /,
    *,
    series: SeriesName,
    level: Annotated[str, Parameter(help="The new cap, exact; above the one in force.")],
    reason: Reason,
    who: Who = None,
    wait: Wait = 0.0,
) -> Answer:
    r"""Raise the cap of a series, for a reason.

    From then on the cap holds ex post: the ledger shows the one that stood before
    the first release beside it.

    For example:
      sparsehist raise-cap logs.sparsehist --series queries --level 4 \
          --reason 'the second study needs finer counts'
    """
    from sparsehist.cli.commands import counted_series, opening
    from sparsehist.cli.tables import escape

    with opening(store, wait, who) as opened:
        counted_series(opened, series).raise_cap(level, reason=reason)
    shown = [f"the cap of the series {series} is {escape(level)} from now on"]
    return Answer({"store": str(store), "series": series, "cap": level, "status": "raised"}, shown)


def disjoint(
    store: StorePath,
    /,
    *,
    population: Annotated[list[str], Parameter(help="A population; give the option twice or more.")],
    reason: Reason,
    who: Who = None,
    wait: Wait = 0.0,
) -> Answer:
    r"""Declare that nobody is in two of these populations.

    Their costs then no longer add up for anybody. Nothing can check it: whoever
    declares it answers for it.

    For example:
      sparsehist disjoint logs.sparsehist --population north --population south \
          --reason 'by country of residence'
    """
    from sparsehist.cli.accounts import without_series
    from sparsehist.cli.commands import opening

    with opening(store, wait, who) as opened:
        opened.declare_disjoint(population, reason=reason)
        empty = without_series(opened, population)
    shown = [f"nobody is in two of {', '.join(population)}: their costs no longer add up for anybody", *empty]
    return Answer({"store": str(store), "disjoint": population, "status": "declared"}, shown)


def keygen(
    key: Annotated[Path, Parameter(help="File of the private key; the public one gets the suffix .pub.")], /
) -> Answer:
    """Make a key to sign releases with, and the public key to verify them by.

    The private key is a PEM file nobody else can read. Keep it outside of every
    store and of every backup of one; hand the public key to whoever reads what you
    release. Needs sparsehist[signatures].

    For example:
      sparsehist keygen curator.pem
    """
    from rich.markup import escape

    from sparsehist.ledger.signatures import make_keys

    public = make_keys(key)
    shown = [
        f"private key: {escape(str(key))}; keep it to yourself, outside of every store",
        f"public key: {escape(str(public))}; for whoever verifies",
    ]
    return Answer({"private_key": str(key), "public_key": str(public)}, shown)


def verify(
    published: Annotated[Path, Parameter(help="A published file, or a directory of them.")],
    /,
    *,
    key: Annotated[list[Path], Parameter(name="--key", help="Public key you trust; may be repeated.")],
) -> Answer:
    """Verify that releases are as they were signed.

    Of a file: names, types, rows and metadata are those that one of the keys
    signed. Of a directory: that of every release in it, and the public ledger lists
    each, is signed as a whole, and nothing in it was changed, cut or reordered.
    Exits with 2 if not. Needs no store.

    For example:
      sparsehist verify published --key curator.pem.pub
    """
    from rich.markup import escape

    import sparsehist as sh
    from sparsehist.cli.tables import rows_table

    place = escape(str(published))
    if published.is_dir():
        with sh.open_analyst(published, verify=key) as session:
            listed = session.sql("select series, release, level, noise, generation, store from ledger")
        data = {"path": str(published), "verified": True, "ledger": listed.to_dicts()}
        told = f"[bold]{place}[/] verifies: every release, and the ledger as a whole"
        return Answer(data, [told, rows_table(listed)])
    release = sh.read(published, verify=key)
    data = {"path": str(published), "verified": True, "rows": len(release), "metadata": release.metadata}
    return Answer(data, [f"[bold]{place}[/] verifies: release {release.name}, {len(release):,} rows"])
