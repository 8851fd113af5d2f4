"""The command `demo`, which releases the histogram of a real log at three levels."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Annotated

import polars as pl
from cyclopts import Parameter

import sparsehist as sh
from sparsehist.cli.answer import MISSING, Answer, rows_table
from sparsehist.errors import NameTakenError
from sparsehist.privacy import level_text
from sparsehist.store.statements import shipped

RELEASES = (("public", "0.01"), ("partner", "0.5"), ("internal", "0.1"))
"""Name and level of each release in order: coarse, fine, then between."""
_DOMAIN = "strings(max_bytes=32, alphabet='printable_ascii')"


def demo(*, directory: Annotated[Path, Parameter("--dir")] = Path(".demo")) -> Answer:
    """Release a real histogram at three levels, and show the releases side by side.

    The log comes with the package: visits of 37,711 people to the areas of a web site
    in one week (CC BY 4.0). The demo takes a few seconds and needs no network.

    For example:
      sparsehist demo

    Args:
        directory: New directory for the store and the releases.
    """
    if directory.exists():
        raise NameTakenError(f"{directory} already exists: remove it, or choose another directory with --dir")
    directory.mkdir(parents=True)
    series = sh.create(
        directory / "store", shipped("data") / "msweb_1998.csv", name="visits", unit="user_id", key="url",
        max_keys=10, domain=_DOMAIN, cap="0.5", counting=sh.Counting(progress=False),
    )  # fmt: skip
    releases = [series.release(name, level=level, false_keys=1) for name, level in RELEASES]
    for release in releases:
        release.write(directory / f"{release.name}.parquet")
    cost = series.store.ledger().filter(scope="population")["level"].item()
    independent = level_text(sum((release.level for release in releases), Fraction(0)))
    titles = pl.read_csv(shipped("data") / "msweb_catalogue.csv").select(pl.col("title").str.head(28), "url")
    ordered = sorted(releases, key=lambda each: each.level)
    counts = pl.concat(each.frame.with_columns(release=pl.lit(each.name)) for each in ordered)
    table = counts.pivot("release", index="url", values="noisy_count")
    table = table.sort(pl.coalesce(each.name for each in reversed(ordered)), descending=True)
    rows = titles.join(table, on="url", maintain_order="right")
    # Show the keys with the largest noisy counts, then some keys that only the finer releases publish.
    finer = (rows.filter(pl.col("public").is_null()), rows.filter(pl.col("internal").is_null()))
    rows = pl.concat([rows.head(6), *(some.head(3) for some in finer)])
    parameters = [
        {"release": each.name, "rows published": len(each)}
        | {name: each.metadata[name] for name in ("level", "std", "threshold")}
        for each in ordered
    ]
    shown = [
        "One log, one series, three releases out of order: public, partner, internal\n",
        "Log: visits of 37,711 people to areas of www.microsoft.com in one week of 1998 (CC BY 4.0).",
        f"Unit: a visitor. Key: an area. Domain: {_DOMAIN}, {series.declaration.domain.describe_size()}.",
        rows_table(rows.to_dicts()),
        f"{MISSING} means not published: the noisy count is at or below the threshold of the release.",
        rows_table(parameters),
        "Here, each release publishes one empty key on average (false_keys=1); the default is 0.01.",
        f"\nTogether they cost ρ = {cost}, as much as the finest; with independent noise, {independent}.",
        "Releasing the same name again returns the same numbers, at no cost.\n",
        f"Store (secret):      {directory}/store",
        f"Releases (public):   {directory}: {', '.join(f'{each.name}.parquet' for each in releases)}",
        f"Report for people:   sparsehist report {directory}/store --out report.html",
        f"Read one in Python:  sparsehist.read('{directory}/public.parquet').frame",
    ]
    published = [{**each.metadata, "rows": len(each)} for each in releases]
    return Answer({"directory": str(directory), "cost": cost, "releases": published}, shown)
