-- No longer vouch for the files of a series.
--
-- in:  $series_id
-- out: the number of rows deleted

delete from series_file where series_id = $series_id;
