"""What comes out of real logs: how much bounding costs, what is published, how false and how far off it is.

    python benchmarks/real_logs.py --cran DIRECTORY --out real_logs.json

The shipped log of page visits; with --cran also a download log of the CRAN mirror: a directory with one .csv.gz
file a day, and perhaps two_days.csv (user_id, timestamp, country, package, version). Three levels out of order, one
false key expected in each. What bounding cuts and how wrong the counts are is found from the secret counts, which
only a benchmark on public data may show.
"""

from __future__ import annotations

import string
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import polars as pl
import pyarrow as pa
import pyarrow.csv
from _measure import arguments, options_of, report, table, timed

import sparsehist as sh

LEVELS = (("public", "0.01"), ("partner", "0.5"), ("internal", "0.1"))
HERE = Path(__file__).resolve().parent.parent / "data"

# ISO 3166-1, and what GeoIP databases of the time wrote for "anonymous", "satellite", "Europe", "Asia/Pacific".
COUNTRIES = """
AD AE AF AG AI AL AM AO AQ AR AS AT AU AW AX AZ BA BB BD BE BF BG BH BI BJ BL BM BN BO BQ BR BS BT BV BW BY BZ CA CC
CD CF CG CH CI CK CL CM CN CO CR CU CV CW CX CY CZ DE DJ DK DM DO DZ EC EE EG EH ER ES ET FI FJ FK FM FO FR GA GB GD
GE GF GG GH GI GL GM GN GP GQ GR GS GT GU GW GY HK HM HN HR HT HU ID IE IL IM IN IO IQ IR IS IT JE JM JO JP KE KG KH
KI KM KN KP KR KW KY KZ LA LB LC LI LK LR LS LT LU LV LY MA MC MD ME MF MG MH MK ML MM MN MO MP MQ MR MS MT MU MV MW
MX MY MZ NA NC NE NF NG NI NL NO NP NR NU NZ OM PA PE PF PG PH PK PL PM PN PR PS PT PW PY QA RE RO RS RU RW SA SB SC
SD SE SG SH SI SJ SK SL SM SN SO SR SS ST SV SX SY SZ TC TD TF TG TH TJ TK TL TM TN TO TR TT TV TW TZ UA UG UM US UY
UZ VA VC VE VG VI VN VU WF WS YE YT ZA ZM ZW A1 A2 EU AP
""".split()

PACKAGE = sh.Strings(max_bytes=32, alphabet=string.ascii_letters + string.digits + ".")
VERSION = sh.Strings(max_bytes=16, alphabet=string.digits + ".-")


class Case(NamedTuple):
    """One series to be made of a log."""

    name: str
    log: Callable[[], pl.DataFrame]
    unit: str
    key: tuple[str, ...]
    domain: sh.Domain
    max_keys: int


def page_visits() -> pl.DataFrame:
    """The log that ships with the package."""
    return pl.read_csv(HERE / "msweb_1998.csv")


def downloads(files: Sequence[Path]) -> pl.DataFrame:
    """Read days of the download log.

    NA without quotes is missing, "NA" in quotes is Namibia. Polars, like most readers, has forgotten the quotes by
    the time it looks for nulls; Arrow tells them apart.
    """
    options = pa.csv.ConvertOptions(
        null_values=["NA"],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
        column_types={"date": pa.date32(), "timestamp": pa.timestamp("s", tz="UTC")}
        | dict.fromkeys(("package", "version", "country", "user_id"), pa.string()),
    )
    log = pl.concat([pl.DataFrame(pl.from_arrow(pa.csv.read_csv(file, convert_options=options))) for file in files])
    if "user_id" not in log.columns:  # the numbers of visitors begin anew every day
        log = log.with_columns(user_id=pl.format("{}#{}", "date", "ip_id"))
    if "date" not in log.columns:
        log = log.with_columns(date=pl.col("timestamp").dt.date())
    return log.select("user_id", "date", "country", "package", "version")


def cases(cran: Path | None) -> Iterator[Case]:
    """What is measured."""
    pages = sh.Strings(max_bytes=32, alphabet="printable_ascii")
    yield Case("MSWeb: page", page_visits, "user_id", ("url",), pages, 10)
    if cran is None:
        return
    days = sorted(cran.glob("*.csv.gz"))
    first, last = (file.name.removesuffix(".csv.gz") for file in (days[0], days[-1]))
    by_version = sh.Product(package=PACKAGE, version=VERSION)
    by_place = sh.Product(country=sh.Catalogue(COUNTRIES), date=sh.Dates(first, last), package=PACKAGE)

    def log() -> pl.DataFrame:
        return downloads(days)

    if (cran / "two_days.csv").exists():
        two = lambda: downloads([cran / "two_days.csv"])  # noqa: E731
        yield Case("CRAN, two days: package", two, "user_id", ("package",), PACKAGE, 30)
    yield Case("CRAN: package", log, "user_id", ("package",), PACKAGE, 30)
    yield Case("CRAN: package, version", log, "user_id", ("package", "version"), by_version, 30)
    yield Case("CRAN: country, date, package", log, "user_id", ("country", "date", "package"), by_place, 30)


