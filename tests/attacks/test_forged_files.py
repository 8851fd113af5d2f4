"""Tests that a forged file cannot run code, hang its reader, fill the memory or send commands to the terminal."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest

import sparsehist as sh
from sparsehist.cli.entry import run
from sparsehist.errors import DeclarationError, InputError, SparsehistError
from sparsehist.store import LEDGER_NAME
from sparsehist.store.witnesses import mark_path
from tests.series.test_series import a_series

PLANTED = "from pathlib import Path\nPath(__file__).with_name('ran').touch()\n"


def forged(release: sh.Release, path: Path, **changes: object) -> Path:
    """Write a release file with altered metadata or an altered declaration, and return the file's path."""
    told = release.metadata
    declared = told["declaration"] | {name: value for name, value in changes.items() if name in told["declaration"]}
    metadata = json.dumps({"format": 1, **told, **changes, "declaration": changes.get("declaration", declared)})
    release.frame.write_parquet(path, metadata={"sparsehist": metadata})
    return path


def test_a_release_imports_nothing_that_it_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading a forged release file imports no module and opens no file that is named in the metadata."""
    (tmp_path / "planted.py").write_text(PLANTED)
    monkeypatch.syspath_prepend(tmp_path)
    release = a_series().release("one", level=1)
    with pytest.raises(InputError, match="a declaration that cannot be read"):
        sh.read(forged(release, tmp_path / "a.parquet", noise="planted:Family"))
    os.mkfifo(tmp_path / "pipe")
    read = sh.read(forged(release, tmp_path / "a.parquet", domain=f"catalogue(file='{tmp_path / 'pipe'}')"))
    assert read.intervals().height == len(release)
    with pytest.raises(DeclarationError, match="must be one of"):
        a_series(noise="planted:Family")
    assert not (tmp_path / "ran").exists()
    __import__("planted")
    assert (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    "changes",
    [
        {"max_keys": "1"}, {"level": 1}, {"grid": None}, {"key": [1]}, {"std": True}, {"declaration": None},
        {"measure_levels": {"price": 1}},
    ],
    ids=str,
)  # fmt: skip
def test_metadata_of_another_type_are_refused(tmp_path: Path, changes: dict[str, object]) -> None:
    """If a metadata field of a release file has the wrong type, `sh.read` or `intervals` raises InputError."""
    path = forged(a_series().release("one", level=1), tmp_path / "a.parquet", **changes)
    with pytest.raises(InputError, match=r"is not a release|of the series: none"):
        sh.read(path).intervals()


@pytest.mark.parametrize("text", ["[" * 100_000, "[]", '{"format": 1' + "1" * 5000 + "}"], ids=len)
def test_metadata_that_are_no_object_are_refused(tmp_path: Path, text: str) -> None:
    """A release file is refused if its metadata are a list, nest too deeply, or contain a 5,000-digit number."""
    pl.DataFrame({"a": [1]}).write_parquet(tmp_path / "a.parquet", metadata={"sparsehist": text})
    with pytest.raises(InputError, match="not a release"):
        sh.read(tmp_path / "a.parquet")


def planted(path: Path, kind: str) -> None:
    """Replace a file with one that blocks its reader, fills the memory or is malformed, depending on `kind`."""
    path.unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "nested":
        path.write_text('{"format": 1, "stores": ' + "[" * 1_000_000)
    elif kind == "huge":
        with path.open("wb") as file:
            file.truncate(1 << 40)
    elif kind == "infinite":
        path.write_text('{"format": 1, "generations": {"a": 1e999}, "stores": {"a": {"generation": 1e999}}}')
    elif kind == "list":
        path.write_text("[]")


KINDS = ["pipe", "device", "nested", "huge", "infinite", "list"]


@pytest.fixture
def at_once() -> Iterator[None]:
    """Fail the test if it still runs after ten seconds."""

    def give_up(*_: object) -> None:
        pytest.fail("still waiting")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(10)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("place", ["mark", "format", "ledger"])
def test_what_stands_in_the_place_of_a_small_file_is_refused_at_once(tmp_path: Path, place: str, kind: str) -> None:
    """If a store's generation file, format file or public ledger is forged, using the store fails at once."""
    store, out = tmp_path / "store", tmp_path / "out"
    out.mkdir()
    series = a_series(store)
    series.release("one", level=1).write_parquet(out / "a.parquet")
    small = {"mark": mark_path(store), "format": store / "format", "ledger": out / LEDGER_NAME}
    planted(small[place], kind)
    with pytest.raises(SparsehistError), sh.open(store) as opened:
        opened.series("visits").release("two", level=2)


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("kind", KINDS)
def test_a_session_for_readers_refuses_them_at_once(tmp_path: Path, kind: str) -> None:
    """An analyst session skips a forged release file, and refuses a forged public ledger. Neither makes it hang."""
    a_series().release("one", level=1).write_parquet(tmp_path / "a.parquet")
    planted(tmp_path / "b.parquet", kind)
    with sh.open_analyst(tmp_path) as session:
        assert session.tables()["name"].to_list() == ["visits.one", "ledger"]
    planted(tmp_path / LEDGER_NAME, kind)
    with pytest.raises(SparsehistError, match="not a public ledger"):
        sh.open_analyst(tmp_path)


BELLS = "\x1b]0;owned\x07\x1bc\x9b31m\u202e"


def test_no_control_character_reaches_a_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Control characters in names, keys, paths and metadata are escaped in errors, tables, JSON and reprs."""
    log = pl.DataFrame({"user": range(900), f"key{BELLS}": [f"/{BELLS}"] * 900})
    log.write_parquet(tmp_path / f"log{BELLS}.parquet")
    bounds = ["--max-keys", "1", "--domain", "strings(max_bytes=40)"]
    declared = ["--unit", "user", "--name", "visits", *bounds]
    store, out, where = tmp_path / f"store{BELLS}", tmp_path / f"out{BELLS}.parquet", tmp_path / f"log{BELLS}.parquet"
    commands = [
        ["create", store, "--input", where, "--key", f"key{BELLS}", *declared],
        ["release", store, "--series", "visits", "--name", "one", "--level", "1", "--out", out, "--head", "3"],
        ["show", store],
        ["check", where, "--unit", f"nobody{BELLS}", "--key", "key", *bounds],
        ["run", tmp_path / f"no{BELLS}.sql"],
        [f"no{BELLS}"],
    ]
    shown = 0
    for words in commands:
        for more in ([], ["--json"]):
            run([str(word) for word in [*words, *more]])
            printed = "".join(capsys.readouterr())
            assert all(letter.isprintable() or letter == "\n" for letter in printed), words
            shown += "owned" in printed
    assert shown > 8
    forged(sh.read(out), tmp_path / "a.parquet", name=BELLS, declaration=sh.read(out).metadata["declaration"])
    assert repr(sh.read(tmp_path / "a.parquet")).isprintable()
    with pytest.raises(InputError) as refused:
        sh.read(tmp_path / BELLS)
    assert str(refused.value).isprintable()
