"""A missing package of an extra is one kind of error that says what to install."""

import sys

import pytest

import sparsehist as sh
from sparsehist.counting.lakes import open_table
from sparsehist.errors import NotFoundError


@pytest.mark.parametrize(
    ("package", "extra", "use"),
    [
        ("deltalake", "lakes", lambda at: open_table(f"delta:{at}/table", {})),
        ("altair", "plots", lambda at: sh.open(at / "s", create=True).report()),
    ],
)
def test_a_missing_extra_is_named(package, extra, use, tmp_path, monkeypatch):
    """The error has the command for pip, and hides the failed import."""
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(NotFoundError, match=rf"pip install 'sparsehist\[{extra}\]'") as missing:
        use(tmp_path)
    assert missing.value.__context__ is None
