-- Append to the ledger of events.
--
-- in:  $happened, $who, $what, $series_id, $path_id, $level (exact text or null)
-- out: nothing

insert into event
select
    (select coalesce(max(event_id), 0) + 1 from event),
    $happened, $who, $what, $series_id, $path_id, $level,
    generation
from store;
