"""Change one line of the package at a time, and check that a test fails.

    Usage (see --help for the options): python tests/mutations/run.py [--only WORD] [--jobs 2] [--slow]

Each `*.toml` here lists mutations of one part of the package: a file, a text that occurs in it once, its replacement,
and the tests that should fail. Package and tests are copied, the copy is mutated, and only the named tests run. A
mutation survives if its tests pass. A mutation is stale if its text does not occur exactly once, or if its tests fail
without it. Both end the run with exit code 1. An `equivalent` mutation states why it changes nothing, and is not run.
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
    """A change to one file, and the tests that should fail because of it."""

    room: str
    file: str
    before: str
    after: str
    tests: tuple[str, ...]
    slow: bool = False
    equivalent: str = ""

    @property
    def title(self) -> str:
        """Return a one-line title of this mutation."""
        return f"{self.file}: {self.before.strip()[:60]!r} -> {self.after.strip()[:60]!r}"


def mutations() -> list[Mutation]:
    """Return the mutations from all `*.toml` lists."""
    return [
        Mutation(room=path.stem, **entry | {"tests": tuple(entry.get("tests", ()))})
        for path in sorted(HERE.glob("*.toml"))
        for entry in tomllib.loads(path.read_text(encoding="utf-8"))["mutation"]
    ]


def is_stale(mutation: Mutation) -> bool:
    """Return whether the text to replace is missing from the mutation's file or occurs there more than once."""
    file = CHECKOUT / mutation.file
    return not file.is_file() or file.read_text(encoding="utf-8").count(mutation.before) != 1


def passes(mutation: Mutation, *, broken: bool = True) -> bool:
    """Copy the package, apply the mutation if `broken`, and return whether the mutation's tests pass in time."""
    with tempfile.TemporaryDirectory() as home:
        ignored = shutil.ignore_patterns("__pycache__", "node_modules")
        for source in (CHECKOUT / name for name in COPIED):
            if source.is_dir():
                shutil.copytree(source, Path(home, source.name), ignore=ignored)
            elif source.exists():
                shutil.copy(source, home)
        if broken:
            target = Path(home, mutation.file)
            text = target.read_text(encoding="utf-8")
            target.write_text(text.replace(mutation.before, mutation.after), encoding="utf-8")
        chosen = "slow or faults or not slow" if mutation.slow else "not slow and not faults and not spark"
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-x",
            "-p",
            "no:cacheprovider",
            "-m",
            chosen,
            *mutation.tests,
        ]
        settings = {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": home, "OMP_NUM_THREADS": "1"}
        try:
            run = subprocess.run(
                command, cwd=home, env=os.environ | settings, capture_output=True, timeout=SECONDS, check=False
            )
        except subprocess.TimeoutExpired:
            return False
    if not broken and run.returncode != 0:
        print(run.stdout.decode()[-2000:], run.stderr.decode()[-2000:], sep="\n")
    return run.returncode == 0


def main() -> int:
    """Run the mutations, and print those that no test detects."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="run only mutations with this word in room, file or text")
    parser.add_argument("--jobs", type=int, default=2, help="number of mutations that run at the same time")
    parser.add_argument("--slow", action="store_true", help="include mutations that only slow tests notice")
    options = parser.parse_args()
    wanted = [each for each in mutations() if not each.equivalent and (options.slow or not each.slow)]
    wanted = [each for each in wanted if options.only in f"{each.room} {each.file} {each.before}"]
    with ThreadPoolExecutor(options.jobs) as pool:
        # Control: without the mutation, the same tests must pass in a copy.
        controls = {each.tests: each for each in wanted if not is_stale(each)}
        passing = pool.map(lambda each: passes(each, broken=False), controls.values())
        passed = {tests for tests, good in zip(controls, passing, strict=True) if good}
        fresh = [each for each in wanted if not is_stale(each) and each.tests in passed]
        for each in wanted:
            if each not in fresh:
                print("STALE   ", each.title, flush=True)
        survived = 0
        for each, alive in zip(fresh, pool.map(passes, fresh), strict=True):
            print("SURVIVED" if alive else "noticed ", each.title, flush=True)
            survived += alive
    stale = len(wanted) - len(fresh)
    print(f"{len(wanted)} mutations: {len(fresh) - survived} noticed, {survived} survived, {stale} stale")
    return 1 if survived or stale else 0


if __name__ == "__main__":
    sys.exit(main())
