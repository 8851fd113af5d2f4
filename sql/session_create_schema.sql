-- The schema that holds the releases of a series.
--
-- in:  identifier series_name
-- out: nothing

create schema if not exists memory.series_name;
