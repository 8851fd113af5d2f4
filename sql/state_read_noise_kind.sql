-- Where the noise of a path is and of which kind it is.
--
-- in:  $path_id
-- out: series_id, integer_noise

select path.series_id, path.integer_noise
from path
join series using (series_id)
where path.path_id = $path_id and series.dropped is null;
