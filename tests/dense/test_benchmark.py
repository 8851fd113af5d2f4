"""The benchmark of dense rounds runs, at a size too small to say anything."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_script_compares_every_round_with_numpy(tmp_path):
    """Twelve rounds, their ratios, the targets and the context stand in the file."""
    out = tmp_path / "dense_round.json"
    paths = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    script = [sys.executable, str(ROOT / "benchmarks" / "dense_round.py")]
    done = subprocess.run(
        [*script, "--runs", "1", "--size", "1000", "--out", str(out)],
        env=os.environ | {"PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(out.read_text(encoding="utf-8"))
    assert len(found["ratios"]) == 12
    assert set(found["targets"]) <= set(found["ratios"])
    assert {"question", "commit", "versions", "machine", "runs", "medians", "all"} <= set(found)
