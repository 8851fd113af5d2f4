"""The figures: their numbers, their captions, the page and the command."""

from __future__ import annotations

import math
import subprocess
import sys

import numpy as np
import polars as pl
import pytest

from sparsehist.errors import NameTakenError
from sparsehist.figures.charts import Data, Figure, all_figures
from sparsehist.figures.curves import (
    doubling_over_lossless,
    independent_over_lossless,
    relaxation_atom,
    relaxation_density,
    staircase_density,
)
from sparsehist.figures.gallery import gallery, write_figures


def test_curves_have_the_reference_values():
    """Atom and density of the relaxation, independent releases, doubling, to every printed digit."""
    assert relaxation_atom(0.5, 1, 2) == pytest.approx(0.3032653298563167118, rel=1e-15)
    assert relaxation_density(-0.5, 0.5, 1, 2) == pytest.approx(0.1673476201113223717, rel=1e-15)
    assert independent_over_lossless(5, 0.001, 5) == pytest.approx(1.1349716342813667596, rel=1e-14)
    assert independent_over_lossless(50, 0.001, 5) == pytest.approx(6.2675467199433300287, rel=1e-14)
    assert doubling_over_lossless([1, 1.5], power=2).tolist() == [4.0, 9.0]


@pytest.mark.parametrize("known", [0.0, 0.5, -2.0])
def test_a_relaxation_is_a_law(known):
    """Density and atom add up to 1."""
    y = np.linspace(-40, 40, 4_000_001)
    total = np.trapezoid(relaxation_density(y, known, 1, 2), y) + relaxation_atom(known, 1, 2)
    assert total == pytest.approx(1, abs=1e-7)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0])
def test_the_staircase_is_private_and_better_than_laplace(epsilon):
    """It adds up to 1, loses epsilon within a step of 1, and has less variance than Laplace noise."""
    x = (np.arange(-4_000_000, 4_000_000) + 0.5) / 50_000
    density = staircase_density(x, epsilon)
    assert density.sum() / 50_000 == pytest.approx(1, abs=1e-4)
    assert (density * x**2).sum() / 50_000 < 2 / epsilon**2
    for shift in (12_345, 50_000):
        assert np.abs(np.log(density[shift:] / density[:-shift])).max() <= epsilon * (1 + 1e-9)


@pytest.fixture(scope="module")
def small():
    """Data as shipped, in small, with names that would break a page."""
    names = ["/a", "/<script>alert(1)</script>", '/"&']
    return Data(
        pl.DataFrame({"member": [0, 1, 1, 3], "friend": [1, 2, 3, 4]}),
        pl.DataFrame({"url": names * 40 + ["/a"] * 4000}),
        pl.DataFrame({"url": names}),
    )


def test_every_figure_is_drawn_and_names_its_source(small):
    """Eight figures, the same for a seed; captions name their source, and are escaped with all names of the data."""
    pytest.importorskip("altair")
    figures = all_figures(small, seed=3)
    again = all_figures(small, seed=3)
    assert [figure.chart.to_json() for figure in again] == [figure.chart.to_json() for figure in figures]
    assert len({figure.name for figure in figures}) == len(figures) == 8
    for figure in figures:
        assert any(
            source in figure.caption for source in ("Koufogiannis", "Andersson", "lecture notes", "generated year")
        )
        svg = figure_svg(figure)
        assert svg.startswith("<svg")
        assert "<script" not in svg
    page = gallery([*figures, Figure("x", "<script>", "<script>", None)])
    assert "<script" not in page
    assert all(f'src="{figure.name}.svg"' in page for figure in figures)


def figure_svg(figure):
    """As it is written."""
    import vl_convert

    return vl_convert.vegalite_to_svg(figure.chart.to_json())


@pytest.mark.slow
def test_the_command_writes_pictures_and_page(tmp_path):
    """`sparsehist figures --out DIR`, on the data that ships."""
    pytest.importorskip("altair")
    words = [sys.executable, "-m", "sparsehist", "figures", "--out", str(tmp_path / "figures")]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    written = {path.name for path in (tmp_path / "figures").iterdir()}
    assert {"index.html", "laplace_paths.svg", "audience.svg", "decoded_pages.svg", "running_audiences.svg"} < written
    assert len(written) == 9


def test_a_file_in_the_way_is_left_alone(tmp_path):
    """The directory cannot be made where a file is."""
    pytest.importorskip("altair")
    (tmp_path / "taken").write_text("mine")
    with pytest.raises(NameTakenError):
        write_figures(tmp_path / "taken")
    assert (tmp_path / "taken").read_text() == "mine"
    assert math.isfinite(independent_over_lossless(2, 0.1, 1))
