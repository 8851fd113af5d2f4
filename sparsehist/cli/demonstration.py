"""`sparsehist demo`: a real log, three levels out of order, one series."""

from __future__ import annotations

import shutil
from importlib.resources import as_file
from pathlib import Path

import polars as pl

import sparsehist as sh
from sparsehist.cli.answer import Answer
from sparsehist.cli.demonstration_tables import shown_demo
from sparsehist.errors import DeclarationError, NameTakenError, NotFoundError, StoreError
from sparsehist.report.side_by_side import side_by_side
from sparsehist.series.release import Release
from sparsehist.store.statements import shipped

MAX_KEYS = 10
DOMAIN = "strings(max_bytes=32, alphabet='printable_ascii')"
RELEASES = (("public", "0.01"), ("partner", "0.5"), ("internal", "0.1"))
"""Name and level in the order they are made: coarse, fine, then between."""

_MARKER = "this-is-a-sparsehist-demo"
_STORE = "store"


def demonstrate(directory: Path, *, plot: bool = False, picture: Path | None = None) -> Answer:
    """Release the shipped log three times and show what came out.

    Args:
        directory: Where to leave store and releases.
        plot: Also draw the releases; needs the extra `plots`.
        picture: An SVG file for what is printed.

    Raises:
        NameTakenError: If the directory holds something that is no demo.
        NotFoundError: If the extra, or the directory of the picture, is missing.
        DeclarationError: If the picture is no SVG file.
    """
    if picture is not None:
        check_picture(picture)
    if plot:
        from sparsehist.report.plots import require_plots

        require_plots()
    _prepare(directory)
    catalogue = _catalogue()
    released, cost = _release_log(directory)
    rows = side_by_side(released).join(catalogue, on="url", how="left", maintain_order="left")
    shown = shown_demo(released, rows, directory, cost=cost)
    written = [directory / f"{release.name}.parquet" for release in released]
    if plot:
        written += _plots(released, directory)
        shown.append(f"Plots:               {', '.join(str(path) for path in written[len(released) :])}")
    if picture is not None:
        from sparsehist.cli.picture import save_picture

        save_picture(shown, picture)
    data = {
        "directory": str(directory),
        "store": str(directory / _STORE),
        "files": [str(path) for path in written],
        "cost": cost,
        "releases": [{**release.metadata, "rows": len(release)} for release in released],
    }
    return Answer(data, shown)


def check_picture(path: Path) -> None:
    """Refuse a picture that cannot be written, before anything is done.

    Raises:
        DeclarationError: If it is no SVG file.
        NotFoundError: If its directory does not exist.
    """
    if path.suffix != ".svg" or path.is_dir():
        raise DeclarationError(f"--picture writes SVG: the file must end in .svg, got {str(path)!r}")
    if not path.absolute().parent.is_dir():
        raise NotFoundError(f"there is no directory {str(path.absolute().parent)!r} to write {path.name!r} to")


def _release_log(directory: Path) -> tuple[list[Release], str]:
    """Create the series, release it, write the files; the releases in the order made, and what they cost."""
    with as_file(shipped("data") / "msweb_1998.csv") as log:
        series = sh.create(
            directory / _STORE, log, name="visits", unit="user_id", key="url", max_keys=MAX_KEYS, domain=DOMAIN,
            cap="0.5", progress=False,
        )  # fmt: skip
    released = []
    for name, level in RELEASES:
        release = series.release(name, level=level, false_keys=1)
        release.write_parquet(directory / f"{name}.parquet")
        released.append(release)
    ledger = series.store.ledger()
    return released, str(ledger.filter(pl.col("scope") == "population")["level"].item())


def _catalogue() -> pl.DataFrame:
    """Titles of the site's areas, published with the log."""
    with as_file(shipped("data") / "msweb_catalogue.csv") as path:
        return pl.read_csv(path)


def _plots(released: list[Release], directory: Path) -> list[Path]:
    from sparsehist.report.plots import plot_ranks, save_plot

    chart = plot_ranks(released)
    paths = [directory / "demo.svg", directory / "demo.png"]
    for path in paths:
        save_plot(chart, path)
    return paths


def _prepare(directory: Path) -> None:
    """Make the directory, or clear the demo that is in it; touch nothing else."""
    marker = directory / _MARKER
    try:
        if directory.is_dir() and any(directory.iterdir()) and not marker.exists():
            raise NameTakenError(f"{directory} is not empty and no earlier demo; choose another place with --dir")
        if directory.exists() and not directory.is_dir():
            raise NameTakenError(f"{directory} is a file; choose another place with --dir")
        directory.mkdir(parents=True, exist_ok=True)
        marker.write_text("sparsehist demo replaces what it made in this directory.\n", encoding="utf-8")
        shutil.rmtree(directory / _STORE, ignore_errors=True)
        made = [f"{name}.parquet" for name, _ in RELEASES]
        for name in (f"{_STORE}.generation", "sparsehist-ledger.json", *made, "demo.svg", "demo.png"):
            (directory / name).unlink(missing_ok=True)
    except OSError as problem:
        raise StoreError(f"cannot write {directory}: {problem.strerror}") from None
