"""The plot of Laplace paths: the noise at every level of an interval [KHP Figure 1]."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import polars as pl

from sparsehist.dense.laplace_path import LaplacePath
from sparsehist.report.plots import require_plots

_SHOWN = 6
_TICKS = (-30, -5, -2, -1, 0, 1, 2, 5, 30)


def path_points(path: LaplacePath, coordinates: int = _SHOWN) -> pl.DataFrame:
    """The corners of the first paths, as steps are drawn: coordinate, level, noise, angle = arctan(noise).

    Example:
        >>> from sparsehist import entropy
        >>> from sparsehist.dense import sample_laplace_path
        >>> path_points(sample_laplace_path(1, "0.1", 5, rng=entropy.seeded(1))).columns
        ['coordinate', 'level', 'noise', 'angle']
    """
    shown = min(coordinates, len(path))
    coarsest, finest = path.interval
    coordinate, levels, sizes = path.jumps()
    chosen = coordinate < shown
    ends = np.repeat(np.arange(shown), 2)
    frame = pl.DataFrame(
        {
            "coordinate": np.concatenate([ends, coordinate[chosen]]),
            "level": np.concatenate([np.tile([float(coarsest), float(finest)], shown), levels[chosen]]),
            "jump": np.concatenate([np.tile([0.0, 0.0], shown), sizes[chosen]]),
        }
    )
    at_finest = pl.DataFrame({"coordinate": np.arange(shown), "noise_there": path.evaluate(finest)[:shown]})
    # Of a step the left corner carries the value that holds from there to the next jump.
    after = pl.col("jump").reverse().cum_sum().reverse().shift(-1, fill_value=0.0).over("coordinate")
    return (
        frame.sort("coordinate", "level")
        .join(at_finest, on="coordinate", how="left", maintain_order="left")
        .with_columns(noise=pl.col("noise_there") + after)
        .with_columns(angle=pl.col("noise").arctan())
        .select("coordinate", "level", "noise", "angle")
    )


def plot_laplace_path(path: LaplacePath) -> Any:
    """Draw the first six paths over the levels, the noise on an arctangent scale.

    Noise is large at private levels and dies out at fine ones, and each path moves by few jumps. A picture of
    the noise of a real vector is as secret as the vector.

    Args:
        path: Any number of coordinates.

    Returns:
        An altair chart.

    Raises:
        NotFoundError: If altair is not installed.
    """
    alt = require_plots()
    points = path_points(path).with_columns(pl.col("coordinate").cast(pl.String))
    ticks = [math.atan(tick) for tick in _TICKS]
    words = " : ".join(
        f"abs(datum.value - {at:.6f}) < 1e-4 ? '{tick}'" for at, tick in zip(ticks, _TICKS, strict=True)
    )
    axis = alt.Axis(values=ticks, labelExpr=f"{words} : ''", labelOverlap=False)
    return (
        alt.Chart(alt.InlineData(values=points.to_dicts()))
        .mark_line(interpolate="step-after", strokeWidth=1.6)
        .encode(
            x=alt.X("level:Q", title="level ε (larger is finer)", scale=alt.Scale(nice=False)),
            y=alt.Y(
                "angle:Q",
                title="noise (arctangent scale)",
                axis=axis,
                scale=alt.Scale(domain=[-math.pi / 2, math.pi / 2], nice=False),
            ),
            color=alt.Color("coordinate:N", legend=None),
        )
        .properties(width=620, height=340, background="#ffffff", title="Laplace noise at every level, drawn at once")
    )
