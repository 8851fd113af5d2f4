"""Release one log with Tumult Analytics on local Spark; run by peers.py in an environment of its own."""

import sys

from pyspark.sql import SparkSession
from tmlt.analytics import (
    AddRowsWithID,
    ApproxDPBudget,
    KeySet,
    MaxGroupsPerID,
    MaxRowsPerGroupPerID,
    MaxRowsPerID,
    QueryBuilder,
    Session,
)

log, out, max_keys = sys.argv[1], sys.argv[2], int(sys.argv[3])
spark = (
    SparkSession.builder.master("local[*]")
    .config("spark.driver.memory", "8g")
    .config("spark.ui.enabled", "false")
    .config("spark.sql.shuffle.partitions", "8")
    .config("spark.sql.warehouse.dir", f"{out}.warehouse")  # not in the directory one happens to stand in
    .getOrCreate()
)
session = Session.from_dataframe(
    privacy_budget=ApproxDPBudget(1, 1e-7),
    source_id="log",
    dataframe=spark.read.parquet(log),
    protected_change=AddRowsWithID("user_id"),
)
found = session.evaluate(
    QueryBuilder("log").enforce(MaxRowsPerID(max_keys)).get_groups(["query"]), ApproxDPBudget(0.5, 5e-8)
)
counts = (
    QueryBuilder("log")
    .enforce(MaxGroupsPerID("query", max_keys))
    .enforce(MaxRowsPerGroupPerID("query", 1))
    .groupby(KeySet.from_dataframe(found))
    .count()
)
released = session.evaluate(counts, ApproxDPBudget(0.5, 5e-8))
released.write.mode("overwrite").parquet(out)
print(spark.read.parquet(out).count())
