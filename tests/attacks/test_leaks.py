"""Tests that outputs show no secret, and that everything public except the published rows is the same for any log."""

from __future__ import annotations

import copy
import io
import logging
import pickle
import traceback
import warnings
from pathlib import Path

import duckdb
import polars as pl
import pyarrow as pa
import pytest

import sparsehist as sh
from sparsehist.errors import SparsehistError, ThresholdError
from sparsehist.histogram import binomial
from sparsehist.release import cell_parameters as cell_request
from tests.counting.logs import count

SECRETS = ["SECRETshort", "SECRET-longer-than-twelve-bytes", "SECRETé中\u202e", "SECRET\0null"]
DECLARED = {"unit": "user_id", "key": "query", "domain": sh.Strings(max_bytes=40)}
WANTED = [b"SECRET", "SECRET".encode("utf-16-le")]


def holds_secret(content: bytes | str) -> bool:
    """Return whether bytes or text contain the word SECRET, encoded in UTF-8 or UTF-16."""
    raw = content.encode("utf-8", "surrogateescape") if isinstance(content, str) else content
    return any(wanted in raw for wanted in WANTED)


def planted_log() -> pl.DataFrame:
    """Return a log with three frequent keys, and with four secret keys, each of which has one user of its own."""
    loud = [(f"user{i}", f"loud-key-of-some-length-{i % 3}") for i in range(900)]
    return pl.DataFrame([*loud, *((f"SECRETunit{i}", key) for i, key in enumerate(SECRETS))],
                        schema=["user_id", "query"], orient="row")  # fmt: skip


def every_output(release: sh.Release, directory: Path) -> dict[str, bytes]:
    """Return the bytes of a release in every output format."""
    endings = ("parquet", "json", "arrow", "csv")
    for ending in endings:
        release.write(directory / f"out.{ending}")
    chunks = [chunk for column in pa.table(release).columns for chunk in column.chunks]
    stream = io.BytesIO()
    release.frame.head(2).write_ipc(stream)
    return {
        "pickle": pickle.dumps((release, copy.deepcopy(release), release.frame)),
        "buffers": b"".join(bytes(buffer) for chunk in chunks for buffer in chunk.buffers() if buffer is not None),
        "ipc of a slice": stream.getvalue(),
        **{ending: (directory / f"out.{ending}").read_bytes() for ending in endings},
        "pandas": release.frame.to_pandas().to_csv().encode(),
        "ledger": (directory / "sparsehist-ledger.json").read_bytes(),
        "shown": f"{release!r}{dict(release.metadata)!r}{release.frame!r}{release._repr_html_()}".encode(),
    }


def test_no_output_holds_a_secret(tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd) -> None:
    """No user and no unpublished key occurs in a release's files, pickles and reprs, or in log messages."""
    caplog.set_level(logging.DEBUG)
    (tmp_path / "public").mkdir()
    counting = sh.Counting(progress=True)
    series = sh.create(tmp_path / "store", planted_log(), name="words", max_keys=2, counting=counting, **DECLARED)
    release = series.release("first", level=1)
    assert len(release) >= 3
    for what, content in every_output(release, tmp_path / "public").items():
        assert not holds_secret(content), what
    with sh.open(tmp_path / "store") as store:
        for shown in (store, series, store.ledger(full=True), series.releases(), series.declaration):
            assert not holds_secret(repr(shown))
        for told in (store._repr_html_(), series._repr_html_(), store.report()):
            assert not holds_secret(told)
    assert not holds_secret((tmp_path / "store.generation").read_bytes())
    assert not any(holds_secret(str(path)) for path in tmp_path.rglob("*"))
    captured = capfd.readouterr()
    assert not holds_secret(captured.out + captured.err + caplog.text)


