-- The names of the releases of a series, over all its noise paths.
--
-- in:  $series_id
-- out: name

select name from release where series_id = $series_id;
