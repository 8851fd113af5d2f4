"""The declaration of a series: the type, default, bounds, help text and SQL name of each parameter."""

from sparsehist.declaration.bounding import Keep, Share
from sparsehist.declaration.declaration import Declaration
from sparsehist.declaration.measures import Measure
from sparsehist.declaration.recurring import Every, Steps

__all__ = ["Declaration", "Every", "Keep", "Measure", "Share", "Steps"]
