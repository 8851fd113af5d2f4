"""Release one log with OpenDP's Context on Polars; run by peers.py in an environment of its own.

Same bound as ours: a user counts once for a query, and towards 20 queries. Keys are selected by delta, as OpenDP
has no declared domain. `keep="first"`: sampling the kept groups fails in version 0.16 ("multiple fields").
"""

import sys
import warnings

import opendp.prelude as dp
import polars as pl

warnings.simplefilter("ignore")
dp.enable_features("contrib")
log, out, max_keys = sys.argv[1], sys.argv[2], int(sys.argv[3])
context = dp.Context.compositor(
    data=pl.scan_parquet(log),
    privacy_unit=dp.unit_of(contributions=1, identifier="user_id"),
    privacy_loss=dp.loss_of(rho=0.1, delta=1e-7),
    split_evenly_over=1,
    margins=[dp.polars.Margin(by=(), max_length=100_000_000)],
)
query = (
    context.query()
    .truncate_num_groups(max_keys, by=["query"], keep="first")
    .truncate_per_group(1, by=["query"])
    .group_by("query")
    .agg(dp.len(signed=True))
)
released = query.release().collect()
released.write_parquet(out)
print(released.height)
