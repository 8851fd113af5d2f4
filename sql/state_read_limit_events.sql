-- Who declared which limit, when, in order: the events that a release is held against.
--
-- in:  nothing
-- out: number, generation, happened (UTC), who, what, series, series_id, path_id, level, population, release, reason,
--      details (JSON)

select
    event.number, event.generation, event.happened, event.who, event.what, series.name as series, event.series_id,
    event.path_id, event.level, coalesce(event.population, series.population) as population, event.release,
    event.reason, event.details
from event
left join series using (series_id)
where event.what in ('raise cap', 'set budget', 'declare disjoint')
order by event.number;
