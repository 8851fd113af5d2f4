"""Tests that the documentation site is built without warnings."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parent.parent
SOURCES = [
    *CHECKOUT.glob("*.md"), CHECKOUT / "data" / "README.md", CHECKOUT / "benchmarks" / "RESULTS.md",
    *(page for page in (CHECKOUT / "docs").rglob("*") if page.suffix in (".md", ".rst", ".ipynb")),
]  # fmt: skip


@pytest.mark.parametrize("notebooks", ["off", pytest.param("force", marks=pytest.mark.slow)])
def test_the_site_has_every_page(tmp_path: Path, notebooks: str) -> None:
    """Sphinx builds every page without a warning. The slow variant of this test also runs the notebooks."""
    pytest.importorskip("sphinx", reason="the site is built by the extra `docs`")
    options = ["-q", "-W", "--keep-going", "-c", "docs", "-D", f"nb_execution_mode={notebooks}"]
    made = subprocess.run(
        [sys.executable, "-m", "sphinx", *options, ".", str(tmp_path)],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert made.returncode == 0, made.stderr
    missing = [page for page in SOURCES if not (tmp_path / page.relative_to(CHECKOUT)).with_suffix(".html").exists()]
    assert missing == []
