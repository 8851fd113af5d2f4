-- Claim the next generation; no row is changed when somebody else did so first.
--
-- in:  $seen: the generation this transaction builds on
-- out: the number of rows changed, 1 or 0

update store set generation = generation + 1 where generation = $seen;
