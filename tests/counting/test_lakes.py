"""Logs elsewhere: object stores, web servers, Delta, Iceberg; counted as files here are, and no credential kept."""

from __future__ import annotations

import gzip
import io
import logging
import threading
import urllib.request
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import sparsehist as sh
from sparsehist.counting import lakes
from sparsehist.counting.fingerprint import Fingerprint
from sparsehist.counting.sources import open_log
from sparsehist.errors import SeriesDiffersError, StatementError
from tests.counting.logs import a_log, count

pytestmark = pytest.mark.filterwarnings("ignore:Iceberg scan planning")  # that there is a quicker one
LOG = a_log()
SECRETS = ("PLANTEDKEY", "PLANTEDWORD", "PLANTEDSIGNATURE")
DECLARED = {"unit": "user_id", "key": "query", "max_keys": 5, "domain": sh.Strings(max_bytes=32)}


def counts(source: object, **options: object) -> list[tuple[str, int]]:
    """Every key and its count."""
    return count(source, **options).frame.sort("key_0").rows()


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask nobody who this machine is; servers say nothing."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


@pytest.fixture(scope="module")
def s3() -> Iterator[dict[str, str]]:
    """Serve a bucket `lake` on this machine; gives its storage options."""
    pytest.importorskip("obstore")
    moto = pytest.importorskip("moto.server")
    server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    at = f"http://{host}:{port}"
    urllib.request.urlopen(urllib.request.Request(f"{at}/lake", method="PUT"), timeout=10)
    yield {
        "aws_access_key_id": SECRETS[0], "aws_secret_access_key": SECRETS[1], "aws_region": "us-east-1",
        "aws_endpoint_url": at, "allow_http": "true",
    }  # fmt: skip
    server.stop()


def put(s3: dict[str, str], path: str, content: bytes) -> None:
    """Write an object."""
    asked = urllib.request.Request(f"{s3['aws_endpoint_url']}/lake/{path}", data=content, method="PUT")
    asked.add_header("Content-Type", "application/octet-stream")
    asked.add_header("Authorization", f"AWS4-HMAC-SHA256 Credential={SECRETS[0]}/20240101/us-east-1/s3/aws4_request")
    urllib.request.urlopen(asked, timeout=10)


def parquet(frame: pl.DataFrame) -> bytes:
    """A Parquet file."""
    file = io.BytesIO()
    frame.write_parquet(file)
    return file.getvalue()


def test_objects_are_counted_as_files_are(s3: dict[str, str]) -> None:
    """Objects under a pattern, of every format and in Hive partitions give the counts of the frame."""
    put(s3, "log/one/a.parquet", parquet(LOG[:150]))
    put(s3, "log/one/b.parquet", parquet(LOG[150:]))
    put(s3, "log/all.csv.gz", gzip.compress(LOG.write_csv().encode()))
    put(s3, "log/all.jsonl", LOG.write_ndjson().encode())
    texts = LOG.cast(pl.String)
    for path, same in (("**/[ab].parquet", LOG), ("all.csv.gz", texts), ("all.jsonl", texts)):
        assert counts(sh.Files(f"s3://lake/log/{path}", storage_options=s3)) == counts(same), path
    for day in ("2024-01-30", "2024-01-31"):
        put(s3, f"days/day={day}/part.parquet", parquet(pl.DataFrame({"user_id": [1, int(day[-1])]})))
    put(s3, "days/_temporary/day=2024-01-29/part.parquet", b"half a file")
    source = sh.Files("s3://lake/days", hive=["day"], storage_options=s3)
    found = counts(source, key=["day"], domain=sh.Dates("2024-01-01", "2024-01-31"))
    assert [(str(day), n) for day, n in found] == [("2024-01-30", 2), ("2024-01-31", 1)]


