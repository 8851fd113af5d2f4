"""Tests that errors, warnings and log records show neither values nor length of data passed to a wrong parameter.

Every public function, class and method is called with each kind of data in each of its parameters, and with plausible
values in its other required parameters. The command line prints no traceback, because local variables could contain
data. The reprs of the package are checked in tests/attacks/test_default_reprs.py.
"""

from __future__ import annotations

import inspect
import logging
import re
import signal
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import numpy as np
import polars as pl
import pytest

import sparsehist as sh
from sparsehist import audiences, dense, interactive, local, noise, workload
from sparsehist.cli import entry

_ROWS = 719
_LONGEST = 0.25  # CPU seconds after which a call is stopped; calls that refuse the data end much sooner
_NUMBER = 5183627
_TEXTS = [f"zq-planted-{i}" for i in range(_ROWS)]
_NUMBERS = [_NUMBER * 1000 + i for i in range(_ROWS)]
_FRAME = pl.DataFrame({"user_id": _TEXTS, "query": _TEXTS, "number": _NUMBERS})
_CONNECTION = duckdb.connect()
_TABLE = _FRAME.to_arrow()


class DataFrame:
    """A stand-in for a Spark frame whose repr prints its rows, as Spark's does if eager evaluation is on."""

    __module__ = "pyspark.sql.dataframe"
    columns = _FRAME.columns

    def __len__(self) -> int:
        return _ROWS

    def __repr__(self) -> str:
        return repr(_FRAME)


DATA: dict[str, Any] = {
    "a frame": _FRAME,
    "a lazy frame": _FRAME.lazy(),
    "a column of texts": _FRAME["query"],
    "an array of numbers": np.array(_NUMBERS),
    "a list of texts": _TEXTS,
    "a list of numbers": _NUMBERS,
    "a dict": dict(zip(_TEXTS, _NUMBERS, strict=True)),
    "a relation": _CONNECTION.from_arrow(_TABLE),
    "an Arrow table": _TABLE,
    "a Spark frame": DataFrame(),
}
_SHOWN = re.compile(r"zq-planted|5[.,_]?183[,_]?6")
_COUNTED = re.compile(rf"(?<![\w.:]){_ROWS}(?![\w.])|{_ROWS:,}")


def leaks(text: str) -> bool:
    """Return whether a text contains a value from the planted data or the number of planted rows."""
    return bool(_SHOWN.search(text) or _COUNTED.search(text))


class Call(NamedTuple):
    """A public function, the parameter that receives the data and, for a method, the class of its instance."""

    name: str
    function: Callable[..., Any]
    parameter: inspect.Parameter
    owner: type | None


def _parameters(function: Any) -> list[inspect.Parameter]:
    return list(inspect.signature(function).parameters.values()) if callable(function) else []


def _public() -> Iterator[tuple[str, Any]]:
    """Yield every function and class that is a public name or is defined in a public module."""
    for name in sh.__all__:
        value = getattr(sh, name)
        if not inspect.ismodule(value):
            yield name, value
        elif value is not sh.errors:  # skip the errors: exceptions may show their arguments
            yield from ((f"{name}.{inner}", getattr(value, inner)) for inner in value.__all__)


def _calls(receivers: dict[type, Any]) -> Iterator[Call]:
    """Yield each public function or method with each of its parameters; an inherited method occurs only once."""
    classes = {value: name for name, value in _public() if inspect.isclass(value)}
    classes |= {made: made.__name__ for made in receivers if made not in classes}
    for name, function in _public():
        if not inspect.isclass(function):
            yield from (Call(name, function, parameter, None) for parameter in _parameters(function))
    seen: set[Any] = set()
    for made, name in classes.items():
        if not issubclass(made, tuple) and not inspect.isabstract(made):
            yield from (Call(name, made, parameter, None) for parameter in _parameters(made))
        for method in dir(made):
            held = inspect.getattr_static(made, method)
            bound = isinstance(held, classmethod | staticmethod)
            function = held.__func__ if bound else held
            if method.startswith("_") or not inspect.isfunction(function) or function in seen:
                continue
            if not function.__module__.startswith("sparsehist") or getattr(function, "__isabstractmethod__", False):
                continue
            seen.add(function)
            called = getattr(made, method) if bound else function
            for parameter in _parameters(called)[0 if bound else 1 :]:
                yield Call(f"{name}.{method}", called, parameter, None if bound else made)


