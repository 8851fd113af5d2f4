-- Who did what, when, in order.
--
-- in:  nothing
-- out: generation, happened (UTC), who, what, series, path_id, level

select event.generation, event.happened, event.who, event.what, series.name as series, event.path_id, event.level
from event
left join series using (series_id)
order by event.generation;
