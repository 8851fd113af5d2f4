from __future__ import annotations

from datetime import date

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparsehist.domain import Catalogue, Domain, Product
from sparsehist.errors import DomainError

ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)


@given(st.lists(ANY_TEXT, min_size=1, unique=True))
def test_any_unicode_text_round_trips(values):
    """A catalogue (listed domain) of any Unicode strings is unchanged after it is written as text and read back."""
    again = Domain.parse(str(Catalogue(values)))
    assert again.values.to_list() == values
    assert again == Catalogue(values)
    assert str(again) == str(Catalogue(values))


@pytest.mark.parametrize(
    ("name", "content", "values"),
    [
        ("a.txt", b"\xef\xbb\xbfx\r\ny z\n", ["x", "y z"]),
        ("a.txt", b"18446744073709551615\n1", [2**64 - 1, 1]),
        ("a.txt", b"01\n2\n", ["01", "2"]),
        ("a.txt", b"2014-05-01\n2014-05-02\n", [date(2014, 5, 1), date(2014, 5, 2)]),
        ("a.txt", b"2014-5-01\n", ["2014-5-01"]),
        ("a.csv", b'c\nNA\n"a,b"\n"q""r"\n', ["NA", "a,b", 'q"r']),
    ],
)
def test_text_files_hold_what_is_written(tmp_path, name, content, values):
    """A text file is read as integers or dates if all lines look like 7 or 2014-05-01, and otherwise as text."""
    (tmp_path / name).write_bytes(content)
    assert Catalogue(file=tmp_path / name).values.to_list() == values


def test_a_file_can_be_read_as_text(tmp_path):
    """With kind="string", digits in a file are read as text. The text of the catalogue includes this parameter."""
    path = tmp_path / "zip.csv"
    path.write_text("code,city\n10115,Berlin\n20095,Hamburg\n")
    domain = Catalogue(file=path, column="code", kind="string")
    assert domain.values.to_list() == ["10115", "20095"]
    assert Domain.parse(str(domain)) == domain
    assert Catalogue(file=path, column="code").values.to_list() == [10115, 20095]
    assert "kind='string'" in str(domain)


@pytest.mark.parametrize(
    "values",
    [
        pl.Series([1, 2], dtype=pl.Int16),
        pl.Series([2**63], dtype=pl.UInt64),
        pl.Series([date(2014, 5, 1)]),
    ],
    ids=lambda values: type(values).__name__,
)
def test_files_and_copies_hold_the_same_catalogue(tmp_path, values):
    """A catalogue and its Parquet copy hold equal values of equal type, and have the same digest."""
    domain = Catalogue(values)
    domain.write_parquet(tmp_path / "copy.parquet")
    from_file = Catalogue(file=tmp_path / "copy.parquet")
    assert domain == from_file == Catalogue(file=tmp_path / "copy.parquet", sha256=domain.sha256)
    assert domain.dtypes == from_file.dtypes
    assert hash(domain) == hash(from_file)


def test_a_file_catalogue_is_read_from_a_copy(tmp_path):
    """If a catalogue's file is gone, the catalogue can still be read from a copy that has the recorded digest."""
    path, copy = tmp_path / "areas.csv", tmp_path / "copy.parquet"
    path.write_text("id,url\n1,/a\n2,/b'c\n")
    domain = Catalogue(file=path, column="url")
    text = str(Product(area=domain))
    assert f"sha256='{domain.sha256}'" in text
    assert Domain.parse(text) == Product(area=domain)
    attached = Domain.parse(text).attachments()
    assert attached == {domain.sha256: domain}
    attached[domain.sha256].write_parquet(copy)
    path.unlink()
    with pytest.raises(DomainError, match=r"there is no catalogue file .*areas\.csv'"):
        Domain.parse(text)
    again = Domain.parse(text, files={domain.sha256: copy})
    assert again == Product(area=domain)
    assert str(again) == text


def test_a_changed_file_is_refused(tmp_path):
    """The file or a copy of a catalogue is refused if its values do not match the recorded digest."""
    path, copy = tmp_path / "a.txt", tmp_path / "copy.parquet"
    path.write_text("x\ny\n")
    text, digest = str(Catalogue(file=path)), Catalogue(file=path).sha256
    path.write_text("x\nz\n")
    with pytest.raises(DomainError, match=f"{digest} was recorded"):
        Domain.parse(text)
    Catalogue(["x"]).write_parquet(copy)
    with pytest.raises(DomainError, match=f"{digest} was recorded"):
        Domain.parse(text, files={digest: copy})


def test_long_catalogues_are_named_by_their_digest(tmp_path):
    """The text of a catalogue of over 1,000 values shows only a digest, so parsing it needs a copy of the values."""
    domain = Catalogue(range(1001))
    assert str(domain) == f"catalogue(sha256='{domain.sha256}')"
    assert domain.describe() == f"catalogue of 1001 integers, sha256 {domain.sha256}"
    with pytest.raises(DomainError, match="but no values"):
        Domain.parse(str(domain))
    domain.write_parquet(tmp_path / "copy.parquet")
    assert Domain.parse(str(domain), files={domain.sha256: tmp_path / "copy.parquet"}) == domain
    assert Catalogue(range(1000)).attachments() == {}


def test_order_and_type_are_part_of_a_catalogue():
    """Two catalogues are different even if their values differ only in order or type.

    A catalogue of "a" and "b" is also different from a catalogue of "ab".
    """
    catalogues = [["a", "b"], ["b", "a"], ["ab"], [1, 2], ["1", "2"], [True, False], [2], [True]]
    assert len({Catalogue(values).sha256 for values in catalogues}) == len(catalogues)
    assert len({Catalogue(values) for values in [*catalogues, *catalogues]}) == len(catalogues)
