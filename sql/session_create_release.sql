-- A release as a table of a session, in place of the one of that name.
--
-- in:  table release_arriving, identifiers series_name and release_name
-- out: nothing

create or replace table memory.series_name.release_name as
select * from release_arriving;
