"""Define array types, convert and check numbers from callers, and hide secrets in the repr of classes.

numpy is imported by type checkers or on first use only, because many commands do not need it.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from sparsehist.errors import DeclarationError, raise_alone, shown

if TYPE_CHECKING:
    import numpy as np
    from numpy.random import Generator as Generator  # noqa: PLC0414 - a public name of this module
    from numpy.typing import ArrayLike as ArrayLike  # noqa: PLC0414
    from numpy.typing import NDArray as NDArray  # noqa: PLC0414
else:
    ArrayLike = Generator = NDArray = Any

AnyArray: TypeAlias = "NDArray[Any]"
BoolArray: TypeAlias = "NDArray[np.bool_]"
FloatArray: TypeAlias = "NDArray[np.float64]"
IndexArray: TypeAlias = "NDArray[np.intp]"
IntArray: TypeAlias = "NDArray[np.int64]"
WordArray: TypeAlias = "NDArray[np.uint64]"

_Kind = TypeVar("_Kind", bound=type)


def float_array(name: str, value: ArrayLike) -> FloatArray:
    """Convert numbers to a float64 array. Errors show the type of a wrong value, never the value."""
    import numpy as np

    try:
        return np.asarray(value, np.float64)
    except (TypeError, ValueError, OverflowError):
        raise_alone(DeclarationError(f"{name} must be numbers, got {shown(value)}"))


def float_entries(name: str, value: ArrayLike, size: int) -> FloatArray:
    """Convert numbers to a float64 array with `size` entries; a single number is repeated."""
    import numpy as np

    values = float_array(name, value)
    if values.shape not in {(), (1,), (size,)}:
        raise DeclarationError(f"{name} must be one number, or {size} numbers")
    return np.broadcast_to(values, (size,))


def noise_array(name: str, value: ArrayLike) -> AnyArray:
    """Convert noise or counts to an array that keeps their data type. Raise an error if they are not numbers."""
    import numpy as np

    values = np.asarray(value)
    if values.dtype.kind not in "iufb":
        raise DeclarationError(f"{name} must be an array of numbers, got {shown(value)}")
    return values


def whole_number(name: str, value: int) -> int:
    """Convert a whole number of any type to an int. Raise an error for any other value."""
    try:
        return operator.index(value)
    except TypeError:
        raise_alone(DeclarationError(f"{name} must be a whole number, got {shown(value)}"))


def secret(kind: _Kind) -> _Kind:
    """Class decorator: the repr of an instance, whose fields are secret, shows only the name of the class."""
    setattr(kind, "__repr__", lambda self: f"{type(self).__name__}()")  # noqa: B010  mypy refuses an assignment
    return kind
