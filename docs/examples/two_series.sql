-- Two series on the same people: their costs add up.
--
--   sparsehist run docs/examples/two_series.sql --store people.sparsehist

copy (
    select
        person as user_id,
        case when person % 2 = 0 then 'mail' else 'maps' end as application,
        'area ' || person % 30 as area
    from range(5000) as people(person)
) to 'people.parquet' (format parquet);

create series if not exists applications
    with (unit = user_id, key = application, max_keys = 3, domain = 'strings(max_bytes=16)', population = people, cap = 1)
    as select user_id, application from read_parquet('people.parquet');

create series if not exists areas
    with (unit = user_id, key = area, max_keys = 3, domain = 'strings(max_bytes=16)', population = people, cap = 1)
    as select user_id, area from read_parquet('people.parquet');

release coarse from applications at level 0.1 expecting 1 false keys;
release fine from applications at level 0.4 expecting 1 false keys;
release coarse from areas at level 0.25 expecting 1 false keys;

-- The first series costs 0.4, the level of its finest release, and the second one 0.25: together 0.65 for these people.
show ledger;
