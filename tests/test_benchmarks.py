"""The benchmarks run, at sizes too small to say anything, and the page can be made of what they write."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SCRIPTS = {
    "round_arithmetic": ["--runs", "2", "--cells", "2000", "--level", "0.01"],
    "domain_size": ["--runs", "2", "--cells", "400", "800", "--published", "100", "--false-keys", "50"],
    "bounding": ["--runs", "2"],
    "domains": ["--runs", "2"],
    "before_after": ["--runs", "1", "--rows", "50", "--many", "30", "--waiting", "2"],
    "release": ["--runs", "1", "--rows", "50"],
    "real_logs": [],
    "dense_round": ["--runs", "1", "--size", "2000"],
    "dense_sparse": "--runs 1 --sizes 10000 --rounds 1 2 --nonzero 400 --published 100".split(),
    "discrete_laplace": ["--runs", "1", "--draws", "2000"],
    "histories": ["--runs", "1", "--cells", "300", "--families", "gaussian", "poisson"],
    "key_discovery": ["--runs", "1"],
    "lossless": ["--cells", "2000"],
    "marginals": ["--runs", "1", "--cells", "500"],
    "noise": ["--runs", "1", "--draws", "2000", "--opendp-draws", "20"],
    "peers": ["--runs", "1", "--rows", "2000", "--peers", ""],
    "people": ["--runs", "1", "--people", "2000", "--cells", "3000"],
    "floor": ["--runs", "1", "--rows", "2000", "--ids", "random", "uuid", "--activity", "0.7"],
    "column_types": [*"--runs 1 --rows 2000 --only".split(), "Int64 × text", "(date, text) × text", "Arrow stream"],
    "pipeline": ["--runs", "1", "--rows", "2000", "--ids", "uuid", "--activity", "0.7"],
    "planned": [],
    "profiles": ["--runs", "1", "--rows", "2000", "--published", "50", "--cells", "500"],
    "counting": ["--runs", "1", "--rows", "2000"],
    "running": "--runs 1 --days 3 --keys 2000 --units 500 --rows 400 --many 800 --after 1 4".split(),
    "scale": "--runs 1 --nonzero 9000 --tracked 500 1000 --releases 12 --cells 50 --rows 2000".split(),
    "sensitivity": ["--max-keys", "1"],
    "spark": ["--runs", "1", "--rows", "4000", "--warm", "2000", "--memory", "1g"],
    "sql_front": ["--runs", "1", "--rows", "2000"],
    "start": ["--runs", "1"],
    "workload_error": ["--exponents", "4", "6", "--max-keys", "1", "3"],
    "workload_speed": ["--runs", "1", "--cells", "3000"],
}

# By default one of each kind: a log counted, releases, arithmetic of the core, sizes of workloads.
BY_DEFAULT = {"release", "round_arithmetic", "planned", "noise", "workload_speed"}
NO_TARGET = {"domains", "floor", "profiles", "real_logs"}


def run(script: str, *arguments: str) -> None:
    """Run a script of the benchmarks in a process of its own; it succeeds."""
    done = ran(script, *arguments)
    assert done.returncode == 0, done.stderr


def ran(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a script of the benchmarks in a process of its own."""
    paths = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    return subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / f"{script}.py"), *arguments],
        env=os.environ | {"PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    "script",
    [
        pytest.param(s, marks=[pytest.mark.slow] * (s not in BY_DEFAULT) + [pytest.mark.spark] * (s == "spark"))
        for s in SCRIPTS
    ],
)
def test_a_script_writes_what_a_figure_depends_on_and_the_page_shows_it(tmp_path: Path, script: str) -> None:
    """Commit, versions, machine and every run stand beside the figures, and the page says what was aimed at."""
    if script == "floor" and not shutil.which(os.environ.get("CC", "cc")):
        pytest.skip("no C compiler is installed")
    result, page = tmp_path / f"{script}.json", tmp_path / "RESULTS.md"
    run(script, *SCRIPTS[script], "--out", str(result))
    found = json.loads(result.read_text(encoding="utf-8"))
    assert {"question", "when", "commit", "versions", "machine", "load", "runs", "all"} <= set(found)
    assert {"processor", "cores", "memory_gb"} <= set(found["machine"])
    assert found["all"]
    run("page", "--results", str(tmp_path), "--page", str(page))
    text = page.read_text(encoding="utf-8")
    assert text.count("\n## ") == 1
    assert f", commit {found['commit']}, " in text
    assert script in NO_TARGET or "arget" in text


def test_readme_says_of_speed_what_was_measured() -> None:
    """Every figure of its table is computed from a JSON file, and it names the machine that all of them name."""
    run("speed_page", "--check")


@pytest.mark.parametrize(
    ("there", "instead"),
    [
        (r"(?<=\n\|---\|---\|\n\|).*?\| [0-9]+", lambda found: found[0][:-1] + str((int(found[0][-1]) + 1) % 10)),
        (r"(?<=Measured on )\w+(?= cores)", lambda _: "three"),
        (r"(?<=strategy is within )[0-9]+", lambda _: "1"),
    ],
    ids=["table", "machine", "text"],
)
def test_a_figure_that_was_not_measured_is_found(tmp_path: Path, there: str, instead: Callable[..., str]) -> None:
    """A digit of the table, the machine, or a share in the text, changed in a copy of the page, fails the check."""
    copy = tmp_path / "speed.md"
    text, changed = re.subn(there, instead, (ROOT / "docs" / "speed.md").read_text(encoding="utf-8"), count=1)
    assert changed == 1
    copy.write_text(text, encoding="utf-8")
    assert (
        "docs/speed.md or README.md and benchmarks/results differ"
        in ran("speed_page", "--check", "--page", str(copy)).stderr
    )
