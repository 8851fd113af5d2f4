"""What a file from somebody else may not do: import, run, wait, fill the memory, or speak to the terminal."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

import sparsehist as sh
from sparsehist.errors import DeclarationError, InputError
from tests.own_family import Brought
from tests.series.test_series import a_series

PLANTED = "from pathlib import Path\nPath(__file__).with_name('ran').touch()\n"


def forged(release: sh.Release, path: Path, **changes: object) -> Path:
    """A file of the release whose metadata say something else."""
    metadata = json.dumps({"format": 1, **release.metadata, **changes})
    release.frame.write_parquet(path, metadata={"sparsehist": metadata})
    return path


def test_a_release_imports_nothing_that_it_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module of the forger's choice was run by `.intervals()`; the control shows that it could be imported."""
    (tmp_path / "planted.py").write_text(PLANTED)
    monkeypatch.syspath_prepend(tmp_path)
    release = sh.read(forged(a_series().release("one", level=1), tmp_path / "a.parquet", noise="planted:Family"))
    with pytest.raises(DeclarationError, match="not registered"):
        release.intervals()
    with pytest.raises(DeclarationError, match="not registered"):
        a_series(noise="planted:Family")
    assert not (tmp_path / "ran").exists()
    __import__("planted")
    assert (tmp_path / "ran").exists()


def test_a_reader_hands_over_the_family_of_a_release(tmp_path: Path) -> None:
    """In a process that knows nothing of it, intervals are those of the process that released."""
    release = a_series(noise=Brought).release("one", level=1)
    release.write_parquet(tmp_path / "a.parquet")
    code = (
        "import sys, sparsehist as sh\n"
        "from tests.own_family import Brought\n"
        "sh.read(sys.argv[1], noise=Brought).intervals().write_parquet(sys.argv[2])"
    )
    subprocess.run(
        [sys.executable, "-c", code, tmp_path / "a.parquet", tmp_path / "b.parquet"], check=True, timeout=60
    )
    assert pl.read_parquet(tmp_path / "b.parquet").equals(release.intervals())
    with pytest.raises(InputError, match=r"'tests.own_family:Brought', not from 'laplace'"):
        sh.read(tmp_path / "a.parquet", noise=sh.noise.Laplace)


def test_a_store_imports_only_what_its_caller_registered(tmp_path: Path) -> None:
    """Opened by a process that registered nothing, such a series releases nothing; registered, it does."""
    a_series(tmp_path / "store", noise=Brought)
    code = (
        "import sys, sparsehist as sh\n"
        "series = sh.open(sys.argv[1]).series('visits')\n"
        "try:\n    series.release('one', level=1)\n"
        "except sh.errors.DeclarationError as problem:\n    assert 'not registered' in str(problem)\n"
        "else:\n    raise SystemExit('released')\n"
        "assert 'tests.own_family' not in sys.modules\n"
        "from tests.own_family import Brought\n"
        "sh.noise.register(Brought)\n"
        "print(len(series.release('one', level=1)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "store"], check=True, timeout=60, capture_output=True, text=True
    )
    assert int(done.stdout) == len(sh.open(tmp_path / "store").series("visits").release("one"))


@pytest.mark.parametrize(
    "changes",
    [{"max_keys": "1"}, {"level": 1}, {"grid": None}, {"key": [1]}, {"key": "key"}, {"std": True}, {"name": None}],
    ids=str,
)
def test_metadata_of_another_type_are_refused(tmp_path: Path, changes: dict[str, object]) -> None:
    """By an error of ours, not by whatever stumbles over them."""
    path = forged(a_series().release("one", level=1), tmp_path / "a.parquet", **changes)
    with pytest.raises(InputError, match=f"{next(iter(changes))}' that is no"):
        sh.read(path).intervals()


@pytest.mark.parametrize("text", ["[" * 100_000, "[]", "3", '{"format": 1' + "1" * 5000 + "}"], ids=len)
def test_metadata_that_are_no_object_are_refused(tmp_path: Path, text: str) -> None:
    """Nested deeper than Python goes, a list, a number, a number of too many digits."""
    pl.DataFrame({"a": [1]}).write_parquet(tmp_path / "a.parquet", metadata={"sparsehist": text})
    with pytest.raises(InputError, match="not a release"):
        sh.read(tmp_path / "a.parquet")
