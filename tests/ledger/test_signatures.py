"""Signatures are over what releases and ledgers say: a change is seen, writing the same anew is not."""

from __future__ import annotations

import copy
import hashlib
import io
import json
import re
import shutil
import struct
from datetime import date
from pathlib import Path

import duckdb
import polars as pl
import pyarrow.parquet as pq
import pytest

import sparsehist as sh
from sparsehist.errors import (
    InputError,
    NameTakenError,
    SignatureError,
    StatementError,
    StoreError,
    StoreRolledBackError,
)
from sparsehist.ledger.public_ledger import publish
from sparsehist.ledger.signatures import content_digest, encoded, make_keys, private_key
from sparsehist.store import LEDGER_NAME

pytest.importorskip("cryptography")
DOCS = Path(__file__).parents[2] / "docs" / "signatures.md"
COUNTS = pl.DataFrame({"word": [f"wörd {i}" for i in range(50)], "count": range(1, 1001, 20)})


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    """Two pairs of keys: that of the curator and that of somebody else; (private, public) each."""
    place = tmp_path_factory.mktemp("keys")
    return [(place / name, make_keys(place / name)) for name in ("curator.pem", "other.pem")]


@pytest.fixture(scope="module")
def signed(tmp_path_factory, keys):
    """A directory with three signed releases of a series, a workload among them."""
    place = tmp_path_factory.mktemp("signed")
    store = tmp_path_factory.mktemp("curator") / "store"
    series = sh.create(store, sh.Counts(COUNTS, largest=1), name="words", key="word", max_keys=2,
                       domain=sh.Catalogue(COUNTS["word"].to_list()))  # fmt: skip
    for level in (1, 3):
        series.release(f"at_{level}", level=level).write_parquet(place / f"{level}.parquet", sign=keys[0][0])
    series.release("sums", workload=sh.workload.Total(), level=1).write_parquet(
        place / "sums.parquet", sign=keys[0][0]
    )
    return place


def rewritten(source: Path, target: Path, /, *, frame: pl.DataFrame | None = None, **changed: object) -> Path:
    """Write a release again, with other rows or with metadata changed; its signature stays as it is."""
    stored = json.loads(pl.read_parquet_metadata(source)["sparsehist"]) | changed
    (pl.read_parquet(source) if frame is None else frame).write_parquet(
        target, metadata={"sparsehist": json.dumps(stored)}
    )
    return target


def refused(path: Path, key: Path) -> bool:
    """Whether a file is refused for its signature."""
    try:
        sh.read(path, verify=key)
    except SignatureError:
        return True
    return False


def test_a_signed_release_is_verified_by_the_keys_one_trusts(signed, keys):
    """By the curator's key, alone or among others, as a file or an object; not by another one, nor by none."""
    (_, curator), (private, other) = keys
    assert sh.read(signed / "1.parquet", verify=curator).frame.equals(sh.read(signed / "1.parquet").frame)
    assert isinstance(sh.read(signed / "sums.parquet", verify=[str(other), curator]), sh.WorkloadRelease)
    sh.read(signed / "1.parquet", verify=private_key(keys[0][0]).public_key())
    for untrusted in (other, [], private, signed / "1.parquet", signed / "nothing"):
        with pytest.raises(SignatureError):
            sh.read(signed / "1.parquet", verify=untrusted)


@pytest.mark.parametrize("compression", ["uncompressed", "snappy", "gzip", "zstd"])
def test_a_release_rewritten_by_others_still_verifies(signed, keys, tmp_path, compression):
    """By pyarrow and by DuckDB, with another compression and other row groups; read by Polars."""
    for source in sorted(signed.glob("*.parquet")):
        by_arrow, by_duckdb = tmp_path / "arrow.parquet", tmp_path / "duckdb.parquet"
        codec = {"uncompressed": "none"}.get(compression, compression)
        stored = pl.read_parquet_metadata(source)["sparsehist"]
        table = pq.read_table(source).replace_schema_metadata({"sparsehist": stored})
        pq.write_table(table, by_arrow, compression=codec, row_group_size=7, version="1.0")
        with duckdb.connect() as engine:
            stored = stored.replace("'", "''")
            engine.execute(
                f"copy (from '{source}') to '{by_duckdb}' "
                f"(format parquet, compression '{compression}', kv_metadata {{sparsehist: '{stored}'}})"
            )
        for path in (by_arrow, by_duckdb):
            assert path.read_bytes() != source.read_bytes()
            assert sh.read(path, verify=keys[0][1]).frame.equals(sh.read(source).frame)


