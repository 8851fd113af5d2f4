"""Fixtures for tests of the command line: a small log, a store, and commands that run in this process."""

import json
from dataclasses import dataclass
from typing import Any

import polars as pl
import pytest

from sparsehist.cli.entry import run


@dataclass(frozen=True)
class Ran:
    """The exit code and the output of one command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        assert self.out.count("\n") == 1
        return json.loads(self.out)

    @property
    def text(self) -> str:
        """Return all text that the command printed, joined into one line."""
        return " ".join((self.out + self.err).split())


@pytest.fixture
def here(tmp_path, monkeypatch):
    """Change to an empty working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def sparsehist(capsys, here):
    """Return a function that runs a command, given as one string or as separate words, and captures its output."""

    def ran(*words):
        capsys.readouterr()
        code = run([str(word) for word in (words[0].split() if len(words) == 1 else words)])
        return Ran(code, *capsys.readouterr())

    return ran


@pytest.fixture
def log(here):
    """Write a log of 900 units to two Parquet files; 600 of the units visit /home."""
    urls = ["/home" if i % 3 else "/about" for i in range(900)]
    frame = pl.DataFrame({"user_id": [f"u{i}" for i in range(900)], "url": urls})
    (here / "log").mkdir()
    frame.head(400).write_parquet("log/a.parquet")
    frame.tail(500).write_parquet("log/b.parquet")
    return "log/*.parquet"


@pytest.fixture
def declared(log):
    """Return the options that declare a small series."""
    options = f"--input {log} --unit user_id --key url --max-keys 2 --domain strings(max_bytes=8) --cap 1"
    return [*options.split(), "--name", "visits"]


@pytest.fixture
def store(sparsehist, declared):
    """Create a store with one series."""
    assert sparsehist("create", "s", *declared).code == 0
    return "s"
