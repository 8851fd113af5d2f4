-- No longer vouch for the noise of a series, and keep of its releases what was published, not what was asked for.
--
-- in:  $series_id
-- out: the number of rows changed

update release
set request = null, file = null, size = null, digest = null, n_past = null, n_new = null, n_empty = null
where series_id = $series_id;
