-- Put cells in the place of keys; pairs without a cell go, pairs that share one become one.
-- in:  table pairs (unit, key); view cells (key, cell): one row for each key that has a cell
-- out: temp table placed (unit, key)
create temp table placed as
with source as (
    select pairs.unit, cells.cell
    from pairs
    join cells on pairs.key is not distinct from cells.key
)
select distinct unit, cell as key
from source
