-- Register a series, unless its name is taken.
--
-- in:  $series_id, $name, $population, $declaration (JSON), $salt, $created, $unit, $max_keys
-- out: the number of rows inserted, 1 or 0

insert into series
select $series_id, $name, $population, $declaration, $salt, $created, null, $unit, $max_keys
where $name not in (select name from series where dropped is null);
