-- Vouch for the files of a series.
--
-- in:  $series_id; $names, $sizes, $digests: lists of equal length
-- out: nothing

insert into series_file
select
    $series_id,
    unnest($names::varchar[]),
    unnest($sizes::bigint[]),
    unnest($digests::varchar[]);
