-- Distinct (unit, key) pairs of the log.
-- in:  view log (unit, key)
-- out: temp table pairs (unit, key); nulls and empty texts still in it
create temp table pairs as
with source as (
    select unit, key
    from log
)
select distinct unit, key
from source