def test_whatever_is_changed_does_not_verify(signed, keys, tmp_path):
    """Every cell, name, type and parameter; rows and columns in another order, more or fewer of them."""
    source = signed / "3.parquet"
    frame = pl.read_parquet(source)
    metadata = sh.read(source).metadata
    word, count = frame.columns
    assert frame.height > 30
    forged = [
        *(
            frame.with_columns(pl.when(pl.int_range(pl.len()) == row).then(new).otherwise(column).alias(column))
            for column, new in ((word, pl.lit("forged")), (count, pl.col(count) + 1), (count, -pl.col(count)))
            for row in range(frame.height)
        ),
        frame.with_columns(pl.when(pl.int_range(pl.len()) > 0).then(pl.col(word)).alias(word)),
        frame.with_columns(pl.col(count).cast(pl.Float32)),
        frame.with_columns(pl.col(count).round().cast(pl.Int64)),
        frame.with_columns(pl.col(word).cast(pl.Binary)),
        *(frame.rename({column: "renamed"}) for column in frame.columns),
        frame.rename({word: count, count: word}),
        frame.select(count, word),
        frame.reverse(),
        frame.head(-1),
        frame.tail(-1),
        pl.concat([frame, frame.tail(1)]),
        frame.with_columns(more=pl.lit(1)),
        frame.drop(word),
        frame.clear(),
    ]
    others = ("x", None, 1, 1.5, True, [])
    changed = [{name: other} for name in metadata for other in others if repr(other) != repr(metadata[name])]
    changed.append({"more": 1})
    passed = [
        i for i, rows in enumerate(forged) if not refused(rewritten(source, tmp_path / "f", frame=rows), keys[0][1])
    ]
    assert passed == []
    assert [each for each in changed if not refused(rewritten(source, tmp_path / "f", **each), keys[0][1])] == []
    assert not refused(rewritten(source, tmp_path / "f"), keys[0][1])


def test_a_signature_belongs_to_one_release_and_one_place_in_the_chain(signed, keys, tmp_path):
    """No signature, that of another release, one with any part altered, and one of another chain do not verify."""
    source = signed / "3.parquet"
    own = json.loads(pl.read_parquet_metadata(source)["sparsehist"])["signature"]
    others = json.loads(pl.read_parquet_metadata(signed / "1.parquet")["sparsehist"])["signature"]
    foreign = private_key(keys[1][0]).public_key().public_bytes_raw().hex()
    wrong = [
        None, {}, "", [], others, own | {"previous": ""}, own | {"previous": None}, own | {"key": foreign},
        own | {"signature": others["signature"]}, own | {"signature": ""}, own | {"signature": "zz"},
        own | {"signature": own["signature"][:-2] + ("00" if own["signature"][-2:] != "00" else "01")},
    ]  # fmt: skip
    for signature in wrong:
        assert refused(rewritten(source, tmp_path / "f", signature=signature), keys[0][1]), signature


