-- Every file the state vouches for; anything else beside them was left by a run that died.
--
-- in:  nothing
-- out: series_id, name

select series_id, name from series_file
union all
select path.series_id, noise_round.name from noise_round join path using (path_id);
