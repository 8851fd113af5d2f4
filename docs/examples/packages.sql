-- Downloads of packages by country and day, in the shape of the public CRAN logs.
--
--   sparsehist run docs/examples/packages.sql --store packages.sparsehist --param level=1/2

-- A generated log instead of the real one; ip_id is anonymised by day, so a unit is one address on one day.
copy (
    select
        address as ip_id,
        date '2014-05-01' + cast(address % 12 as integer) as day,
        case when address % 4 = 0 then 'DE' when address % 4 = 1 then 'GB' else 'US' end as country,
        case when turn = 0 then 'ggplot2' when turn = 1 then 'Rcpp' else 'package' || (address * turn) % 900 end as package
    from range(5000) as addresses(address), range(6) as turns(turn)
) to 'downloads.parquet' (format parquet);

create series if not exists downloads
    with (
        unit = ip_id,
        key = (country, day, package),
        max_keys = 6,
        domain = product(
            country=catalogue('DE', 'GB', 'US'),
            day=dates('2014-05-01', '2014-05-12'),
            package=strings(max_bytes=16, alphabet='ascii')
        ),
        cap = 2,
        on_outside = drop
    )
    as select ip_id, country, day, package from read_parquet('downloads.parquet');

release fortnight from downloads at level $level expecting 1 false keys;

select package, sum(noisy_count) as downloads
from downloads.fortnight group by package order by downloads desc limit 5;
