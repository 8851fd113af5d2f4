-- Vouch for the files of a series, or for the attachments of one of its noise paths.
--
-- in:  $series_id; $names, $sizes, $digests: lists of equal length; $path_id or null
-- out: nothing

insert into series_file
select
    $series_id,
    unnest($names::varchar[]),
    unnest($sizes::bigint[]),
    unnest($digests::varchar[]),
    $path_id;