def test_a_series_knows_the_objects_it_was_made_from(s3: dict[str, str], tmp_path: Path) -> None:
    """A series is reused while the size and the etag of its objects stay the same, and refused when they change."""
    put(s3, "known/a.parquet", parquet(LOG))
    create = partial(sh.create, tmp_path / "store", name="known", if_exists="reuse", **DECLARED)
    create(sh.Files("s3://lake/known/*.parquet", storage_options=s3))
    source = sh.Files("s3://lake/known/*.parquet", storage_options={**s3, "aws_secret_access_key": "another"})
    create(source)
    for path, rows in (("known/a.parquet", LOG[1:]), ("known/b.parquet", LOG[:1])):
        put(s3, path, parquet(rows))
        with pytest.raises(SeriesDiffersError, match="the log it was made from differs"):
            create(source)
        put(s3, "known/a.parquet", parquet(LOG))


@pytest.fixture
def web(tmp_path: Path) -> Iterator[str]:
    """Serve ranges of files to those who have a signature, which is one for GET alone; gives host and port."""
    serving, wrappers, utils = (pytest.importorskip(f"werkzeug.{name}") for name in ("serving", "wrappers", "utils"))
    (tmp_path / "served").mkdir()

    @wrappers.Request.application
    def answer(request: Any) -> object:
        file = tmp_path / "served" / request.path.lstrip("/")
        if request.method != "GET" or SECRETS[2] not in request.url or not file.is_file():
            return wrappers.Response(status=403)
        content = io.BytesIO(file.read_bytes())
        return utils.send_file(content, request.environ, mimetype="application/octet-stream", conditional=True)

    server = serving.make_server("127.0.0.1", 0, answer, threaded=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()


def test_files_of_a_web_server_are_counted(web: str, tmp_path: Path) -> None:
    """A signed URL is read, and signed anew it is the same log."""
    LOG.write_parquet(tmp_path / "served" / "log.parquet")
    signed = f"http://{web}/log.parquet?sig={SECRETS[2]}"
    assert counts(signed) == counts(LOG)
    assert Fingerprint.of(signed).changed(f"{signed}&until=tomorrow") == []


def planted(tmp_path: Path, *told: object) -> list[str]:
    """Which secrets stand in texts, or in any file of a directory."""
    files = [file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()]
    return [secret for secret in SECRETS if any(secret.encode() in one for one in (*files, str(told).encode()))]


def test_credentials_are_kept_nowhere(
    s3: dict[str, str], web: str, tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """No credential stands in the store, the ledger, a release, metadata, a repr, a log message or the output."""
    caplog.set_level(logging.DEBUG)
    put(s3, "mine/a.parquet", parquet(LOG))
    LOG.write_parquet(tmp_path / "served" / "log.parquet")
    stored = sh.Files("s3://lake/mine/*.parquet", storage_options=s3)
    told: list[object] = []
    for number, source in enumerate((stored, f"http://{web}/log.parquet?sig={SECRETS[2]}")):
        series = sh.create(tmp_path / "store", source, name=f"s{number}", **DECLARED)
        release = series.release("first", level=1)
        release.write_parquet(tmp_path / f"{number}.parquet")
        log = open_log(source, ["user_id", "query"])
        told += [release.metadata, repr(series), repr(log), Fingerprint.of(source).as_text(), repr(stored)]
    with sh.open(tmp_path / "store") as store:
        told += [store.ledger(full=True).write_json(), repr(store)]
    assert planted(tmp_path, told, caplog.text, capfd.readouterr()) == []


def test_credentials_stand_in_no_error(s3: dict[str, str], web: str, tmp_path: Path) -> None:
    """No error about a missing, broken or refused file shows a credential, in Python or in SQL."""
    put(s3, "broken.parquet", b"PAR1 no")
    put(s3, "a.csv", b'user_id,query\n1,"open\n')
    (tmp_path / "served" / "log.parquet").write_bytes(b"no")
    signed = f"http://{web}/log.parquet?sig={SECRETS[2]}"
    sources = [
        *(sh.Files(f"s3://lake/{path}", storage_options=s3) for path in ("broken.parquet", "a.csv")),
        sh.Files("delta:s3://lake/none", storage_options=s3),
        sh.Files(f"s3://{SECRETS[0]}:{SECRETS[1]}@lake/a.parquet", storage_options=s3),
        sh.Files("s3://lake/a.csv", delimiter=",", storage_options={**s3, SECRETS[0]: SECRETS[1]}),
        signed,
        signed.replace("log", "none"),
        f"http://me:{SECRETS[2]}@{web}/log.parquet",
        f"http://me:{SECRETS[2]}@[{web}/log.parquet",
        f"http://{web}/*.parquet?sig={SECRETS[2]}",
    ]
    for source in sources:
        with pytest.raises(sh.errors.SparsehistError) as caught:
            sh.create(":memory:", source, name="x", **DECLARED)
        failure: BaseException | None = caught.value
        while failure is not None:
            assert planted(tmp_path / "none", str(failure), repr(failure)) == [], source
            failure = failure.__cause__ or failure.__context__
    with pytest.raises(StatementError) as caught:
        sh.sql(f"selec * from 's3://{SECRETS[0]}:{SECRETS[1]}@lake/a.parquet'")
    assert planted(tmp_path / "none", str(caught.value), repr(caught.value)) == []


def delta(path: Path) -> str:
    """A Delta table of the log, in two versions."""
    pytest.importorskip("deltalake")
    LOG[:100].write_delta(path)
    LOG[100:].write_delta(path, mode="append")
    return f"delta:{path}"


def iceberg(path: Path) -> str:
    """An Iceberg table of the log, in two snapshots."""
    catalogue = pytest.importorskip("pyiceberg.catalog.sql")
    path.mkdir()
    made = catalogue.SqlCatalog("c", uri=f"sqlite:///{path}/catalog.db", warehouse=f"file://{path}")
    made.create_namespace("n")
    table = made.create_table("n.log", schema=LOG.to_arrow().schema)
    table.append(LOG[:100].to_arrow())
    table.append(LOG[100:].to_arrow())
    made.close()
    return f"iceberg:{path}/n/log"


def opened(text: str) -> object:
    """The object that the library has of a table."""
    kind, _, path = text.partition(":")
    if kind == "delta":
        from deltalake import DeltaTable

        return DeltaTable(path)
    from pyiceberg.table import StaticTable

    return StaticTable.from_metadata(lakes.newest_metadata(path))


@pytest.mark.parametrize("make", [delta, iceberg])
def test_tables_are_counted_as_frames_are(make: object, tmp_path: Path) -> None:
    """A table given by text, in Files or as an object of its library gives the counts of the frame."""
    text = make(tmp_path / "table")
    for source in (text, [text], sh.Files(text), opened(text)):
        assert counts(source) == counts(LOG)


def test_a_series_knows_the_version_of_a_table(tmp_path: Path) -> None:
    """A newer version of a table is another log, without deleted rows; an object stays at its version."""
    text = delta(tmp_path / "table")
    held = opened(text)
    create = partial(sh.create, tmp_path / "store", name="known", if_exists="reuse", **DECLARED)
    series = create(text)
    assert "unchecked" not in str(series.release("first", level=1).metadata)
    create(held)
    opened(text).delete("user_id = 3")
    create(held)
    with pytest.raises(SeriesDiffersError, match="the log it was made from differs"):
        create(text)
    assert counts(text) == counts(LOG.filter(pl.col("user_id") != 3)) != counts(LOG)


def test_duckdb_fetches_no_extension() -> None:
    """SQL over what DuckDB needs an extension for is refused."""
    query = sh.Query("select user_id, query from delta_scan('table')", unverified=True)
    with pytest.raises(StatementError, match="fetches none by itself"):
        sh.create(":memory:", query, name="x", **DECLARED)
