-- Every file the state vouches for; anything else beside them was left by a run that died.
--
-- in:  nothing
-- out: series_id, name

select series_id, name from series_file
union all
select series_id, file from release where file is not null;
