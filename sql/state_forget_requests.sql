-- Keep of the releases of a series what was published, not what was asked for.
--
-- in:  $series_id
-- out: the number of rows changed

update release set request = null
where path_id in (select path_id from path where series_id = $series_id);
