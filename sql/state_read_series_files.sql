-- The files written when series were created, in no order.
--
-- in:  $series_id, or null for all
-- out: series_id, name, size, digest

select series_id, name, size, digest
from series_file
where $series_id is null or series_id = $series_id;