_LOG = pl.DataFrame({"user_id": [f"u{i}" for i in range(40)], "query": [f"k{i % 4}" for i in range(40)]})
_DOMAIN = sh.Catalogue([f"k{i}" for i in range(4)])
_EDGES = [(0, 1), (1, 2), (2, 3)]


def make_receivers(directory: Path) -> dict[type, Any]:
    """Return a dict from class to instance; the methods of a base class are called on an instance of a subclass."""
    rng, told = np.random.default_rng(1), {"unit": "user_id", "key": "query", "max_keys": 1, "domain": _DOMAIN}
    series = sh.create(directory / "store", _LOG, name="words", **told)  # type: ignore[arg-type]
    store = sh.open(directory / "store")
    running = sh.create(store, name="running", steps=3, **told)  # type: ignore[arg-type]
    periodic = sh.create(store, name="periodic", every=sh.Every("month", periods=3), **told)  # type: ignore[arg-type]
    running.append(_LOG, step=1)
    cells = series.release("cells", level="0.1", threshold=3)
    (directory / "public").mkdir()
    cells.write(directory / "public" / "cells.parquet")
    workloads = series.release("totals", level="0.1", workload=workload.Total())
    vector = dense.MultipleRelease(noise.DiscreteLaplace(), np.arange(4), cap=1)
    setting = local.Rappor(128, 2, "0.5", "0.8", "0.25")
    identity = workload.Identity(4)
    made = [
        store, series, running, periodic, cells, workloads, vector, setting, identity,
        sh.open_analyst(directory / "public"),
        series.plan("0.1", false_keys=1),
        series.interactive("session", level="0.5", accuracy="0.2"),
        vector.release("0.5"),
        dense.sample_laplace_path(4, "0.2", 3, rng=rng),
        dense.clip_negative(),
        local.RapporClient.start(setting, "page", rng=rng),
        local.Degradation(local.Rappor(128, 2, "0.25", "0.65", "0.4"), setting),
        interactive.SparseVector(5, 1), interactive.SparseVector(5, 1).start(rng=rng),
        interactive.Weighing(4, 40, 1, "0.1"), interactive.Weighing(4, 40, 1, "0.1").start(np.ones(4), rng=rng),
        audiences.Audiences(vector, {"ann": "1/2"}), audiences.read_graph(_EDGES),
        audiences.Network([1, 2, 3, 4], _EDGES, noise.DiscreteLaplace(), levels={1: "1", 2: "1/2"}),
        audiences.Network([1, 2, 3, 4], _EDGES, noise.DiscreteLaplace(), levels={1: "1", 2: "1/2"}).view(0),
        sh.EpsilonDelta(1, "1e-6"),
        sh.Every("week", periods=3),
        sh.Counting(), sh.Measure("price", clip=1),
        sh.Steps(3), sh.Share(), sh.Integers(4), sh.Dates("2026-01-01", "2026-01-31"), sh.Hash64(),
        sh.Strings(max_bytes=4), sh.Open(delta="1e-6"), sh.Product(query=_DOMAIN), _DOMAIN,
        noise.DiscreteLaplace(), noise.Exponential(), noise.Gaussian(), noise.Laplace(), noise.Poisson(),
        noise.RandomisedResponse(4), noise.Skellam(),
        workload.Cells((4,), (np.arange(4),), np.ones(4, dtype=np.int64)), workload.Kronecker(identity, identity),
        workload.Marginals((2, 2), 1), workload.Matrix(np.eye(4)), workload.Prefix(4), workload.Ranges(4),
        workload.Total(4), workload.Union(identity, workload.Total(4)), workload.choose(identity, 1),
    ]  # fmt: skip
    return {type(one): one for one in made}


def _fitting(receivers: dict[type, Any], made: type) -> Any:
    return next((one for kind, one in receivers.items() if issubclass(kind, made)), None)


