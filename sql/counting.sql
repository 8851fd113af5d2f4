-- What counting runs on DuckDB: the portable order of keys.
--
-- Keys and units are columns of these names whatever the log calls them.


-- name: count_first
-- Which of some pairs are among the first of their unit, in the portable order.
-- in:  view pairs (place, number, unit, key), distinct pairs, those of a unit under one number; macro salted_hash
--      $most_keys (bigint), $salt (blob)
-- out: kept (boolean), by place
with source as (
    select place, number, key, salted_hash($salt, unit, key) as hash
    from pairs
),

placed_in_order as (
    select place, row_number() over (partition by number order by hash, key) as nth
    from source
)

select nth <= $most_keys as kept
from placed_in_order
order by place;
