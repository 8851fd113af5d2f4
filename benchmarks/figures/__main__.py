"""Draw the figures of the papers and of the pages under docs/, as SVG files and a page that shows them.

    python benchmarks/figures --out figures

Needs the extra `plots`. All data is public: it ships in `data/` or is generated.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from html import escape
from pathlib import Path

import polars as pl
from charts import Data, Figure, all_figures

DATA = Path(__file__).parents[2] / "data"
STYLE = "body{font:16px/1.5 sans-serif;max-width:52em;margin:2em auto;padding:0 1em}img{max-width:100%}"


def shipped() -> Data:
    """The data that ships with the package."""
    visits = pl.read_csv(DATA / "msweb_1998.csv")
    start = visits.group_by("user_id", maintain_order=True).agg(pl.col("url").first()).select("url")
    areas = pl.read_csv(DATA / "msweb_catalogue.csv").select("url")
    return Data(pl.read_csv(DATA / "karate_club.csv"), start, areas)


def gallery(figures: Sequence[Figure]) -> str:
    """The page, with every title and caption escaped."""
    parts = [
        f'<figure id="{escape(figure.name)}"><h2>{escape(figure.title)}</h2>'
        f'<img src="{escape(figure.name)}.svg" alt="{escape(figure.title)}">'
        f"<figcaption>{escape(figure.caption)}</figcaption></figure>"
        for figure in figures
    ]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>Figures of sparsehist</title>'
        f"<style>{STYLE}</style></head><body>\n<h1>Figures</h1>\n" + "\n".join(parts) + "\n</body></html>\n"
    )


def main() -> None:
    """Write the pictures and index.html."""
    parser = argparse.ArgumentParser(description="Draw the figures of the papers.")
    parser.add_argument("--out", type=Path, required=True, help="directory; files of the same names are replaced")
    parser.add_argument("--seed", type=int, default=1, help="of the figures drawn at random")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    figures = all_figures(shipped(), options.seed)
    for figure in figures:
        figure.chart.save(str(options.out / f"{figure.name}.svg"))
    (options.out / "index.html").write_text(gallery(figures), encoding="utf-8")


if __name__ == "__main__":
    main()
