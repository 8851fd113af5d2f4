"""What needs a package of an extra says so in one way: one class of error, and what to install."""

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
def test_what_an_extra_installs_is_named_where_it_is_missing(package, extra, use, tmp_path, monkeypatch):
    """NotFoundError with the words for pip; nothing of the import is left behind it."""
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(NotFoundError, match=rf"pip install 'sparsehist\[{extra}\]'") as missing:
        use(tmp_path)
    assert missing.value.__context__ is None
