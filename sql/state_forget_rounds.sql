-- No longer vouch for the noise of a series.
--
-- in:  $series_id
-- out: the number of rows deleted

delete from noise_round where path_id in (select path_id from path where series_id = $series_id);
