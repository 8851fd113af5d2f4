"""Logs in remote storage are counted like local files, and no credential is stored or shown."""

from __future__ import annotations

import io
import logging
import re
import threading
from collections.abc import Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

import polars as pl
import pytest

import sparsehist as sh
from sparsehist.counting.sources import open_log
from sparsehist.errors import SeriesDiffersError, StatementError
from tests.counting.logs import a_log, count

LOG = a_log()
SECRETS = ("PLANTEDKEY", "PLANTEDWORD", "PLANTEDSIGNATURE")
DECLARED = {"unit": "user_id", "key": "query", "max_keys": 5, "domain": sh.Strings(max_bytes=32)}
LISTED = "<ListBucketResult><IsTruncated>false</IsTruncated>{}</ListBucketResult>"
TIME = "2024-01-01T00:00:00.000Z"
OBJECT = f"<Contents><Key>{{}}</Key><Size>{{}}</Size><ETag>1</ETag><LastModified>{TIME}</LastModified></Contents>"


@pytest.fixture
def served() -> Iterator[tuple[dict[str, bytes], str, dict[str, str]]]:
    """Run a server whose bucket `lake` can be read by S3 and by signed URLs.

    Yield the bucket as a dict from names to contents of files, the server's address, and the options for S3.
    """
    objects: dict[str, bytes] = {}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            url = urlsplit(self.path)
            signed = SECRETS[0] in self.headers.get("Authorization", "") or SECRETS[2] in url.query
            prefix = parse_qs(url.query).get("prefix", [""])[0]
            found = objects.get(unquote(url.path).removeprefix("/lake/"))
            if "list-type" in url.query:
                files = (OBJECT.format(name, len(data)) for name, data in objects.items() if name.startswith(prefix))
                found = LISTED.format("".join(files)).encode()
            if not signed or found is None:
                self.send_response(404 if signed else 403)
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            span = re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers.get("Range", ""))
            size = len(found)
            first, last = (span[1], span[2]) if span else ("0", "")
            start, end = (
                (int(first), min(int(last or size), size - 1)) if first else (max(size - int(last), 0), size - 1)
            )
            self.send_response(206 if span else 200)
            self.send_header("Content-Length", str(end + 1 - start))
            self.send_header("Content-Range", f"bytes {start}-{end}/{size}")
            self.send_header("ETag", '"1"')
            self.send_header("Last-Modified", "Mon, 01 Jan 2024 00:00:00 GMT")
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(found[start : end + 1])

        do_HEAD = do_GET  # noqa: N815  names required by the server class

        def log_message(self, *_: object) -> None:
            """Suppress the server's log of requests."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}"
        options = {"aws_access_key_id": SECRETS[0], "aws_secret_access_key": SECRETS[1], "aws_region": "us-east-1"}
        yield objects, address, {**options, "aws_endpoint_url": address, "allow_http": "true"}
        server.shutdown()


def parquet(frame: pl.DataFrame) -> bytes:
    """Return a frame as the bytes of a Parquet file."""
    file = io.BytesIO()
    frame.write_parquet(file)
    return file.getvalue()


def counts(source: object, **options: object) -> list[tuple[str, int]]:
    """Return the (key, count) pairs of a source, sorted by key."""
    return count(source, **options).frame.sort("key_0").rows()


def test_urls_are_counted_as_local_files_are(served, tmp_path: Path) -> None:
    """Logs on S3 or behind signed URLs are counted like the same rows in a frame, in every file format."""
    objects, address, options = served
    objects |= {"log/one/a.parquet": parquet(LOG[:150]), "log/one/b.parquet": parquet(LOG[150:])}
    objects |= {"all.csv": LOG.write_csv().encode(), "all.jsonl": LOG.write_ndjson().encode()}
    for path, same in (
        ("log/**/[ab].parquet", LOG),
        ("*.csv", LOG.cast(pl.String)),
        ("all.jsonl", LOG.cast(pl.String)),
    ):
        assert counts(sh.Files(f"s3://lake/{path}", storage_options=options)) == counts(same), path
    assert counts([f"{address}/lake/log/one/{name}.parquet?sig={SECRETS[2]}" for name in "ab"]) == counts(LOG)
    for day in ("2024-01-30", "2024-01-31"):
        objects[f"days/day={day}/part.parquet"] = parquet(pl.DataFrame({"user_id": [1, int(day[-1])]}))
    source = sh.Files("s3://lake/days/day=*/*.parquet", hive=["day"], storage_options=options)
    found = counts(source, key=["day"], domain=sh.Dates("2024-01-01", "2024-01-31"))
    assert [(str(day), n) for day, n in found] == [("2024-01-30", 2), ("2024-01-31", 1)]
    create = partial(
        sh.create, tmp_path / "store", source, **{**DECLARED, "key": "day"}, if_exists="reuse", name="days"
    )
    create(domain=sh.Dates("2024-01-01", "2024-01-31"))
    with pytest.raises(SeriesDiffersError, match="remote files cannot be compared"):
        create(domain=sh.Dates("2024-01-01", "2024-01-31"))


def planted(tmp_path: Path, *texts: object) -> list[str]:
    """Return those of the test's secrets that occur in these texts or in any file of a directory."""
    files = [file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()]
    return [secret for secret in SECRETS if any(secret.encode() in one for one in (*files, str(texts).encode()))]


def test_credentials_are_kept_nowhere(served, tmp_path: Path, caplog, capfd) -> None:
    """S3 keys and URL signatures appear in no store, ledger, release, metadata, repr, log message or output."""
    caplog.set_level(logging.DEBUG)
    objects, address, options = served
    objects["a.parquet"] = parquet(LOG)
    stored = sh.Files("s3://lake/*.parquet", storage_options=options)
    texts: list[object] = [repr(stored)]
    for number, source in enumerate((stored, f"{address}/lake/a.parquet?sig={SECRETS[2]}")):
        series = sh.create(tmp_path / "store", source, name=f"s{number}", **DECLARED)
        release = series.release("first", level=1)
        release.write_parquet(tmp_path / f"{number}.parquet")
        texts += [release.metadata, repr(series), repr(open_log(source, ["user_id", "query"]))]
    with sh.open(tmp_path / "store") as store:
        texts += [store.ledger(full=True).write_json(), repr(store)]
    assert planted(tmp_path, texts, caplog.text, capfd.readouterr()) == []


def test_credentials_stand_in_no_error(served, tmp_path: Path) -> None:
    """An error about a missing, broken or inaccessible file shows no credential, in Python or in SQL."""
    objects, address, options = served
    objects |= {"broken.parquet": b"PAR1 no", "a.csv": b'user_id,query\n1,"open\n'}
    signed = f"{address}/lake/none.parquet?sig={SECRETS[2]}"
    sources = [
        *(sh.Files(f"s3://lake/{path}", storage_options=options) for path in ("broken.parquet", "a.csv", "none.csv")),
        sh.Files(f"s3://{SECRETS[0]}:{SECRETS[1]}@lake/a.parquet", storage_options=options),
        signed,
        signed.replace("none", "broken"),
        signed.replace("://", f"://me:{SECRETS[2]}@"),
        signed.replace("://", f"://me:{SECRETS[2]}@["),
        signed.replace("none", "*"),
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


def test_duckdb_fetches_no_extension() -> None:
    """A query is refused if DuckDB would have to download an extension to run it."""
    query = sh.Query("select user_id, query from delta_scan('table')", unverified=True)
    with pytest.raises(sh.errors.InputError, match="installs none"):
        sh.create(":memory:", query, name="x", **DECLARED)