def plausible(directory: Path, receivers: dict[type, Any]) -> dict[str, Any]:
    """Return a dict of plausible values by parameter name. Calls give None to any other required parameter."""
    rng, family = np.random.default_rng(2), noise.DiscreteLaplace()
    return {
        "store": receivers[sh.Store], "log": _LOG, "source": _LOG, "frame": _LOG, "unit": "user_id", "key": "query",
        "max_keys": 1, "domain": _DOMAIN, "name": "other", "path": directory / "new", "level": "0.5",
        "levels": ["0.5"],
        "family": family, "past": [], "threshold": 3.0, "counts": np.arange(4), "truth": np.arange(4), "rng": rng,
        "n_untracked": 5, "n_tracked": 4, "neighbours": {}, "size": 4, "coarse": np.arange(4), "fine": np.arange(4),
        "coarse_level": "0.1", "fine_level": 1, "values": np.arange(4), "start": 1, "end": 4, "epsilon": 1.0,
        "delta": 1e-6, "value": 1, "text": "rho(1)", "sql": "select 1", "query": "select user_id, query from log",
        "script": "show ledger", "setting": receivers[local.Rappor], "reports": np.zeros((2, 128)),
        "candidates": ["a"], "memo": np.zeros(128, dtype=bool), "true_bits": np.zeros(128, dtype=bool),
        "workload": receivers[workload.Identity], "x": np.ones(4), "y": np.ones(4), "z": np.ones(4),
        "strategy": workload.choose(receivers[workload.Identity], 1), "state": np.zeros(4), "reason": "a test",
        "graph": _EDGES, "owner": 0, "reader": "ann", "readers": ["ann"], "vector": receivers[dense.MultipleRelease],
        "step": 1, "std": 1.0, "noise": np.zeros(4), "numbers": 4, "domain_size": 10, "false_keys": 1.0,
        "thresholds": [3.0], "releases": [("0.5", 3.0)], "parameters": {}, "epsilons": 1, "currency": "rho",
        "finest": "1", "coarsest": "0.1", "dialect": "duckdb", "table": "log", "delimiter": ",", "dtype": pl.String,
        "release": receivers[sh.Release], "populations": ["default", "second"], "low": 0, "high": 1, "n": 4,
        "keys": pl.DataFrame({"query": ["k1"]}), "indices": np.arange(2), "column": 0,
        "cells": receivers[workload.Cells],
        "columns": (0,),
        "components": {"query": _DOMAIN}, "bits": 128, "hashes": 2, "keep": "0.5",
        "one_if_set": "0.8", "one_if_not": "0.25", "categories": 4, "cap": 1, "queries": 5, "scale": 2, "mass": 40,
        "accuracy": "0.1", "period": "2026-01", "when": "monday", "most_keys": 4, "number": 3, "first": 4,
        "log_probability": -1.0, "length": 4, "people": 10, "count": 1.0, "factor": 2.0, "at": 1.0,
    }  # fmt: skip


class _TooLongError(BaseException):
    pass


def _stop(*_: object) -> None:
    raise _TooLongError


def said_by(call: Callable[[], object]) -> list[str]:
    """Call a function, and return the texts of its error, of the error's causes, and of warnings and log records."""
    texts: list[str] = []
    records: list[logging.LogRecord] = []
    handler = logging.Handler(logging.DEBUG)
    handler.emit = records.append  # type: ignore[method-assign]
    logging.getLogger().addHandler(handler)
    error: BaseException | None = None
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        before = signal.signal(signal.SIGPROF, _stop)
        try:
            signal.setitimer(signal.ITIMER_PROF, _LONGEST)
            try:
                call()
            finally:
                signal.setitimer(signal.ITIMER_PROF, 0)
        except KeyboardInterrupt:
            raise
        except _TooLongError:
            pass
        except BaseException as caught:  # noqa: BLE001 - also errors that are not an Exception
            error = caught
        finally:
            signal.signal(signal.SIGPROF, before)
            logging.getLogger().removeHandler(handler)
    while error is not None:
        texts += [str(error), repr(error)]
        error = error.__cause__ or error.__context__
    return texts + [str(one.message) for one in warned] + [record.getMessage() for record in records]


