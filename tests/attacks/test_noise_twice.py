"""Tests that neither a misread store name nor an interrupt makes a store draw noise twice for the same level."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path

import polars as pl
import pytest

import sparsehist as sh
from sparsehist.errors import DeclarationError

COUNTS = pl.DataFrame({"word": [f"key{i}" for i in range(50)], "count": range(1, 101, 2)})


def a_series(path: Path) -> sh.Series:
    """Create a store at this path with a series of fifty keys."""
    counts = sh.Counts(COUNTS, largest=1)
    return sh.create(path, counts, name="words", key="word", max_keys=2, domain=sh.Strings(max_bytes=6))


@pytest.mark.parametrize("name", ["q?x", "a.generation"])
def test_a_name_that_would_be_misread_is_refused(tmp_path: Path, name: str) -> None:
    """A store's name is refused if it contains a question mark, or ends in `.generation` like a generation file."""
    with pytest.raises(DeclarationError, match="question mark"):
        a_series(tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_interrupted_at_every_call_a_release_is_whole_or_not_there(tmp_path: Path) -> None:
    """After a KeyboardInterrupt in any function, the release can be repeated and no earlier release has changed.

    Generators are not interrupted, because Python ignores errors that are raised while a generator is closed.
    """
    series = a_series(tmp_path / "store")
    series.release("before", level="1/3")
    package = str(Path(sh.__file__).parent)
    calls = 0

    def interrupt_at(target: int) -> object:
        def trace(frame, event, _):
            nonlocal calls
            code = frame.f_code
            if event == "call" and code.co_filename.startswith(package) and not code.co_flags & inspect.CO_GENERATOR:
                calls += 1
                if calls == target:
                    sys.settrace(None)
                    raise KeyboardInterrupt

        return trace

    known = {"before": series.release("before").frame}
    sys.settrace(interrupt_at(-1))
    series.release("counted", level="1/5")
    sys.settrace(None)
    for i, target in enumerate(range(1, calls, max(1, calls // 30))):
        calls = 0
        sys.settrace(interrupt_at(target))
        try:
            series.release(f"at_{i}", level=f"{i % 9 + 1}/11")
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(None)
        again = series.release(f"at_{i}", level=f"{i % 9 + 1}/11")
        known[again.name] = again.frame
    assert len(known) > 20
    for name, frame in known.items():
        assert series.release(name).frame.equals(frame)
