"""`--log-level`: what is done, on stderr, by names and declared parameters; nothing of a log or its size."""

from __future__ import annotations

import subprocess
import sys

import polars as pl


def _run(*words):
    command = [sys.executable, "-m", "sparsehist", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    return done.returncode, done.stdout, done.stderr


def test_info_tells_what_was_done(tmp_path):
    """Wherever it stands and however it is joined; stdout is as without it."""
    rows = {"user": [*(f"user{i}" for i in range(900)), "SECRETunit"], "url": [*["/home"] * 900, "SECRET-key"]}
    log, store = tmp_path / "SECRETfile.parquet", tmp_path / "s"
    pl.DataFrame(rows).write_parquet(log)
    created = ["create", store, "--input", log, "--unit", "user", "--key", "url", "--max-keys", 1, "--name", "visits"]
    code, _, told = _run("--log-level", "info", *created, "--domain", "strings(max_bytes=20)", "--cap", 1)
    assert code == 0
    assert "sparsehist: counting with polars" in told
    assert "sparsehist: create series done, generation 1" in told
    release = ["release", store, "--series", "visits", "--name", "public", "--level", "0.5", "--json"]
    code, out, said = _run(*release, "--log-level=debug")
    assert (code, said) == (0, "sparsehist: release done, generation 2\n")
    assert _run(*release)[2] == ""
    assert out.replace('"released"', '"repeated"') == _run(*release)[1]
    code, _, refused = _run(
        "release", store, "--series", "visits", "--name", "finer", "--level", 2, "--log-level=info"
    )
    assert code == 3
    assert refused.startswith("sparsehist: release finer refused\n")
    for text in (told, said, refused):
        assert "SECRET" not in text
        assert "90" not in text
