"""Convert states to bytes and back. The bytes are a class name, a line of JSON, arrays, and their SHA-256 digest."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from sparsehist.errors import InputError, StoreDamagedError, raise_alone
from sparsehist.typing import AnyArray

_DIGEST = 32


def pack(kind: str, header: dict[str, Any], arrays: Sequence[AnyArray] = ()) -> bytes:
    """Return the state of an object of the class `kind` as bytes for `unpack`. They are as secret as the state."""
    shapes = [[array.dtype.str, list(array.shape)] for array in arrays]
    head = _first_line(kind) + json.dumps({"header": header, "arrays": shapes}).encode() + b"\n"
    parts = [head, *(array.tobytes() for array in arrays)]
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return b"".join([*parts, digest.digest()])


def unpack(kind: str, content: bytes) -> tuple[dict[str, Any], list[AnyArray]]:
    """Read a state. Raise InputError if `pack` did not write the bytes, StoreDamagedError if they were altered."""
    if not isinstance(content, bytes) or not content.startswith(_first_line(kind)):
        raise InputError(f"these bytes were not written by this version of {kind}.to_bytes")
    if hashlib.sha256(content[:-_DIGEST]).digest() != content[-_DIGEST:]:
        raise StoreDamagedError(f"the bytes of the {kind} were truncated or altered")
    try:
        _, line, body = content.split(b"\n", 2)
        described = json.loads(line)
        arrays, start = [], 0
        for dtype, shape in described["arrays"]:
            count = int(np.prod(shape, dtype=np.int64))
            arrays.append(np.frombuffer(body, np.dtype(dtype), count, start).reshape(shape).copy())
            start += count * np.dtype(dtype).itemsize
    except (ValueError, KeyError, TypeError, RecursionError):
        raise_alone(StoreDamagedError(f"the bytes of the {kind} were altered"))
    return described["header"], arrays


def _first_line(kind: str) -> bytes:
    return f"sparsehist {kind} 1\n".encode()
