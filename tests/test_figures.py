"""Tests of `benchmarks/figures`, which draws the curves of the documentation."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks.figures.curves import (
    doubling_over_lossless,
    independent_over_lossless,
    relaxation_atom,
    relaxation_density,
    staircase_density,
)

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "figures"


def test_curves_have_the_reference_values():
    """The curves of `benchmarks/figures` agree with reference values to a relative error of 1e-14."""
    assert relaxation_atom(0.5, 1, 2) == pytest.approx(0.3032653298563167118, rel=1e-15)
    assert relaxation_density(-0.5, 0.5, 1, 2) == pytest.approx(0.1673476201113223717, rel=1e-15)
    assert independent_over_lossless(5, 0.001, 5) == pytest.approx(1.1349716342813667596, rel=1e-14)
    assert doubling_over_lossless([1, 1.5], power=2).tolist() == [4.0, 9.0]


@pytest.mark.parametrize("known", [0.0, -2.0])
def test_a_relaxation_is_a_law(known):
    """Given coarse noise, the density of finer noise and its atom at the coarse noise have total mass 1."""
    y = np.linspace(-40, 40, 4_000_001)
    total = np.trapezoid(relaxation_density(y, known, 1, 2), y) + relaxation_atom(known, 1, 2)
    assert total == pytest.approx(1, abs=1e-7)


@pytest.mark.parametrize("epsilon", [0.5, 3.0])
def test_the_staircase_is_private_and_better_than_laplace(epsilon):
    """The staircase density has integral 1, privacy ε for shifts up to 1, and less variance than Laplace noise."""
    x = (np.arange(-4_000_000, 4_000_000) + 0.5) / 50_000
    density = staircase_density(x, epsilon)
    assert density.sum() / 50_000 == pytest.approx(1, abs=1e-4)
    assert (density * x**2).sum() / 50_000 < 2 / epsilon**2
    for shift in (12_345, 50_000):
        assert np.abs(np.log(density[shift:] / density[:-shift])).max() <= epsilon * (1 + 1e-9)


@pytest.mark.slow
def test_the_script_draws_every_figure_and_a_page(tmp_path):
    """`python benchmarks/figures --out DIRECTORY` writes eight figures and a page that shows them."""
    pytest.importorskip("altair")
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--out", str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    pictures = [path.name for path in tmp_path.glob("*.svg")]
    page = (tmp_path / "index.html").read_text()
    assert len(pictures) == 8 and all(f'src="{name}"' in page for name in pictures)
