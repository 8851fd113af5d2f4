-- Leave out pairs with a null or empty unit.
-- in:  table pairs (unit, key)
-- out: the same table without them
delete from pairs
where unit is null or cast(unit as varchar) = ''
