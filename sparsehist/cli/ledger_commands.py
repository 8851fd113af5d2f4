"""The commands about what was spent and what may be; each imports its work when it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from sparsehist.cli.answer import Answer
from sparsehist.cli.parameters import SeriesName, StorePath, Wait, Who

Reason = Annotated[str, Parameter(help="Why; one line, kept in the ledger for good.")]


def ledger(
    store: StorePath,
    /,
    *,
    delta: Annotated[float, Parameter(help="At which epsilon is shown.")] = 1e-6,
    events: Annotated[bool, Parameter(help="Also show who did or asked for what, when, refusals included.")] = False,
    out: Annotated[
        Path | None, Parameter(help="Also write it all, with the events, to a .json or .parquet file.")
    ] = None,
    wait: Wait = 0.0,
) -> Answer:
    """Show what has been spent, and under which limits.

    One row a noise path (the finest level released from it), one a series (the
    sum over its paths), one a population (the sum over its series), and one for
    everybody: the most that one person may bear, the sum over populations but for
    those declared disjoint. `spent` is exact, in rho of zCDP or epsilon of pure DP;
    `epsilon` holds at --delta, whatever the noise. `ex ante` means that a limit
    stood before the first release and was never raised; all else holds for what
    did happen only. Dropped series stay.

    For example:
      sparsehist ledger logs.sparsehist --out ledger.json
    """
    from sparsehist.cli.accounts import show_ledger

    return show_ledger(store, delta=delta, events=events, out=out, wait=wait)


def budget(
    store: StorePath,
    /,
    *,
    population: Annotated[str, Parameter(help="Whose; the people behind the units.")] = "default",
    rho: Annotated[str | None, Parameter(help="Limit on the sum in zCDP, exact.")] = None,
    epsilon: Annotated[str | None, Parameter(help="Instead: limit on epsilon at --delta.")] = None,
    delta: Annotated[
        str | None, Parameter(help="At which epsilon holds; beside --rho, what open domains may spend.")
    ] = None,
    reason: Annotated[
        str | None, Parameter(help="Why; one line, kept in the ledger for good. Needed to raise a budget.")
    ] = None,
    who: Who = None,
    wait: Wait = 0.0,
) -> Answer:
    """Limit what the series of a population may spend together.

    Releases beyond it are refused before anything is drawn (exit code 3). A budget
    set before the first release holds ex ante; one set or raised later holds ex
    post, and the ledger says so.

    For example:
      sparsehist budget logs.sparsehist --epsilon 8 --delta 1e-6 --who 'privacy office'
    """
    from sparsehist.cli.accounts import set_budget

    return set_budget(store, population, rho=rho, epsilon=epsilon, delta=delta, reason=reason, who=who, wait=wait)


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
    from sparsehist.cli.accounts import raise_cap_of

    return raise_cap_of(store, series, level, reason=reason, who=who, wait=wait)


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
    from sparsehist.cli.accounts import declare_disjoint

    return declare_disjoint(store, population, reason=reason, who=who, wait=wait)
