"""An object store that dies while Spark's executors write counts to it: the series is whole or absent."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from pyarrow import fs

import sparsehist as sh
from sparsehist.cli.commands import check_store
from sparsehist.errors import DataError, StoreError
from sparsehist.store.parts import counts_in_parts
from tests.counting import spark
from tests.counting.logs import a_log
from tests.counting.test_counts_in_parts import ALL, DECLARED, is_whole
from tests.test_layout import CHECKOUT

pytestmark = [pytest.mark.spark, pytest.mark.slow]
LOG = a_log(2000, 300)


def _credentials(path: Path) -> str:
    """A key that nobody asks for; without one, the reader would ask the network who this machine is."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    key = rsa.generate_private_key(65537, 2048).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    told = {"type": "service_account", "client_email": "me@example.org", "private_key_id": "1", "project_id": "p"}
    path.write_text(json.dumps({**told, "private_key": key.decode(), "token_uri": "http://127.0.0.1:9/"}))
    return str(path)


@pytest.fixture(scope="module")
def dies(tmp_path_factory):
    """A bucket `lake` on this machine; the store dies as this file says."""
    pytest.importorskip("gcp_storage_emulator", reason="`make test-spark` installs it")
    session, directory = spark.session(), tmp_path_factory.mktemp("lake")
    if spark.gcs_jar() is None:
        pytest.skip("pyspark-gcs is not installed: `make test-spark` installs it")
    command = [sys.executable, "-m", "tests.counting.gcs_server", str(directory / "dies")]
    with (
        subprocess.Popen(command, cwd=CHECKOUT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as server,
        pytest.MonkeyPatch.context() as patch,
    ):
        at = f"http://127.0.0.1:{int(server.stdout.readline())}"
        patch.setenv("CLOUD_STORAGE_EMULATOR_ENDPOINT", at)
        patch.setenv("GOOGLE_APPLICATION_CREDENTIALS", _credentials(directory / "key.json"))
        session.conf.set("fs.gs.storage.root.url", f"{at}/")
        yield directory / "dies"
        server.kill()


def _made(directory, place):
    return sh.create(directory / "store", spark.frame(LOG), **DECLARED, counts_directory=f"gs://lake/{place}")


def _objects(place):
    """What lies in the store, apart from what stands for directories."""
    system, path = fs.FileSystem.from_uri(f"gs://lake/{place}")
    below = fs.FileSelector(path, recursive=True, allow_not_found=True)
    return [found.path for found in system.get_file_info(below) if found.is_file]


def test_counts_lie_in_an_object_store(tmp_path, dies):
    """Spark writes them, rounds read them, dropping the series erases them."""
    series = _made(tmp_path, "whole")
    assert is_whole(series, LOG) and not is_whole(series, LOG[: LOG.height // 2])
    assert series.release("all", **ALL).frame.height > 0
    series.store.drop("queries")
    assert not _objects("whole")


A_TASK_WRITES = "/counts/_temporary/0/_temporary/"


@pytest.mark.parametrize(
    "request_of",
    [
        pytest.param(A_TASK_WRITES, id="a task writes"),
        pytest.param("/rewriteTo/b/lake/o/", id="a task is committed"),
        pytest.param("/support/_temporary/0/_temporary/", id="the second copy is written"),
    ],
)
def test_a_store_that_dies_leaves_no_series(tmp_path, dies, monkeypatch, request_of):
    """From the first such request on nothing is answered: there is no series, and a rerun makes a whole one.

    What was written is named, and erased by a check once the store answers again.
    """
    place = tmp_path.name
    monkeypatch.setattr(counts_in_parts, "_PATIENCE", 3)
    dies.write_text(f"1000000 {request_of}")
    with pytest.raises((StoreError, DataError)) as caught:
        _made(tmp_path, place)
    assert f"gs://lake/{place}/" in caught.value.__notes__[0]
    dies.with_name("died").unlink()
    dies.unlink()
    with sh.open(tmp_path / "store", create=True) as store:
        assert store.ledger().is_empty()
    assert len(check_store(tmp_path / "store", wait=0).data["removed"]) == 1
    assert not _objects(place)
    assert is_whole(_made(tmp_path, place), LOG)


def test_tasks_that_a_store_does_not_answer_are_run_again(tmp_path, dies):
    """A store that drops some connections while tasks write, and then no more: no row is lost or there twice."""
    dies.write_text(f"5 {A_TASK_WRITES}")
    assert is_whole(_made(tmp_path, "late"), LOG)
    dies.with_name("died").unlink()
    dies.unlink()