def measured(case: Case) -> dict[str, object]:
    """Create the series, release it three times, compare with the counts."""
    log = case.log()
    with tempfile.TemporaryDirectory() as directory:
        store = sh.open(Path(directory) / "store", create=True)

        def create() -> None:
            sh.create(
                store,
                log.select(case.unit, *case.key),
                name="log",
                unit=case.unit,
                key=case.key,
                max_keys=case.max_keys,
                domain=case.domain,
                on_null="drop",
                on_outside="drop",
                counting=sh.Counting(progress=False),
            )

        created = timed(create)
        counted = bounded_counts(store, "log", case.key)
        pairs = log.select(case.unit, *case.key).drop_nulls().unique()
        keys_of_unit = pairs.group_by(case.unit).len()["len"]
        cells = pairs.select(pl.col(name).alias(f"key_{column}") for column, name in enumerate(case.key))
        inside = int(case.domain.contains(case.domain.convert(cells)).sum())
        series = store.series("log")
        releases = []
        for name, level in LEVELS:
            begin = time.perf_counter()
            released = series.release(name, level=level, false_keys=1)
            releases.append(compared(released, counted, case.key) | {"wall_s": time.perf_counter() - begin})
    return {
        "rows": log.height,
        "units": log[case.unit].n_unique(),
        "rows_dropped_null": log.height - log.drop_nulls([case.unit, *case.key]).height,
        "most_keys_of_a_unit": keys_of_unit.max(),
        "units_over_the_bound": int((keys_of_unit > case.max_keys).sum()),
        "share_of_units_over_the_bound": keys_of_unit.filter(keys_of_unit > case.max_keys).sum() / pairs.height,
        "max_keys": case.max_keys,
        "domain": case.domain.describe(),
        "domain_size": f"{case.domain.size:.3g}",
        "pairs_outside_the_domain": pairs.height - inside,
        "nonzero_cells": counted.height,
        "lost_by_bounding": 1 - counted["count"].sum() / inside,
        "create": created,
        "releases": releases,
    }


def bounded_counts(store: sh.Store, series: str, key: Sequence[str]) -> pl.DataFrame:
    """The secret counts of a series, which only a benchmark on public data may look at: its keys and `count`."""
    with store.hold() as state:
        record = state.series(series)
        assert record is not None
        stored = state.series_files(record).all_counted()
    return stored.rename({f"key_{column}": name for column, name in enumerate(key)})


def compared(released: sh.Release, counted: pl.DataFrame, key: Sequence[str]) -> dict[str, object]:
    """How a release differs from the counts."""
    both = released.frame.join(counted, on=list(key), how="left")
    false = both["count"].null_count()
    decade = pl.col("count").log10().floor().cast(pl.Int64).alias("decade")
    errors = (
        both.drop_nulls("count")
        .group_by(decade)
        .agg(published=pl.len(), relative_error=((pl.col("noisy_count") / pl.col("count")) - 1).abs().median())
    )
    decades = counted.group_by(decade).agg(cells=pl.len()).join(errors, on="decade", how="left").sort("decade")
    public = {name: released.metadata[name] for name in ("name", "level", "std", "threshold", "expected_false_keys")}
    return {**public, "published": len(released), "false_keys": false, "by_decade": decades.to_dicts()}


def show(name: str, found: dict) -> None:
    """Print one case."""
    print(
        f"\n{name}: {found['rows']:,} rows, {found['units']:,} units, {found['nonzero_cells']:,} nonzero cells of "
        f"{found['domain_size']}, created in {found['create'].wall_s:.2f} s\nmax_keys {found['max_keys']}: "
        f"{found['units_over_the_bound']:,} units have more (at most {found['most_keys_of_a_unit']:,}), "
        f"{found['lost_by_bounding']:.1%} of the counts are cut"
    )
    rows = [["release", "level", "std", "threshold", "published", "false", "s", "median error by size of the count"]]
    for released in found["releases"]:
        errors = ", ".join(
            f"10^{decade['decade']}: {decade['relative_error']:.1%} ({decade['published']}/{decade['cells']})"
            for decade in released["by_decade"]
            if decade["published"]
        )
        shown = [f"{released['std']:.1f}", f"{released['threshold']:.1f}", str(released["published"])]
        rows.append([released["name"], released["level"], *shown, str(released["false_keys"]),
                     f"{released['wall_s']:.2f}", errors])  # fmt: skip
    print(table(rows))


def main() -> None:
    """Measure, print tables, write JSON."""
    parser = arguments(__doc__, runs=1)
    parser.add_argument("--cran", type=Path, help="directory with the download log")
    options = options_of(parser)
    found: dict[str, list[dict]] = {}
    for case in cases(options.cran):
        found[case.name] = [measured(case) for _ in range(options.runs)]
        show(case.name, found[case.name][0])
    first = {name: runs[0] for name, runs in found.items()}
    report("what comes out of real logs", options, {"cases": first}, found)


if __name__ == "__main__":
    main()
