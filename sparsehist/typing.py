"""The types of arrays, each named once, and how classes of secrets print.

Only a type checker imports numpy for them: many commands of the command line never come to use it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

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
ComplexArray: TypeAlias = "NDArray[np.complex128]"
FloatArray: TypeAlias = "NDArray[np.float64]"
IndexArray: TypeAlias = "NDArray[np.intp]"
IntArray: TypeAlias = "NDArray[np.int64]"
WordArray: TypeAlias = "NDArray[np.uint64]"

_Kind = TypeVar("_Kind", bound=type)


def secret(kind: _Kind) -> _Kind:
    """Let a class whose fields are secret print as its name alone."""
    setattr(kind, "__repr__", lambda self: f"{type(self).__name__}()")  # noqa: B010  a type checker refuses it else
    return kind
