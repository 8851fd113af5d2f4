"""Interrupt work on a store at many different system or Python calls, and check the store each time.

Run `python -m tests.faults.campaign PLACE --kills 100`.
The main process imports everything and starts no thread. Each attempt forks a child to do the work, and interrupts
it at the n-th call of one kind: the child is killed, or the call fails. A kind is the name of a system call, such as
fsync, which strace intercepts. The kind `inside` stands for all Python calls that change files or the store's
database. After the interruption, another child runs a check from `tests.faults.work`.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path

# Import everything before the fork, so that imports make no system calls during an attempt.
from sparsehist.release import creation, query_session  # noqa: F401
from sparsehist.sqlfront import session  # noqa: F401
from sparsehist.store.database import Database
from tests.faults.place import REFUSED, Place, forked
from tests.faults.work import WORK

INSIDE = "inside"
KINDS = ("write", "pwrite64", "fsync", "fdatasync", "rename", "unlink", "ftruncate", "mkdir", "rmdir", "unlinkat")
MOST_CALLS = 250
"""Twice the calls of the longest work. More calls mean that each attempt leaves more work for the next attempt."""
CALLS = ("open", "write", "fsync", "replace", "rename", "mkdir", "unlink", "rmdir", "ftruncate")
KILL = "signal=SIGKILL"


def kill_inside(number):
    """Make this process kill itself just before its `number`-th Python call that changes files or the database."""
    left = [number]

    def wrapped(call):
        def counted(*arguments, **named):
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return call(*arguments, **named)

        return counted

    for name in CALLS:
        setattr(os, name, wrapped(getattr(os, name)))
    for method in ("run", "close"):
        setattr(Database, method, wrapped(getattr(Database, method)))


def trace_calls(injection, trace):
    """Attach strace to the main thread of this process, and inject a fault into one of its system calls.

    The main thread is enough, because no other thread writes files. Polars' threads would hang if their calls failed.
    """
    # Allow a child process to trace this process.
    ctypes.CDLL(None).prctl(0x59616D61, ctypes.c_ulong(2**64 - 1), 0, 0, 0)
    call, _, _ = injection.partition(":")
    words = ["strace", "-qq", "-o", trace, "-e", f"trace={call}", "-e", f"inject={injection}"]
    subprocess.Popen([*words, "-p", str(os.getpid())], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for _ in range(2000):
        if "TracerPid:\t0\n" not in Path("/proc/self/status").read_text():
            return
        time.sleep(0.005)
    raise TimeoutError("strace did not attach")


def interrupt(name, place, kind, what, number):
    """Interrupt work at the `number`-th call of a kind, check the store, and return how the work ended.

    Return None if the work made fewer calls of this kind.
    """
    _, work, check = WORK[name]
    trace = place.root.parent / "trace"
    trace.write_text("")

    def attempt():
        if kind == INSIDE:
            kill_inside(number)
        else:
            trace_calls(f"{kind}:{what}:when={number}", trace)
        work(place)

    ended = forked(attempt)
    came = ended == -signal.SIGKILL or "(INJECTED)" in trace.read_text(errors="replace")
    about = f"{name}: {what} at call {number} of {kind} ended {ended}"
    assert ended in ((0, REFUSED, -signal.SIGKILL) if came else (0,)), about
    assert forked(lambda: check(place)) == 0, f"{about}, check failed"
    return {0: "succeeded", REFUSED: "refused"}.get(ended, "killed") if came else None


def attempts(name, root, what, kinds, limit, report):
    """Interrupt work at its first call of each kind, then at its second, and so on until every call was tried.

    If `limit` is given, start again after the last call, and stop after this number of attempts.
    """
    place, done, number = Place(root), 0, 0
    assert forked(lambda: WORK[name][0](place)) == 0, f"{name}: not prepared"
    left = list(kinds)
    while left:
        number += 1
        assert number < MOST_CALLS or INSIDE not in kinds, "attempts leave more work for the next one"
        for kind in list(left):
            ending = interrupt(name, place, kind, what, number)
            if ending is None:
                left.remove(kind)
                continue
            report.update((kind, f"of {name}", ending))
            done += 1
            if done == limit:
                return
        if not left and limit is not None and number > 1:  # every call of every kind was tried, so start again
            number, left = 0, list(kinds)


def main():
    """Run a campaign from the command line; print how many attempts each kind of call, work and outcome had."""
    parser = argparse.ArgumentParser()
    parser.add_argument("place", type=Path)
    parser.add_argument("--work", nargs="*", default=list(WORK))
    parser.add_argument("--step", choices=["prepare", "work"])
    parser.add_argument("--kinds", nargs="*", default=list(KINDS))
    parser.add_argument("--kills", type=int, default=0, help="total number; 0 kills once at each call of each kind")
    parser.add_argument("--errors", nargs="*", default=[])
    asked = parser.parse_args()
    if asked.step:
        prepare, work, _ = WORK[asked.work[0]]
        (prepare if asked.step == "prepare" else work)(Place(asked.place))
        return
    report = Counter()
    for name in asked.work:
        limit = -(-asked.kills // len(asked.work)) or None
        for what in [f"error={error}" for error in asked.errors] or [KILL]:
            attempts(name, asked.place / f"{name}-{what}" / "w", what, asked.kinds, limit, report)
    print(json.dumps(report), flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
