"""A release of a vector, which whoever holds it may pass on at coarser levels."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from types import MappingProxyType
from typing import Any

from sparsehist.dense.dense_release import DenseRelease
from sparsehist.errors import LevelOrderError
from sparsehist.noise.family import DenseFamily, NoiseArray
from sparsehist.privacy.levels import Level, as_level, level_text


class VectorRelease(DenseRelease):
    """A plain release: truth plus noise and nothing else, so that coarser ones can be made from it alone."""

    def resell(self, level: Level) -> VectorRelease:
        """Make a coarser release from this one, without the truth; each call begins a branch of its own.

        Two branches have noise of their own, so both together say more than either, though never more than this
        release; `sparsehist.dense.joint_level` says how much. For several levels that say together what the finest
        of them says, take them from one `MultipleRelease.from_release(release)`.

        Args:
            level: Coarser (smaller) than that of this release.

        Raises:
            LevelOrderError: If it is not.

        Example:
            >>> from sparsehist.noise import DiscreteLaplace
            >>> from sparsehist.series.multiple_release import MultipleRelease
            >>> bought = MultipleRelease(DiscreteLaplace(), [3, 1, 4]).release(1)
            >>> bought.resell("1/2").metadata["guarantee"].split(" ")[0]
            '0.5-DP'
        """
        from sparsehist.series.multiple_release import MultipleRelease

        if not as_level(level) < self.level:
            raise LevelOrderError(
                f"a release at level {level_text(self.level)} can only be resold at a coarser (smaller) level, "
                f"got {level!r}"
            )
        return MultipleRelease.from_release(self).release(level)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle values and parameters."""
        return _rebuilt, (self.values, self.family, self.level, dict(self.metadata))


def _rebuilt(values: NoiseArray, family: DenseFamily, level: Fraction, metadata: Mapping[str, Any]) -> VectorRelease:
    values.flags.writeable = False
    return VectorRelease(values, family, level, MappingProxyType(dict(metadata)))
