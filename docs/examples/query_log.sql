-- Release a query log at three levels for three audiences, for the cost of the finest level.
--
--   sparsehist run docs/examples/query_log.sql --store queries.sparsehist

-- A generated log instead of yours: 4,000 people with a few queries each, some of them common.
copy (
    select
        person as user_id,
        case when turn % 3 = 0 then 'weather' when turn % 3 = 1 then 'bus line ' || person % 12 else 'flat ' || turn * person end as query
    from range(4000) as people(person), range(5) as turns(turn)
) to 'query_log.parquet' (format parquet);

create series if not exists queries
    with (unit = user_id, key = query, max_keys = 20, domain = 'strings(max_bytes=32)', cap = 1)
    as select user_id, query from read_parquet('query_log.parquet');

-- Each audience has a table; all three tables together cost as much as the finest one.
release public from queries at level 0.01 expecting 1 false keys;
release partner from queries at level 0.1 expecting 1 false keys;
release internal from queries at level 0.5 threshold 80;

select
    internal.query,
    internal.noisy_count as internal, partner.noisy_count as partner, public.noisy_count as public
from queries.internal as internal
left join queries.partner as partner using (query)
left join queries.public as public using (query)
order by internal desc limit 10;

show ledger;
