-- The files beside the rounds, in no order.
--
-- in:  $series_id, or null for all
-- out: series_id, path_id (null for those of the series itself), name, size, digest

select series_id, path_id, name, size, digest
from series_file
where $series_id is null or series_id = $series_id;
