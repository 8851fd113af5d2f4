-- Who did what, when, in order.
--
-- in:  nothing
-- out: event_id, happened (UTC), who, what, series, path_id, level, generation

select
    event.event_id,
    event.happened,
    event.who,
    event.what,
    series.name as series,
    event.path_id,
    event.level,
    event.generation
from event
left join series using (series_id)
order by event.event_id;
