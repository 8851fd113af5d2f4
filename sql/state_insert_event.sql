-- Append to the ledger of events.
--
-- in:  $generation: of this transaction, $happened, $who, $what, $series_id, $path_id, $level (exact text or null)
-- out: nothing

insert into event values ($generation, $happened, $who, $what, $series_id, $path_id, $level);