def changed_ledgers(ledger):
    """Every way to cut, reorder, alter and extend what a ledger says of a store."""
    ((store_id, held),) = ledger["stores"].items()

    def with_releases(releases, **more):
        return {"format": 1, "stores": {store_id: {**held, "releases": releases, **more}}}

    listed = held["releases"]
    for at in range(len(listed)):
        yield f"without {at}", with_releases(listed[:at] + listed[at + 1 :])
        yield f"cut at {at}", with_releases(listed[:at])
        yield f"{at} twice", with_releases([*listed[: at + 1], *listed[at:]])
        for name in listed[at]:
            for new in ("forged", None, 7):
                if listed[at][name] != new:
                    altered = copy.deepcopy(listed)
                    altered[at][name] = new
                    yield f"{name} of {at}", with_releases(altered)
            yield (
                f"no {name} of {at}",
                with_releases(
                    [{k: v for k, v in entry.items() if k != name or i != at} for i, entry in enumerate(listed)]
                ),
            )
        yield f"more in {at}", with_releases([{**entry, "more": 1} for entry in listed])
        yield f"store in {at}", with_releases([{**entry, "store": "x"} for entry in listed])
    yield "reversed", with_releases(listed[::-1])
    yield "last two exchanged", with_releases([listed[0], listed[2], listed[1]])
    unsigned = [{k: v for k, v in entry.items() if k not in ("previous", "key", "signature")} for entry in listed]
    yield "unsigned", with_releases(unsigned)
    yield "one unsigned", with_releases([*listed[:2], unsigned[2]])
    yield "no seal", {"format": 1, "stores": {store_id: {k: v for k, v in held.items() if k != "chain"}}}
    yield "a seal of nothing", with_releases([], chain={})
    yield "of another store", {"format": 1, "stores": {"0" * 32: held}}
    yield "another store beside it", {"format": 1, "stores": {store_id: held, "0" * 32: held}}
    yield "gone", {"format": 1, "stores": {}}


def test_a_chain_that_was_touched_is_refused(signed, keys, tmp_path):
    """Cut anywhere, reordered, altered in any field, unsigned: readers who verify get nothing of it."""
    place = tmp_path / "published"
    shutil.copytree(signed, place)
    with sh.open_analyst(place, verify=keys[0][1]) as session:
        assert session.tables().height == 4
    ledger = json.loads((place / LEDGER_NAME).read_text())
    through = []
    for what, forged in changed_ledgers(ledger):
        (place / LEDGER_NAME).write_text(json.dumps(forged))
        try:
            sh.open_analyst(place, verify=keys[0][1]).close()
            through.append(what)
        except (SignatureError, StoreError):
            continue
    assert through == ["store in 0", "store in 1", "store in 2"]  # it is not read from there
    (place / LEDGER_NAME).unlink()
    with pytest.raises(SignatureError):
        sh.open_analyst(place, verify=keys[0][1])
    shutil.copy(signed / LEDGER_NAME, place / LEDGER_NAME)
    rewritten(place / "1.parquet", place / "1.parquet", signature=None)
    with pytest.raises(SignatureError, match=r"1\.parquet does not verify"):
        sh.open_analyst(place, verify=keys[0][1])


def test_a_chain_is_signed_as_a_whole_or_not_at_all(signed, keys, tmp_path):
    """Signed and unsigned releases of one store do not mix in a directory; one written again keeps its place."""
    series = sh.create(tmp_path / "store", sh.Counts(COUNTS, largest=1), name="words", key="word", max_keys=2,
                       domain=sh.Strings(max_bytes=12))  # fmt: skip
    for place in ("unsigned", "signed"):
        (tmp_path / place).mkdir()
    first, second = series.release("first", level=1), series.release("second", level=2)
    first.write_parquet(tmp_path / "unsigned" / "1.parquet")
    first.write_parquet(tmp_path / "signed" / "1.parquet", sign=keys[0][0])
    for place, key in (("unsigned", keys[0][0]), ("signed", None)):
        before = (tmp_path / place / LEDGER_NAME).read_bytes()
        with pytest.raises(SignatureError, match="as a whole"):
            second.write_parquet(tmp_path / place / "2.parquet", sign=key)
        assert (tmp_path / place / LEDGER_NAME).read_bytes() == before
        assert not (tmp_path / place / "2.parquet").exists()
    with pytest.raises(SignatureError):
        first.write_parquet(tmp_path / "unsigned" / "again.parquet", sign=keys[0][0])
    second.write_parquet(tmp_path / "signed" / "2.parquet", sign=keys[1][0])  # another key, as after a change of keys
    series.release("first").write_parquet(tmp_path / "signed" / "again.parquet")
    assert (tmp_path / "signed" / "again.parquet").read_bytes() == (tmp_path / "signed" / "1.parquet").read_bytes()
    with sh.open_analyst(tmp_path / "signed", verify=[keys[0][1], keys[1][1]]) as session:
        assert session.tables()["name"].to_list() == ["words.first", "words.second", "ledger"]
    with pytest.raises(SignatureError):
        sh.open_analyst(tmp_path / "signed", verify=keys[0][1])


