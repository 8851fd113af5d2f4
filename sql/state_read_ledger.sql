-- What was spent, by noise path, dropped series included.
--
-- in:  nothing
-- out: series, series_id, population, path_id, kind, workload, strategy, family,
--      levels (list of exact texts), n_releases, cap, first_release, last_release,
--      numerical_slack (the sum over releases), dropped, delta_infinity (joint for all releases of the path so far, so
--      that the last one's is the largest), first_generation, unit, max_keys,
--      unverified (whether the query of the log was declared to go unchecked)

with spent as (
    select
        path_id,
        list(level) filter (where spends) as levels,
        count(*) as n_releases,
        min(released) as first_release,
        max(released) as last_release,
        min(generation) as first_generation,
        sum(cast(metadata::json ->> 'numerical_slack' as double)) as numerical_slack,
        max(cast(metadata::json ->> 'delta_infinity' as double)) as delta_infinity
    from release
    group by path_id
),

unverified as (
    select distinct series_id
    from event
    where what = 'create series' and details::json ->> 'unverified' = 'true'
)

select
    series.name as series,
    series.series_id,
    series.population,
    path.path_id,
    path.kind,
    path.workload,
    path.strategy,
    path.family,
    coalesce(spent.levels, []) as levels,
    coalesce(spent.n_releases, 0) as n_releases,
    path.cap,
    spent.first_release,
    spent.last_release,
    coalesce(spent.numerical_slack, 0) as numerical_slack,
    series.dropped,
    coalesce(spent.delta_infinity, 0) as delta_infinity,
    spent.first_generation,
    series.unit,
    series.max_keys,
    series.series_id in (select series_id from unverified) as unverified
from path
join series using (series_id)
left join spent using (path_id)
order by path.path_id;
