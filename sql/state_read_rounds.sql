-- The random ids of all rounds ever committed, those of dropped series included.
--
-- in:  nothing
-- out: round

select metadata::json ->> 'round' as round from release;