def test_other_rows_of_a_listed_round_are_not_entered(tmp_path):
    """A ledger lists one content for a round, and one round for a generation."""
    entry = {"store": "s", "series": "a", "release": "b", "level": "1", "noise": "gaussian", "threshold": None,
             "generation": 3, "round": "r", "digest": "00"}  # fmt: skip
    assert publish(tmp_path, entry) is None
    for other in ({"digest": "11"}, {"round": "q"}):
        with pytest.raises(StoreRolledBackError):
            publish(tmp_path, entry | other)
    assert len(json.loads((tmp_path / LEDGER_NAME).read_text())["stores"]["s"]["releases"]) == 1


def test_keys_are_kept_apart_from_stores_and_others(keys, tmp_path):
    """A private key is nobody else's, is never written over, and is not made or used inside a store."""
    private, public = keys[0]
    assert private.stat().st_mode & 0o777 == 0o600
    store = sh.open(tmp_path / "store", create=True)
    with pytest.raises(NameTakenError):
        make_keys(private)
    for place in (store.path / "key", store.path / "series" / "key"):
        with pytest.raises(InputError, match="inside the store"):
            make_keys(place)
    assert not list(store.path.rglob("key*"))
    shutil.copy(private, store.path / "key")
    (tmp_path / "link").symlink_to(store.path / "key")
    shutil.copy(private, tmp_path / "open.pem")
    (tmp_path / "open.pem").chmod(0o640)
    release = sh.Release(pl.DataFrame({"a": [1]}), {"name": "x"})
    for key in (store.path / "key", tmp_path / "link", tmp_path / "open.pem", public, tmp_path / "no"):
        with pytest.raises(InputError):
            release.write_parquet(tmp_path / "x.parquet", sign=key)
    assert not (tmp_path / "x.parquet").exists()
    secret = "".join(private.read_text().splitlines()[1:-1])
    assert secret not in repr(private_key(private))


def test_no_secret_stands_in_what_is_signed_nor_the_key_in_the_store(keys, signed, tmp_path):
    """The private key, in PEM or raw, is in no file of the store and in none that was published."""
    series = sh.create(tmp_path / "store", sh.Counts(COUNTS, largest=1), name="words", key="word", max_keys=2,
                       domain=sh.Strings(max_bytes=12))  # fmt: skip
    series.release("first", level=1).write_parquet(tmp_path / "1.parquet", sign=keys[0][0])
    raw = private_key(keys[0][0]).private_bytes_raw()
    needles = [raw, raw.hex().encode(), keys[0][0].read_bytes().splitlines()[1], str(keys[0][0]).encode()]
    for place in (tmp_path, signed):
        for file in place.rglob("*"):
            assert not file.is_file() or not [needle for needle in needles if needle in file.read_bytes()], file


def plainly_encoded(value: object) -> bytes:
    """The encoding once more, read off the page: for values."""
    size = lambda n: n.to_bytes(8, "little")  # noqa: E731
    match value:
        case None | True | False:
            return {None: b"n", True: b"t", False: b"f"}[value]
        case int():
            return b"i" + size(len(str(value))) + str(value).encode()
        case float():
            return b"d" + struct.pack("<d", value)
        case str():
            return b"s" + size(len(value.encode())) + value.encode()
        case list():
            return b"l" + size(len(value)) + b"".join(map(plainly_encoded, value))
        case dict():
            pairs = sorted(value.items(), key=lambda pair: pair[0].encode())
            return b"m" + size(len(pairs)) + b"".join(plainly_encoded(part) for pair in pairs for part in pair)
    raise TypeError(value)


