-- The noise paths of series, in no order.
--
-- in:  $series_id, or null for all
-- out: series_id, path_id, kind, workload, strategy, family, integer_noise

select series_id, path_id, kind, workload, strategy, family, integer_noise
from path
where $series_id is null or series_id = $series_id;
