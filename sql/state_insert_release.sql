-- Record a release.
--
-- in:  $path_id, $ordinal, $name, $threshold, $request (JSON), $metadata (JSON), $generation, $released
-- out: nothing

insert into release
select
    (select coalesce(max(release_id), 0) + 1 from release),
    $path_id, $ordinal, $name, $threshold, $request, $metadata, $generation, $released;
