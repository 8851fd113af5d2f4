"""The file of a dense multiple release: a line of JSON, the arrays as they lie in memory, a digest."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from fractions import Fraction
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from sparsehist.dense.dense_state import DenseState
from sparsehist.errors import InputError, NotFoundError, StoreDamagedError, raise_alone
from sparsehist.noise.family import DenseFamily, NoiseArray
from sparsehist.store.private_files import AtomicFile, disk_errors

_MAGIC = b"sparsehist dense 1\n"
_LONGEST_HEADER = 1 << 24
_PIECE = 1 << 22

Loaded = tuple[DenseState, Fraction | None, float | None, float]


def write_state(path: Path, state: DenseState, cap: Fraction | None, step: float | None, charge: float) -> None:
    """Write state and parameters; whole, or not at all."""
    levels = list(state.offsets)
    dtype = "<i8" if state.family.integer else "<f8"
    header = {
        "family": _describe(state.family),
        "size": state.size,
        "dtype": dtype,
        "truth_step": state.truth_step,
        "sealed": state.sealed,
        "levels": [str(level) for level in levels],
        "cap": None if cap is None else str(cap),
        "step": step,
        "charge": charge,
    }
    with AtomicFile(path, durable=True) as file:
        file.write(_MAGIC + json.dumps(header).encode() + b"\n")
        for array in (state.anchor, *(state.offsets[level] for level in levels)):
            for start in range(0, array.size, _PIECE):
                file.write(array[start : start + _PIECE].astype(np.dtype(dtype), copy=False).data)
        file.write(bytes.fromhex(file.digest()))


def read_file(path: Path, family: DenseFamily | None) -> Loaded:
    """Read a state back and check its digest.

    Raises:
        NotFoundError: If there is no such file.
        StoreDamagedError: If it was truncated or altered.
        InputError: If it is another kind of file, or of another family.
    """
    if not path.is_file():
        raise NotFoundError(f"there is no file {path}")
    with disk_errors(path), path.open("rb") as file:
        digest = hashlib.sha256()
        if file.read(len(_MAGIC)) != _MAGIC:
            raise InputError(f"{path} was not written by MultipleRelease.save, or by another version of it")
        line = file.readline(_LONGEST_HEADER)
        digest.update(_MAGIC + line)
        try:
            header = json.loads(line)
            levels = [Fraction(text) for text in header["levels"]]
            arrays = [_read_array(file, header["size"], header["dtype"], digest) for _ in range(len(levels) + 1)]
        except (ValueError, KeyError, TypeError, MemoryError):
            raise_alone(_damaged(path))
        if file.read() != digest.digest():
            raise _damaged(path)
    state = DenseState(
        _restore(path, header["family"], family),
        arrays[0],
        float(header["truth_step"]),
        dict(zip(levels, arrays[1:], strict=True)),
        bool(header["sealed"]),
    )
    cap = None if header["cap"] is None else Fraction(header["cap"])
    return state, cap, header["step"], float(header["charge"])


def _read_array(file: BinaryIO, size: int, dtype: str, digest: Any) -> NoiseArray:
    array: NoiseArray = np.empty(size, np.dtype(dtype))
    view = memoryview(array.data).cast("B")
    for start in range(0, len(view), 8 * _PIECE):
        piece = view[start : start + 8 * _PIECE]
        if file.readinto(piece) != len(piece):  # type: ignore[attr-defined]
            raise ValueError
        digest.update(piece)
    return array


def _damaged(path: Path) -> StoreDamagedError:
    return StoreDamagedError(f"{path} was truncated or altered; there is no other copy of what it held")


def _describe(family: DenseFamily) -> Mapping[str, Any]:
    if not is_dataclass(family):
        raise InputError(f"{type(family).__name__} is no dataclass, so its parameters cannot be saved")
    values = {field.name: getattr(family, field.name) for field in fields(family)}
    parameters = {name: _as_text(value) for name, value in values.items()}
    return {"name": f"{type(family).__module__}:{type(family).__qualname__}", "parameters": parameters}


def _as_text(value: object) -> list[str]:
    """Kind and exact text; numpy's scalars as Python's."""
    plain = value.item() if isinstance(value, np.generic) else value
    return [type(plain).__name__, str(plain)]


def _restore(path: Path, described: Mapping[str, Any], family: DenseFamily | None) -> DenseFamily:
    """The family itself; nothing outside sparsehist.noise is imported because a file names it."""
    if family is not None:
        if _describe(family) != described:
            raise InputError(f"{path} was saved with {described['name']} and other parameters than the family given")
        return family
    module, _, name = described["name"].partition(":")
    if not module.startswith("sparsehist.noise."):
        raise InputError(f"{path} was saved with {described['name']}; pass it as family=")
    readers: dict[str, Callable[[str], Any]] = {
        "int": int,
        "float": float,
        "str": str,
        "Fraction": Fraction,
        "bool": "True".__eq__,
    }
    try:
        values = {name: readers[of](text) for name, (of, text) in described["parameters"].items()}
        made: DenseFamily = getattr(import_module(module), name)(**values)
    except (ImportError, AttributeError, KeyError, TypeError, ValueError):
        raise InputError(f"{path} was saved with {described['name']}; pass it as family=") from None
    return made
