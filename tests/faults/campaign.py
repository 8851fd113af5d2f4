"""Kill work at chosen calls, or let a call fail: `python -m tests.faults.campaign PLACE --kills 100`.

One process imports everything and starts no thread. Every attempt is a fork of it. Its n-th call of one kind kills
it or fails: a system call traced by strace, or, with `--inside`, any call by which Python changes files or the state.
A second fork checks what is left (`tests.faults.work`).
"""

from __future__ import annotations

import argparse
import ctypes
import errno
import json
import os
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

# All that the work imports on its way, so that an attempt makes its own calls only.
from sparsehist.release import creation, query_session  # noqa: F401
from sparsehist.sqlfront import session  # noqa: F401
from sparsehist.store.database import Database
from tests.faults.place import REFUSED, Place, forked
from tests.faults.work import WORK

KINDS = ("write", "pwrite64", "fsync", "fdatasync", "rename", "unlink", "ftruncate", "mkdir", "rmdir", "unlinkat")
MOST_CALLS = 250
"""Twice what the longest work makes; where attempts leave something that the next one reads, there is no end."""
CALLS = ("open", "write", "fsync", "replace", "rename", "mkdir", "unlink", "rmdir", "ftruncate")
STEPS = {"prepare": 0, "work": 1, "check": 2}


def kill_inside(number: int) -> None:
    """Let this process die by SIGKILL when Python is about to make its call of that number."""
    left = [number]

    def wrapped(call: Callable[..., object]) -> Callable[..., object]:
        def counted(*arguments: object, **named: object) -> object:
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            left[0] -= 1
            return call(*arguments, **named)

        return counted

    for name in CALLS:
        setattr(os, name, wrapped(getattr(os, name)))
    for method in ("rows", "change", "close"):
        setattr(Database, method, wrapped(getattr(Database, method)))


def everywhere(name: str, root: Path) -> int:
    """Kill work inside at each of its calls in turn, until it ends by itself; how many calls it makes."""
    place = Place(root)
    before, work, check = WORK[name]
    assert forked(lambda: before(place)) == 0, f"{name}: not prepared"
    for moment in range(MOST_CALLS):

        def attempt(moment: int = moment) -> None:
            kill_inside(moment)
            work(place)

        ended = forked(attempt)
        assert forked(lambda: check(place)) == 0, f"{name}: check failed after a kill at call {moment}"
        if ended == 0:
            return moment
        assert ended == -signal.SIGKILL, f"at call {moment} it was not killed: {ended}, as waitpid says it"
    raise AssertionError(f"after {MOST_CALLS} calls it had not ended: an attempt leaves more work for the next one")


def traced(injection: str, trace: Path) -> None:
    """Trace this process from here on. A failing `write` is made in Python, so that only file writes fail."""
    call, _, what = injection.partition(":")
    if call == "write" and what.startswith("error="):
        fail_write(*what.removeprefix("error=").split(":when="), trace)
        return
    ctypes.CDLL(None).prctl(0x59616D61, ctypes.c_ulong(2**64 - 1), 0, 0, 0)  # its own child may trace it
    words = ["strace", "-f", "-qq", "-o", str(trace), "-e", f"trace={call}", "-e", f"inject={injection}"]
    subprocess.Popen([*words, "-p", str(os.getpid())], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    status = Path("/proc/self/status")
    for _ in range(2000):
        if "TracerPid:\t0\n" not in status.read_text():
            return
        time.sleep(0.005)
    raise TimeoutError("strace did not attach")


def fail_write(error: str, when: str, trace: Path) -> None:
    """Let the n-th os.write fail: files are written by it."""
    left, real = [int(when)], os.write

    def write(descriptor: int, data: bytes) -> int:
        left[0] -= 1
        if left[0] == 0:
            trace.write_text("(INJECTED)")
            raise OSError(getattr(errno, error), os.strerror(getattr(errno, error)))
        return real(descriptor, data)

    os.write = write


def attempts(name: str, root: Path, what: str, kinds: list[str], most: int | None, report: Counter[str]) -> None:
    """Interrupt work at every call of every kind in turn, and check after each: once, or up to `most` attempts."""
    place = Place(root)
    before, work, check = WORK[name]
    assert forked(lambda: before(place)) == 0, f"{name}: not prepared"
    trace = root.parent / f"{name}.trace"
    done, n, left, came_before = 0, 0, list(kinds), True
    while left or (most is not None and came_before):
        if not left:  # every kind has come to its end: once more from the first call
            n, left, came_before = 0, list(kinds), False
        n += 1
        for kind in list(left):
            injection = f"{kind}:{what}:when={n}"
            trace.write_text("")

            def attempt(injected: str = injection) -> None:
                traced(injected, trace)
                work(place)

            ended = forked(attempt)
            came = ended == -signal.SIGKILL or "(INJECTED)" in trace.read_text(errors="replace")
            assert ended in ((0, REFUSED, -signal.SIGKILL) if came else (0,)), f"{name}: {injection}: ended {ended}"
            assert forked(lambda: check(place)) == 0, f"{name}: {injection}: ended {ended}, check failed"
            if not came:
                left.remove(kind)
                continue
            came_before = True
            done += 1
            ending = "refused" if ended == REFUSED else "killed" if ended < 0 else "succeeded"
            report.update((kind, f"of {name}", ending))
            if done == most:
                return


def main() -> None:
    """Run what the command line says, and print how many of each kind there were."""
    parser = argparse.ArgumentParser()
    parser.add_argument("place", type=Path)
    parser.add_argument("--work", nargs="*", default=list(WORK))
    parser.add_argument("--step", choices=[*STEPS, "for ever"])
    parser.add_argument("--inside", action="store_true")
    parser.add_argument("--kinds", nargs="*", default=list(KINDS))
    parser.add_argument("--kills", type=int, default=0, help="in all; 0: each call of each kind once")
    parser.add_argument("--errors", nargs="*", default=[])
    asked = parser.parse_args()
    if asked.step:
        place, (name,) = Place(asked.place), asked.work
        if asked.step not in STEPS:
            print("begun", flush=True)  # noqa: T201
        while True:
            WORK[name][STEPS.get(asked.step, 1)](place)
            if asked.step in STEPS:
                return
    report: Counter[str] = Counter()
    for name in asked.work:
        if asked.inside:
            report[f"of {name}"] = everywhere(name, asked.place / name / "w")
            continue
        most = -(-asked.kills // len(asked.work)) or None
        for what in [f"error={error}" for error in asked.errors] or ["signal=SIGKILL"]:
            attempts(name, asked.place / f"{name}-{what}" / "w", what, asked.kinds, most, report)
    print(json.dumps(report), flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
