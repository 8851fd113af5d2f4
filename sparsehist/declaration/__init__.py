"""The declaration of a series: each parameter with type, default, bounds, help and SQL word."""

from sparsehist.declaration.bounding import Keep, Share
from sparsehist.declaration.declaration import Declaration
from sparsehist.declaration.measures import Measure
from sparsehist.declaration.recurring import Every, Steps

__all__ = ["Declaration", "Every", "Keep", "Measure", "Share", "Steps"]
