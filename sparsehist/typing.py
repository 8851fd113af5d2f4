"""Define types of arrays, convert a caller's numbers, and hide secrets in the repr of classes.

Only type checkers import numpy for the types, because many commands of the command line never need numpy.
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
    """Convert numbers to a float64 array. Errors show only the type of a wrong value, because it may be secret."""
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
        raise DeclarationError(f"{name} must be one number, or one for each of {size} entries")
    return np.broadcast_to(values, (size,))


def noise_array(name: str, value: ArrayLike) -> AnyArray:
    """Convert noise or counts to an array without changing their type; refuse values that are not numbers."""
    import numpy as np

    values = np.asarray(value)
    if values.dtype.kind not in "iufb":
        raise DeclarationError(f"{name} must be an array of numbers, got {shown(value)}")
    return values


def whole_number(name: str, value: int) -> int:
    """Return a whole number of any type as an int; refuse other values."""
    try:
        return operator.index(value)
    except TypeError:
        raise_alone(DeclarationError(f"{name} must be a whole number, got {shown(value)}"))


def secret(kind: _Kind) -> _Kind:
    """Make the repr of a class with secret fields show only the name of the class."""
    setattr(kind, "__repr__", lambda self: f"{type(self).__name__}()")  # noqa: B010  mypy refuses an assignment
    return kind
