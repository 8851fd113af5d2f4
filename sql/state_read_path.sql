-- Whose noise path this is and of which kind its noise is.
--
-- in:  $path_id
-- out: series_id, kind, integer_noise

select series_id, kind, integer_noise from path where path_id = $path_id;
