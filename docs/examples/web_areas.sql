-- Numbers of visitors by area of a web site, from the log in this package.
-- Run it in the checkout, where data/ is:
--
--   sparsehist run docs/examples/web_areas.sql --store web.sparsehist

create series if not exists areas
    with (
        unit = user_id,
        key = url,
        max_keys = 20,
        domain = catalogue(file='data/msweb_catalogue.csv', column='url'),
        cap = 1
    )
    as select user_id, url from read_csv('data/msweb_1998.csv', auto_detect = false, header = true,
        columns = {'user_id': 'VARCHAR', 'url': 'VARCHAR'});

plan from areas at level 0.01, 0.1, 1;
release weekly from areas at level 0.1 expecting 1 false keys;

-- The catalogue of areas is public, so it may be joined to the release.
select catalogue.title, weekly.noisy_count
from areas.weekly as weekly
join read_csv('data/msweb_catalogue.csv') as catalogue on catalogue.url = weekly.url
order by weekly.noisy_count desc limit 10;
