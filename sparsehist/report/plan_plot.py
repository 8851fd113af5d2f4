"""The plot of a plan: from which count a key is published, and how far off it then is; needs the extra `plots`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from sparsehist.report.plots import require_plots

if TYPE_CHECKING:
    from sparsehist.series.planning import Plan


def plot_plan(plan: Plan) -> Any:
    """Draw the probability of publication and the relative error at the true counts of a plan, a point each.

    Counts are few and far apart, so that a line between them would say what is not true.

    Args:
        plan: What was planned.

    Returns:
        An altair chart of two panels.

    Raises:
        NotFoundError: If altair is not installed.
    """
    alt = require_plots()
    rows = plan.counts.filter(pl.col("count") > 0)
    data = alt.InlineData(values=rows.to_dicts())
    count = alt.X("count:Q", title="true count (units)", scale=alt.Scale(type="log", nice=False))
    colour = alt.Color("level:N", title="level", sort=plan.levels["level"].to_list())
    base = alt.Chart(data).mark_point(filled=True, size=45).properties(width=360, height=260)
    published = base.encode(
        x=count,
        y=alt.Y("probability:Q", title="probability of being published", scale=alt.Scale(domain=[0, 1])),
        color=colour,
    ).properties(title="Is a key of this count published?")
    error = base.encode(
        x=count,
        y=alt.Y("relative_error:Q", title="mean error / count", scale=alt.Scale(type="log", nice=False)),
        color=colour,
    ).properties(title="How far off is it, if it is published?")
    return (published | error).properties(background="#ffffff")
