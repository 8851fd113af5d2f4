"""The types of arrays, each named once; reading the arrays of a caller; how classes of secrets print.

Only a type checker imports numpy for them: many commands of the command line never come to use it.
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
ByteArray: TypeAlias = "NDArray[np.uint8]"
FloatArray: TypeAlias = "NDArray[np.float64]"
IndexArray: TypeAlias = "NDArray[np.intp]"
IntArray: TypeAlias = "NDArray[np.int64]"
WordArray: TypeAlias = "NDArray[np.uint64]"

_Kind = TypeVar("_Kind", bound=type)


def float_array(name: str, value: ArrayLike) -> FloatArray:
    """The numbers as an array of doubles; other values are refused by their type, since numpy's errors quote them."""
    import numpy as np

    try:
        return np.asarray(value, np.float64)
    except (TypeError, ValueError, OverflowError):
        raise_alone(DeclarationError(f"{name} must be numbers, got {shown(value)}"))


def float_entries(name: str, value: ArrayLike, size: int) -> FloatArray:
    """Convert to a float array with `size` entries; a single number is repeated."""
    import numpy as np

    values = float_array(name, value)
    if values.shape not in {(), (1,), (size,)}:
        raise DeclarationError(f"{name} must be one number, or one for each of {size} entries")
    return np.broadcast_to(values, (size,))


def noise_array(name: str, value: ArrayLike) -> AnyArray:
    """Noise or counts as an array of integers or doubles, whichever they are; other values are refused."""
    import numpy as np

    values = np.asarray(value)
    if values.dtype.kind not in "iufb":
        raise DeclarationError(f"{name} must be an array of numbers, got {shown(value)}")
    return values


def whole_number(name: str, value: int) -> int:
    """Return a whole number of any type; other values are refused by their type."""
    try:
        return operator.index(value)
    except TypeError:
        raise_alone(DeclarationError(f"{name} must be a whole number, got {shown(value)}"))


def secret(kind: _Kind) -> _Kind:
    """Let a class whose fields are secret print as its name alone."""
    setattr(kind, "__repr__", lambda self: f"{type(self).__name__}()")  # noqa: B010  a type checker refuses it else
    return kind