def plain_digest(frame: pl.DataFrame, metadata: dict[str, object]) -> str:
    """The digest once more, cell by cell."""
    out = io.BytesIO(plainly_encoded(["sparsehist release", 1, metadata]))
    out.seek(0, io.SEEK_END)
    out.write(frame.width.to_bytes(8, "little"))
    formats = {pl.Int64: "<q", pl.Float64: "<d", pl.UInt8: "<B", pl.Boolean: "<?", pl.Date: "<i"}
    for column in frame:
        name = {pl.Enum: "string", pl.Categorical: "string"}.get(column.dtype.base_type(), str(column.dtype).lower())
        cells = column.to_list()
        out.write(plainly_encoded(column.name) + plainly_encoded(name) + len(cells).to_bytes(8, "little"))
        out.write(bytes(cell is not None for cell in cells))
        if name == "string":
            texts = [(cell or "").encode() for cell in cells]
            out.write(b"".join(len(text).to_bytes(8, "little") for text in texts) + b"".join(texts))
            continue
        for cell in cells:
            number = (cell - date(1970, 1, 1)).days if isinstance(cell, date) else 0 if cell is None else cell
            out.write(struct.pack(formats[column.dtype.base_type()], number))
    return hashlib.sha256(out.getvalue()).hexdigest()


def test_the_encoding_is_that_of_the_page():
    """A second reading of the page gives the same bytes, and the vectors of the page are these."""
    metadata = {"b": [1, -(2**70), 0.1, None], "a": {"é": True, "z": False}, "aa": "", "€": float("inf")}
    assert encoded(metadata) == plainly_encoded(metadata)
    frame = pl.DataFrame(
        {
            "key": pl.Series(["a", None, "", "é\n"]),
            "enum": pl.Series(["x", "y", None, "x"], dtype=pl.Enum(["y", "x"])),
            "day": [date(1969, 12, 31), None, date(2024, 1, 1), date(1, 1, 1)],
            "flag": [True, None, False, True],
            "small": pl.Series([1, 2, None, 255], dtype=pl.UInt8),
            "count": [1, -1, None, 2**62],
            "noisy": [0.5, -0.0, None, 1e300],
        }
    )
    for rows in (frame, frame.clear(), frame.slice(1, 2), frame.select("key"), pl.concat([frame, frame])):
        assert content_digest(rows, metadata) == plain_digest(rows, metadata)
    assert (
        len({content_digest(frame, {}), content_digest(frame.slice(0, 0), {}), content_digest(frame, {"a": 1})}) == 3
    )
    vectors = re.findall(r"^\| `(.+?)` \| `([0-9a-f ]+)` \|$", DOCS.read_text(), flags=re.MULTILINE)
    assert len(vectors) >= 8
    for text, code in vectors:
        assert encoded(json.loads(text)).hex() == code.replace(" ", ""), text


def test_what_has_no_canonical_form_is_said(tmp_path):
    """Columns of other types and metadata that JSON does not have are refused by name."""
    with pytest.raises(InputError, match="'odd' is of type List"):
        content_digest(pl.DataFrame({"odd": [[1]]}), {})
    with pytest.raises(InputError, match="JSON"):
        content_digest(pl.DataFrame({"a": [1]}), {"when": date(2024, 1, 1)})


def test_sql_signs_what_it_writes(keys, tmp_path, monkeypatch):
    """SIGNED BY stands with TO; the key is looked at before anything is drawn."""
    monkeypatch.chdir(tmp_path)
    Path("out").mkdir()
    sh.create(
        "store", sh.Counts(COUNTS, largest=1), name="words", key="word", max_keys=2, domain="strings(max_bytes=9)"
    )
    begin = "release public from words at level 1 expecting 1 false keys"
    for wrong, said in (("signed by $key", "TO names"), ("to 'out/a.parquet' signed by 'none.pem'", "no key")):
        with pytest.raises(StatementError, match=said):
            sh.sql(f"{begin} {wrong}", store="store", parameters={"key": str(keys[0][0])})
    assert sh.open("store").series("words").releases().is_empty()
    for _ in range(2):
        sh.sql(f"{begin} to 'out/a.parquet' signed by $key", store="store", parameters={"key": str(keys[0][0])})
    assert len(sh.read("out/a.parquet", verify=keys[0][1])) > 10
    with pytest.raises(SignatureError):
        sh.read("out/a.parquet", verify=keys[1][1])
