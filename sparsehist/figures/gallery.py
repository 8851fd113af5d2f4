"""Writing the figures, and a page that shows them."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path

import polars as pl

from sparsehist.errors import NameTakenError, StoreError
from sparsehist.figures.charts import Data, Figure, all_figures
from sparsehist.report.plots import require_plots, save_plot
from sparsehist.store.statements import shipped

PAGE = "index.html"
_STYLE = "body{font:16px/1.5 sans-serif;max-width:52em;margin:2em auto;padding:0 1em}img{max-width:100%}"


def write_figures(directory: Path, *, seed: int = 1) -> list[Path]:
    """Draw all figures as SVG and write the gallery beside them; returns the files, the gallery last.

    The directory is made if it is missing, and files of the same names are replaced. The seed is for the figures
    that are drawn at random.

    Raises:
        NotFoundError: If the extra `plots` is not installed; nothing was written then.
        NameTakenError: If the directory is a file.
        StoreError: If a file cannot be written.
    """
    require_plots()
    if directory.exists() and not directory.is_dir():
        raise NameTakenError(f"{directory} is a file; choose another place for the figures")
    try:
        directory.mkdir(parents=True, exist_ok=True)
        drawn = all_figures(_shipped(), seed)
        paths = [directory / f"{figure.name}.svg" for figure in drawn]
        for figure, path in zip(drawn, paths, strict=True):
            save_plot(figure.chart, path)
        page = directory / PAGE
        page.write_text(gallery(drawn), encoding="utf-8")
    except OSError as problem:
        raise StoreError(f"cannot write to {directory}: {problem.strerror}") from None
    return [*paths, page]


def gallery(figures: Sequence[Figure]) -> str:
    """The page: every title and caption escaped."""
    parts = [
        f'<figure id="{escape(figure.name)}"><h2>{escape(figure.title)}</h2>'
        f'<img src="{escape(figure.name)}.svg" alt="{escape(figure.title)}">'
        f"<figcaption>{escape(figure.caption)}</figcaption></figure>"
        for figure in figures
    ]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>Figures of sparsehist</title>'
        f"<style>{_STYLE}</style></head><body>\n<h1>Figures</h1>\n" + "\n".join(parts) + "\n</body></html>\n"
    )


def _shipped() -> Data:
    data = shipped("data")
    visits = pl.read_csv(data / "msweb_1998.csv")
    start = visits.group_by("user_id", maintain_order=True).agg(pl.col("url").first()).select("url")
    areas = pl.read_csv(data / "msweb_catalogue.csv").select("url")
    return Data(pl.read_csv(data / "karate_club.csv"), start, areas)
