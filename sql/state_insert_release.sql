-- Record a release and vouch for the file of its round.
--
-- in:  $path_id, $series_id, $generation, $name, $level (exact text), $spends, $threshold, $request (JSON),
--      $metadata (JSON), $released, $file, $size, $digest, $n_past, $n_new, $n_empty
-- out: nothing

insert into release values (
    $path_id, $series_id, $generation, $name, $level, $spends, $threshold, $request, $metadata, $released,
    $file, $size, $digest, $n_past, $n_new, $n_empty
);