def arguments(call: Call, data: object, values: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """Return arguments with the data in one parameter and plausible values in the other required parameters."""
    positional: list[Any] = []
    named: dict[str, Any] = {}
    for parameter in _parameters(call.function)[0 if call.owner is None else 1 :]:
        kind, given = parameter.kind, parameter.name == call.parameter.name
        if not given and (
            parameter.default is not parameter.empty or kind in (kind.VAR_POSITIONAL, kind.VAR_KEYWORD)
        ):
            continue
        value = data if given else values.get(parameter.name)
        if kind == kind.VAR_KEYWORD:
            named["query"] = value
        elif kind in (kind.POSITIONAL_ONLY, kind.VAR_POSITIONAL):
            positional.append(value)
        else:
            named[parameter.name] = value
    return positional, named


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Call], dict[type, Any], dict[str, Any]]:
    """Return all calls of public functions, instances by class, and plausible values by parameter name."""
    directory = tmp_path_factory.mktemp("public_calls")
    receivers = make_receivers(directory)
    return list(_calls(receivers)), receivers, plausible(directory, receivers)


# The time limit may interrupt a finalizer. Pytest would report the finalizer's error as a warning.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_no_public_call_shows_data_that_it_is_given(everything, monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    """No public function shows the data that one of its parameters receives, whether frame, array, list or dict."""
    calls, receivers, values = everything
    monkeypatch.chdir(tmp_path)
    found = {}
    for call in calls:
        for data in DATA.values():
            positional, named = arguments(call, data, values)
            if call.owner is not None:
                positional.insert(0, _fitting(receivers, call.owner))
            shown = [text for text in said_by(lambda: call.function(*positional, **named)) if leaks(text)]  # noqa: B023
            if shown:
                found[f"{call.name}({call.parameter.name})"] = shown[0][:200]
    assert found == {}


def test_the_calls_are_many_and_each_method_has_an_instance(everything) -> None:
    """The calls cover at least 650 parameters, and there is an instance for every method."""
    calls, receivers, _ = everything
    assert len({(call.name, call.parameter.name) for call in calls}) >= 650
    assert not {call.owner for call in calls if call.owner and _fitting(receivers, call.owner) is None}
    for name in ("create(unit)", "Series.release(level)", "PeriodicSeries.append(log)", "workload.choose(workload)"):
        assert name in {f"{call.name}({call.parameter.name})" for call in calls}


def _quotes(value: Any) -> None:
    raise ValueError(f"got {value}")


def _counts(value: Any) -> None:
    warnings.warn(f"got {len(value)} rows", stacklevel=1)


def _logs(value: Any) -> None:
    try:
        _quotes(value)
    except ValueError:
        logging.getLogger("control").warning("got %s", value)


def _hides(value: Any) -> None:
    try:
        _quotes(value)
    except ValueError:
        raise TypeError("a wrong type") from None


@pytest.mark.parametrize("function", [_quotes, _counts, _logs, _hides])
def test_a_function_that_shows_its_argument_is_noticed(function: Callable[[Any], None]) -> None:
    """Negative control: data shown in a warning, a log record, an error or its suppressed context is detected."""
    for data in (DATA["a list of texts"], DATA["a list of numbers"], DATA["an array of numbers"], DATA["a dict"]):
        assert any(leaks(text) for text in said_by(lambda: function(data)))  # noqa: B023


def test_the_command_line_prints_no_traceback(monkeypatch, capsys) -> None:
    """On an internal error, the command line prints the error's type and location but no traceback."""
    hook = sys.excepthook
    monkeypatch.setattr(entry, "load", lambda _: _quotes(_TEXTS[0]))
    assert entry.run([_TEXTS[0]]) == entry.BAD_INPUT
    assert entry.run(["ledger"]) == entry.INTERNAL
    printed = capsys.readouterr().err
    assert "internal error (ValueError at" in printed and "Traceback" not in printed
    assert not leaks(printed.splitlines()[-1])
    assert sys.excepthook is hook
