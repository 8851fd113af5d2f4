from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]


def run(*arguments, before=()):
    """Run the script of crashes, under a tracer where there is one."""
    return subprocess.run(
        [*before, sys.executable, "-m", "tests.store.crashing", *map(str, arguments)],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    "work",
    [
        "release",
        "create",
        *(
            pytest.param(work, marks=pytest.mark.slow)
            for work in (
                "release_sums",
                "workload",
                "ask",
                "open_session",
                "create_series",
                "drop",
                "adopt",
                "backup",
            )
        ),
    ],
)
def test_a_store_killed_at_any_call_is_before_or_after(tmp_path, work):
    """Killed at each of its calls of the system and of the engine, work is done as a whole or not begun."""
    done = run("everywhere", work, tmp_path)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= 15


@pytest.mark.faults
@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace")
@pytest.mark.parametrize("call", ["fdatasync", "fsync", "pwrite64", "write", "rename", "unlink", "ftruncate"])
@pytest.mark.parametrize("work", ["release", "drop"])
def test_a_store_killed_inside_the_engine_is_before_or_after(tmp_path, work, call):
    """Killed by the kernel at each system call of a kind, the engine's included, work is whole or not begun."""
    assert run("prepare", work, tmp_path).returncode == 0
    # Dropping writes the whole state anew, and each attempt adds to it: more than 177 writes when it catches up.
    for moment in range(1, 400):
        inject = f"inject={call}:signal=SIGKILL:when={moment}"
        tracer = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", f"trace={call}", "-e", inject]
        killed = run("once", work, tmp_path, before=tracer).returncode
        checked = run("check", work, tmp_path)
        assert checked.returncode == 0, f"after a kill at {call} {moment}: {checked.stderr}"
        if killed == 0:
            break
    else:
        pytest.fail("the work never came to an end")
