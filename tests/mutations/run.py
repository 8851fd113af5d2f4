"""Break the package in one place at a time, and see that the tests notice.

    python tests/mutations/run.py [--only WORD] [--jobs 2] [--slow]

Each `*.toml` here lists mutations of one room: a file, a text that occurs in it once, what replaces it, and the tests
that should fail. The package and its tests are copied, mutated there, and only the named tests run. A mutation
survives if no named test notices it. It is stale if its text no longer occurs exactly once, or if its tests fail
without it. Either ends the run with exit code 1. One that is `equivalent` says why and is not run.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
CHECKOUT = HERE.parent.parent
COPIED = ("sparsehist", "sql", "data", "tests", "docs", "benchmarks", "pyproject.toml", "README.md", "CHANGELOG.md")
SECONDS = 900


@dataclass(frozen=True, kw_only=True)
class Mutation:
    """One change of one file, and the tests that should notice it."""

    room: str
    file: str
    before: str
    after: str
    tests: tuple[str, ...]
    slow: bool = False
    equivalent: str = ""

    @property
    def title(self) -> str:
        """Name it on one line."""
        return f"{self.file}: {self.before.strip()[:60]!r} -> {self.after.strip()[:60]!r}"


def mutations() -> list[Mutation]:
    """Read all lists."""
    return [
        Mutation(room=path.stem, **entry | {"tests": tuple(entry.get("tests", ()))})
        for path in sorted(HERE.glob("*.toml"))
        for entry in tomllib.loads(path.read_text(encoding="utf-8"))["mutation"]
    ]


def is_stale(mutation: Mutation) -> bool:
    """Return whether the text to replace does not occur exactly once in its file."""
    file = CHECKOUT / mutation.file
    return not file.is_file() or file.read_text(encoding="utf-8").count(mutation.before) != 1


def survives(mutation: Mutation, *, broken: bool = True) -> bool:
    """Run the named tests on a copy, mutated if `broken`; whether all of them pass."""
    with tempfile.TemporaryDirectory() as home:
        for name in COPIED:
            source = CHECKOUT / name
            if source.is_dir():
                unwanted = shutil.ignore_patterns("__pycache__", "node_modules")
                shutil.copytree(source, Path(home, name), ignore=unwanted)
            elif source.exists():
                shutil.copy(source, home)
        if broken:
            target = Path(home, mutation.file)
            source_text = target.read_text(encoding="utf-8")
            target.write_text(source_text.replace(mutation.before, mutation.after), encoding="utf-8")
        chosen = "slow or faults or not slow" if mutation.slow else "not slow and not faults and not spark"
        pytest = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-m", chosen]
        environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": home, "OMP_NUM_THREADS": "1"}
        try:
            run = subprocess.run(
                [*pytest, *mutation.tests],
                cwd=home,
                env=environment,
                capture_output=True,
                text=True,
                timeout=SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return False  # a mutation that never ends is noticed
    if not broken and run.returncode != 0:
        print(run.stdout[-2000:], run.stderr[-2000:], sep="\n")
    return run.returncode == 0


def main() -> int:
    """Run them, and list the survivors."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="mutations whose room, file or text holds this word")
    parser.add_argument("--jobs", type=int, default=2, help="how many run at once")
    parser.add_argument("--slow", action="store_true", help="those that only slow tests notice, too")
    options = parser.parse_args()
    chosen = [each for each in mutations() if options.only in f"{each.room} {each.file} {each.before}"]
    wanted = [each for each in chosen if not each.equivalent and (options.slow or not each.slow)]
    stale = [each for each in wanted if is_stale(each)]
    with ThreadPoolExecutor(options.jobs) as pool:
        # The control: without a mutation the same tests pass in such a copy.
        controls = list({each.tests: each for each in wanted if each not in stale}.values())
        passing = pool.map(lambda one: survives(one, broken=False), controls)
        passed = {each.tests for each, alive in zip(controls, passing, strict=True) if alive}
        stale += [each for each in wanted if each not in stale and each.tests not in passed]
        for each in stale:
            print("STALE   ", each.title, flush=True)
        fresh = [each for each in wanted if each not in stale]
        survived = 0
        for each, alive in zip(fresh, pool.map(survives, fresh), strict=True):
            print("SURVIVED" if alive else "noticed ", each.title, flush=True)
            survived += alive
    print(f"{len(wanted)} mutations: {len(fresh) - survived} noticed, {survived} survived, {len(stale)} stale")
    return 1 if survived or stale else 0


if __name__ == "__main__":
    sys.exit(main())
