"""Tests that all benchmark scripts run at tiny sizes and that the documented figures equal measured figures."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SCRIPTS = {
    "round_arithmetic": "--runs 2 --cells 2000 --level 0.01",
    "domain_size": "--runs 2 --cells 400 800 --published 100 --false-keys 50",
    "bounding": "--runs 2",
    "domains": "--runs 2",
    "before_after": "--runs 1 --rows 50 --many 30 --waiting 2",
    "release": "--runs 1 --rows 50",
    "real_logs": "",
    "dense_round": "--runs 1 --size 2000",
    "dense_sparse": "--runs 1 --sizes 10000 --rounds 1 2 --nonzero 400 --published 100",
    "discrete_laplace": "--runs 1 --draws 2000",
    "histories": "--runs 1 --cells 300 --families gaussian poisson",
    "key_discovery": "--runs 1",
    "lossless": "--cells 2000",
    "marginals": "--runs 1 --cells 500",
    "noise": "--runs 1 --draws 2000 --opendp-draws 20",
    "peers": "--runs 1 --rows 2000 --peers=",
    "people": "--runs 1 --people 2000 --cells 3000",
    "floor": "--runs 1 --rows 2000 --ids random uuid --activity 0.7",
    "column_types": "--runs 1 --rows 2000 --only 'Int64 × text' '(date, text) × text' 'Arrow stream'",
    "pipeline": "--runs 1 --rows 2000 --ids uuid --activity 0.7",
    "planned": "",
    "profiles": "--runs 1 --rows 2000 --published 50 --cells 500",
    "counting": "--runs 1 --rows 2000",
    "running": "--runs 1 --days 3 --keys 2000 --units 500 --rows 400 --many 800 --after 1 4",
    "scale": "--runs 1 --nonzero 9000 --tracked 500 1000 --releases 12 --cells 50 --rows 2000",
    "sensitivity": "--max-keys 1",
    "spark": "--runs 1 --rows 4000 --warm 2000 --memory 1g",
    "sql_front": "--runs 1 --rows 2000",
    "start": "--runs 1",
    "workload_error": "--exponents 4 6 --max-keys 1 3",
    "workload_speed": "--runs 1 --cells 3000",
}
# These scripts run by default, one of each kind: counting, releases, arithmetic, workloads.
BY_DEFAULT = {"release", "round_arithmetic", "planned", "noise", "workload_speed"}


def run(script: str, *arguments: object) -> tuple[int, str]:
    """Run a benchmark script, and return its exit code and, in case of failure, what it wrote to stderr."""
    done = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / f"{script}.py"), *map(str, arguments)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stderr if done.returncode else ""


def marked(script: str) -> object:
    """Return a script as a test parameter, which is marked as slow unless the script is in `BY_DEFAULT`."""
    marks = [pytest.mark.slow] * (script not in BY_DEFAULT) + [pytest.mark.spark] * (script == "spark")
    return pytest.param(script, marks=marks)


@pytest.mark.parametrize("script", [marked(script) for script in SCRIPTS])
def test_a_script_writes_its_figures_with_their_origin(tmp_path: Path, script: str) -> None:
    """A benchmark result names its commit, versions, machine and runs. The results page shows the commit as well."""
    if script == "floor" and not shutil.which(os.environ.get("CC", "cc")):
        pytest.skip("no C compiler is installed")
    result, page = tmp_path / f"{script}.json", tmp_path / "RESULTS.md"
    assert run(script, *shlex.split(SCRIPTS[script]), "--out", result) == (0, "")
    found = json.loads(result.read_text(encoding="utf-8"))
    assert {"question", "when", "versions", "load", "runs"} <= set(found) and found["all"]
    assert {"processor", "cores", "memory_gb"} <= set(found["machine"])
    assert run("page", "--results", tmp_path, "--page", page) == (0, "")
    text = page.read_text(encoding="utf-8")
    assert text.count("\n## ") == 1 and f", commit {found['commit']}, " in text


@pytest.mark.parametrize(
    ("there", "instead"),
    [
        ("", ""),
        (r"(\n\|---\|---\|\n\|.*?\| )[0-9]+", r"\g<1>987"),
        (r"(?<=strategy is at most )[0-9]+", "1"),
    ],
    ids=["unchanged", "table", "text"],
)
def test_a_figure_that_was_not_measured_is_noticed(tmp_path: Path, there: str, instead: str) -> None:
    """The figures in docs/speed.md equal the measured results, and the check rejects a changed figure."""
    copy = tmp_path / "speed.md"
    text, changed = re.subn(there, instead, (ROOT / "docs" / "speed.md").read_text(encoding="utf-8"), count=1)
    copy.write_text(text, encoding="utf-8")
    assert changed == 1
    code, complaint = run("speed_page", "--check", "--page", copy)
    assert bool(code) == bool(there)
    assert ("docs/speed.md or README.md and benchmarks/results differ" in complaint) == bool(there)
