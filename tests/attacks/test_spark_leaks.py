"""Spark's event log, EXPLAIN and PySpark's logger reveal neither the salt nor values of the log."""

from __future__ import annotations

import contextlib
import io
import tempfile
from pathlib import Path

import pytest

import sparsehist as sh
from sparsehist.counting import with_spark
from sparsehist.counting.contract import request_of
from sparsehist.counting.sources import open_log
from sparsehist.domain import Domain
from sparsehist.errors import DataError
from sparsehist.store.support import BOUNDING, ORDER, salt_for
from tests.counting import spark
from tests.counting.logs import a_log

pytestmark = pytest.mark.spark
DECLARED = {"unit": "user_id", "key": "query", "max_keys": 3, "domain": "strings(max_bytes=32)"}


@pytest.fixture
def events(tmp_path):
    """Return a function that reads Spark's event log, which contains complete query plans."""
    session = spark.session()
    jvm, scala = session.sparkContext._jvm, session.sparkContext._jsc.sc()
    (tmp_path / "events").mkdir()
    settings = scala.conf().clone().set("spark.eventLog.compress", "false")
    place = jvm.java.net.URI(f"file://{tmp_path}/events")
    listener = jvm.org.apache.spark.scheduler.EventLoggingListener(
        "app", jvm.scala.Option.empty(), place, settings, scala.hadoopConfiguration()
    )
    listener.start()
    scala.addSparkListener(listener)
    kept = {kind: spark.session(kind).conf.get("spark.sql.ui.explainMode") for kind in ("spark", "connect")}
    for kind in kept:
        spark.session(kind).conf.set("spark.sql.ui.explainMode", "extended")

    def read() -> str:
        scala.listenerBus().waitUntilEmpty(60_000)
        return "".join(file.read_text() for file in (tmp_path / "events").rglob("*") if file.is_file())

    yield read
    for kind, mode in kept.items():
        spark.session(kind).conf.set("spark.sql.ui.explainMode", mode)
    scala.removeSparkListener(listener)
    listener.stop()


def explained(frame) -> str:
    """Return the output of EXPLAIN EXTENDED for a Spark DataFrame."""
    with contextlib.redirect_stdout(io.StringIO()) as said:
        frame.explain(extended=True)
    return said.getvalue()


@pytest.mark.parametrize("kind", ["spark", "connect"])
def test_no_salt_stands_in_what_spark_writes_down(tmp_path: Path, events, kind: str) -> None:
    """Spark's event log and EXPLAIN EXTENDED do not show the salt of a series.

    Negative control: if a query contains a salt as a literal, the event log and EXPLAIN EXTENDED show the salt.
    """
    frame = spark.frame(a_log(90, 30), kind)
    salts = set()
    series = sh.create(tmp_path / "store", frame, name="plain", **DECLARED)
    with series.store.hold() as state:
        secret = state.series("plain").salt
    salts |= {secret.hex(), *(salt_for(purpose, secret).hex() for purpose in (BOUNDING, ORDER))}
    told = {**DECLARED, "key": ("query",), "domain": Domain.parse(DECLARED["domain"])}
    request = request_of(
        **told, salt=bytes(range(16)), on_null="error", on_outside="error", memory_limit=None, threads=None,
        temporary_directory=Path(tempfile.gettempdir()), progress=None, portable=True,
    )  # fmt: skip
    counted = with_spark.counted(open_log(frame, request.read), request, [])
    control = counted.selectExpr("*", f"'{request.salt.hex()}'")
    assert "sha2" in explained(counted)
    assert request.salt.hex() not in explained(counted)
    assert request.salt.hex() in explained(control)
    assert not [salt for salt in salts if salt in events()]
    assert "Analyzed Logical Plan" in events()
    assert request.salt.hex() not in events()
    control.toArrow()
    assert request.salt.hex() in events()


@pytest.mark.parametrize("kind", ["spark", "connect"])
def test_no_word_of_spark_about_a_value_is_logged(tmp_path: Path, monkeypatch, kind: str) -> None:
    """While sparsehist counts, PySpark logs no error that quotes a value of the log.

    Control: when sparsehist is not counting, PySpark logs an error that quotes a value of the log, as usual.
    """
    pytest.importorskip("pyspark", reason="pyspark is not installed: `make test-spark` installs it")
    from pyspark.logger import PySparkLogger

    said = io.StringIO()
    for name in ("DataFrameQueryContextLogger", "SQLQueryContextLogger"):
        for handler in PySparkLogger.getLogger(name).handlers:
            monkeypatch.setattr(handler, "stream", said)
    session = spark.session(kind)
    query = "cast(case when id = 77 then 'SECRETkey' else '1' end as int) as query"
    log = session.range(200).selectExpr("id as user_id", query)
    with pytest.raises(DataError) as caught:
        sh.create(tmp_path / "store", log, name="a", **{**DECLARED, "domain": "integers(500)"})
    assert "SECRET" not in str(caught.value) + said.getvalue()
    with pytest.raises(Exception, match="SECRETkey"):
        log.toArrow()
    assert "SECRETkey" in said.getvalue()
