-- Take the secrets of a series out of its row; what it spent stays.
--
-- in:  $series_id, $dropped (UTC)
-- out: the number of rows changed

update series set declaration = null, salt = null, dropped = $dropped where series_id = $series_id;