def test_later_features_hold_no_secret_either(tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd) -> None:
    """Outputs of running series, interactive sessions, reports and SQL show no user, log file or unpublished key."""
    caplog.set_level(logging.DEBUG)
    store, out = tmp_path / "store", tmp_path / "public"
    out.mkdir()
    logs = tmp_path / "SECRETfolder"
    logs.mkdir()
    planted_log().write_parquet(logs / "SECRETlog.parquet")
    said: list[object] = []
    running = sh.create(store, name="daily", max_keys=2, steps=3, **DECLARED)
    for step in (1, 2):
        running.append(planted_log(), step=step)
        said += [running, running.release(f"day_{step}", step=step, level=1)]
        said[-1].write_parquet(out / f"day_{step}.parquet")
    with pytest.raises(SparsehistError) as refused:
        running.append(planted_log().with_columns(user_id=None), step=3)
    said.append(refused.value)
    file, bounding = logs / "SECRETlog.parquet", sh.Share(most_keys=8)
    shared = sh.create(store, file, name="shared", max_keys=1, bounding=bounding, **DECLARED)
    said += [shared, shared.release("first", level=1)]
    said[-1].write_parquet(out / "first.parquet")
    small = sh.Catalogue([f"loud-key-of-some-length-{i}" for i in range(3)])
    catalogued = DECLARED | {"domain": small, "on_outside": "drop"}
    asked = sh.create(store, planted_log(), name="asked", max_keys=1, **catalogued)
    session = asked.interactive("session", level="0.5", accuracy="0.2")
    said += [session, session.ask(pl.col("query").str.ends_with("1"))]
    text = "release again from shared at level 1/2 expecting 1 false keys to $file; show ledger"
    parameters = {"file": str(out / "again.parquet")}
    said.append(sh.sql(text, store=store, parameters=parameters))
    file.write_bytes(b"SECRET")
    with pytest.raises(SparsehistError) as refused:
        sh.create(store, file, name="broken", max_keys=1, **DECLARED)
    said.append(str(refused.value).replace(str(file), ""))  # the error may quote the path, which the caller gave
    with sh.open_analyst(out) as reader:
        said += [reader, reader.sql("from ledger"), reader.sql("from shared.first")]
        for query in ("select error('no') from shared.first", "select query::int from shared.first"):
            with pytest.raises(SparsehistError) as refused:
                reader.sql(query)
            said.append(refused.value)
    with sh.open(store) as opened:
        said += [opened.report(), opened.ledger(full=True), opened.events(), opened.series("shared").releases()]
    for shown in said:
        assert not holds_secret(str(shown) + repr(shown)), type(shown)
    for path in out.iterdir():
        assert not holds_secret(path.read_bytes()) and not holds_secret(path.name), path
    running.finish()
    inside = [path for path in store.rglob("*") if path.is_file()]
    assert not [path for path in inside if b"SECRETunit" in path.read_bytes()]
    assert not list((store / "tmp").iterdir())
    captured = capfd.readouterr()
    assert not holds_secret(captured.out + captured.err + caplog.text)


SECRET = "SECRET-of-the-log"
BAD = {
    "a cast in a query": lambda _: sh.Query(
        f"select i::varchar user_id, (case when i = 99 then '{SECRET}' else '1' end)::int::varchar as query "
        "from range(100) t(i)"
    ),
    "a cast in a lazy frame": lambda _: pl.LazyFrame({"user_id": ["a"], "query": [SECRET]}).with_columns(
        pl.col("query").str.to_integer()
    ),
    "a quote in a CSV": lambda path: _file(path, f'user_id,query\na,"{SECRET}" x\nb,"{SECRET}\n'),
    "a long row in a CSV": lambda path: _file(path, f"user_id,query\na,b\nc,{SECRET},d,e\n"),
    "a stream that breaks": lambda _: pa.RecordBatchReader.from_batches(
        pa.schema({"user_id": pa.string(), "query": pa.string()}), _breaking()
    ),
}


def _file(path: Path, text: str) -> Path:
    (path / "log.csv").write_text(text)
    return path / "log.csv"


def _breaking():
    yield pa.record_batch({"user_id": ["a"], "query": ["b"]})
    raise ValueError(SECRET)


@pytest.mark.parametrize("source", BAD.values(), ids=BAD)
def test_no_error_holds_a_secret(tmp_path: Path, capfd, source) -> None:
    """If a log cannot be counted, the error's message, traceback, pickle, causes and notes show no secret value."""
    with warnings.catch_warnings(), pytest.raises(SparsehistError) as caught:  # noqa: PT012
        warnings.simplefilter("ignore")
        count(source(tmp_path))
    assert not holds_secret("".join(traceback.format_exception(caught.value)))
    assert not holds_secret(pickle.dumps(caught.value))
    captured = capfd.readouterr()
    assert not holds_secret(captured.out + captured.err)
    link: BaseException | None = caught.value
    while link is not None:
        assert not holds_secret(f"{link!s}{getattr(link, '__notes__', '')}")
        link = link.__cause__ or link.__context__
    held = [value for frame, _ in traceback.walk_tb(caught.value.__traceback__) for value in frame.f_locals.values()]
    errors = [value for value in held if isinstance(value, BaseException) and not isinstance(value, SparsehistError)]
    assert not any(holds_secret(str(error)) for error in errors)


def test_an_engine_error_does_hold_a_secret() -> None:
    """Control: DuckDB's error about text that is no number quotes the text, so it must not reach the caller."""
    with pytest.raises(duckdb.Error, match="SECRET"):
        duckdb.sql(f"select '{SECRET}'::int").fetchall()


