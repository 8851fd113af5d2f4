"""Release one log with PipelineDP's local back end; run by peers.py in an environment of its own."""

import sys

import pipeline_dp
import pyarrow as pa
import pyarrow.parquet as pq

log, out, max_keys = sys.argv[1], sys.argv[2], int(sys.argv[3])
table = pq.read_table(log, columns=["user_id", "query"])
rows = list(zip(table["user_id"].to_pylist(), table["query"].to_pylist(), strict=True))
accountant = pipeline_dp.NaiveBudgetAccountant(total_epsilon=1, total_delta=1e-7)
engine = pipeline_dp.DPEngine(accountant, pipeline_dp.LocalBackend())
parameters = pipeline_dp.AggregateParams(
    metrics=[pipeline_dp.Metrics.PRIVACY_ID_COUNT],
    noise_kind=pipeline_dp.NoiseKind.GAUSSIAN,
    max_partitions_contributed=max_keys,
    max_contributions_per_partition=1,
)
columns = pipeline_dp.DataExtractors(
    privacy_id_extractor=lambda row: row[0], partition_extractor=lambda row: row[1], value_extractor=lambda _: 0
)
released = engine.aggregate(rows, parameters, columns)
accountant.compute_budgets()
found = list(released)
counts = [float(value.privacy_id_count) for _, value in found]
pq.write_table(pa.table({"query": [query for query, _ in found], "noisy_count": counts}), out)
print(len(found))
