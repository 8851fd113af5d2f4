-- Spend a new level on a noise path.
--
-- in:  $path_id, $ordinal, $level (exact text), $generation
-- out: nothing

insert into level values ($path_id, $ordinal, $level, $generation);
