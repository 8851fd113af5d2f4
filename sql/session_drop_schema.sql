-- Forget the releases of a series that was dropped.
--
-- in:  identifier series_name
-- out: nothing

drop schema if exists memory.series_name cascade;
