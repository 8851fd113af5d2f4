-- What was spent, by noise path, dropped series included.
--
-- in:  nothing
-- out: series, series_id, population, path_id, kind, workload, strategy, family,
--      levels (list of exact texts), n_releases, cap, first_release, last_release, numerical_slack, dropped

with spent as (
    select
        path_id,
        list(level) filter (where spends) as levels,
        count(*) as n_releases,
        min(released) as first_release,
        max(released) as last_release,
        sum(cast(metadata::json ->> 'numerical_slack' as double)) as numerical_slack
    from release
    group by path_id
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
    series.dropped
from path
join series using (series_id)
left join spent using (path_id)
order by path.path_id;
