"""Provide a local Spark for all tests, as a classic session and as a Spark Connect session."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import warnings
from functools import cache
from pathlib import Path

import polars as pl
import pytest


def _why_not() -> str | None:
    java = Path(os.environ["JAVA_HOME"]) / "bin/java" if "JAVA_HOME" in os.environ else shutil.which("java")
    if java is None or subprocess.run([str(java), "-version"], capture_output=True, check=False).returncode:
        return "Java is not found: `make test-spark` installs it"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import pyspark  # noqa: F401
    except ImportError:
        return "pyspark is not installed: `make test-spark` installs it"
    return None


@cache
def _sessions() -> tuple[object, object]:
    from pyspark.sql import SparkSession
    from pyspark.sql.connect.session import SparkSession as ConnectSession

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "1200m",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": "3",
        "spark.sql.session.timeZone": "America/Sao_Paulo",  # an unusual time zone; counts must not depend on it
        "spark.sql.timestampType": "TIMESTAMP_NTZ",  # timestamps have no zone, as in Parquet files
        "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
    }
    builder = SparkSession.builder.master("local[2,4]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    return session, ConnectSession.builder.remote(f"sc://127.0.0.1:{port}").getOrCreate()


def session(kind: str = "spark"):
    """Return a Spark session, or skip the test if Spark is not installed. `kind` is "spark" or "connect"."""
    if reason := _why_not():
        pytest.skip(reason)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PySpark warns about unsupported versions of pandas
        return _sessions()[kind == "connect"]


def frame(log, kind="spark"):
    """Return a log as a Spark DataFrame."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return session(kind).createDataFrame(log.to_arrow(compat_level=pl.CompatLevel.oldest()))
