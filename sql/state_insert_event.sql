-- Append to the ledger of events.
--
-- in:  $generation: after this transaction, $happened, $who, $what, $series_id, $path_id, $level (exact text or null),
--      $population, $release, $reason, $details (JSON or null)
-- out: nothing

insert into event
select
    (select coalesce(max(number), 0) + 1 from event),
    $generation, $happened, $who, $what, $series_id, $path_id, $level, $population, $release, $reason, $details;