LOGS = {
    "one key": pl.DataFrame({"cell": [7], "count": [1]}),
    "all keys": pl.DataFrame({"cell": range(1000), "count": [3] * 1000}),
    "all but one": pl.DataFrame({"cell": range(999), "count": [2] * 999}),
    "one huge count": pl.DataFrame({"cell": [1], "count": [2**33]}),
}
REQUESTS = [
    {"level": "0.5", "false_keys": 1},
    {"level": "0.01", "threshold": 3.0},
    {"level": "2", "threshold": -1.5},
    {"level": "0.5", "threshold": 1.0},
    {"level": "0.5", "threshold": -60.0},
    {"level": "0.1", "threshold": -1e6},
    {"level": "9", "false_keys": 2000},
    {"level": "9", "threshold": 2.0, "max_false_keys": 1e-9},
    {"level": "50", "threshold": 2.0},
    {"level": "1e30", "threshold": 2.0},
]


def public_side(counts: pl.DataFrame) -> list[object]:
    """Request each release in `REQUESTS`; return metadata, refusals and ledger, but not the published rows."""
    counted = sh.Counts(counts, largest=1)
    series = sh.create(":memory:", counted, name="c", key="cell", max_keys=3, domain=sh.Integers(1000), cap=20)
    shown: list[object] = []
    for i, request in enumerate(REQUESTS):
        try:
            metadata = dict(series.release(f"r{i}", **request).metadata)
            shown.append({key: metadata[key] for key in metadata if key not in ("store", "round", "released_at")})
        except SparsehistError as refusal:
            shown.append((type(refusal).__name__, str(refusal)))
    ledger = series.store.ledger(full=True).drop("first_release", "last_release")
    return [*shown, ledger.rows(), series.releases().drop("released_at").rows()]


def test_everything_public_is_the_same_for_any_log() -> None:
    """Thresholds, expected false keys, refusals, metadata and costs are equal for four very different logs."""
    shown = [public_side(counts) for counts in LOGS.values()]
    assert all(other == shown[0] for other in shown[1:])


@pytest.mark.parametrize(("threshold", "refused"), [(0.2, True), (0.6, False)])
def test_a_refusal_for_too_many_rows_does_not_depend_on_the_log(
    monkeypatch: pytest.MonkeyPatch, threshold: float, *, refused: bool
) -> None:
    """Whether a release is refused for too many rows depends only on public numbers.

    The same release is requested for three logs with different numbers of keys, and is refused for all or for none.
    The limits on its rows are lowered from about 10**9 to a few hundred, so that the test is fast.
    """
    assert cell_request._MOST_FALSE_KEYS == binomial.MOST_SUCCESSES / 2
    monkeypatch.setattr(cell_request, "_MOST_FALSE_KEYS", 450.0)
    monkeypatch.setattr(binomial, "MOST_SUCCESSES", 700.0)
    refusals = set()
    for cells in (1, 300, 900):
        counted = sh.Counts(pl.DataFrame({"cell": range(cells), "count": [1] * cells}), largest=1)
        series = sh.create(":memory:", counted, name="c", key="cell", max_keys=1, domain=sh.Integers(2000))
        try:
            series.release("first", level=1, threshold=threshold, max_false_keys=450)
            refusals.add(None)
        except ThresholdError as refusal:
            refusals.add(str(refusal))
    assert len(refusals) == 1
    assert (None not in refusals) == refused


CREDENTIALS = [
    "set s3_secret_access_key='PLANTED'",
    "set azure_storage_connection_string = 'AccountKey=PLANTED'",
    "attach 'host=h password=PLANTED dbname=d' as db (type postgres)",
    "create or replace persistent secret (type s3, secret $tag$PLANTED$tag$)",
    "create secret (type gcs, secret/* of the bucket */'PLANTED')",
    "create secret (type http, extra_http_headers map {'Authorization': 'Bearer PLANTED'})",
    "Authorization: Bearer PLANTED",
    "select * from 's3://bucket/log.parquet?versionId=1&sig=PLANTED'",
]


@pytest.mark.parametrize("text", CREDENTIALS)
def test_no_form_of_credentials_is_shown(text: str) -> None:
    """Errors and reprs hide credentials, as in `set s3_secret_access_key=…`, but show a column name like `token`."""
    error = sh.errors.StatementError(f"line 3: {text} is no statement of ours")
    for shown in (str(error), repr(error), repr(error.args), repr(sh.Query(text))):
        assert "PLANTED" not in shown
    column = "column 'token' and column 'access_key' hold 'x'"
    assert str(sh.errors.DataError(column)) == column
