-- Open a noise path.
--
-- in:  $series_id, $kind, $workload, $strategy, $family, $integer_noise, $cap
-- out: path_id

insert into path
select
    (select coalesce(max(path_id), 0) + 1 from path),
    $series_id, $kind, $workload, $strategy, $family, $integer_noise, $cap
returning path_id;
