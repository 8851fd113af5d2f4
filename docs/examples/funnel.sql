-- A funnel: numbers of people who bought a product, by product and country.
--
--   sparsehist run docs/examples/funnel.sql --store shop.sparsehist

-- A generated shop: visits of people, and two public tables.
copy (
    select
        person as user_id,
        step,
        person % 40 as product_id,
        case person % 3 when 0 then 'DE' when 1 then 'US' else 'FR' end as country_code,
        timestamp '2024-03-01' + to_hours(person % 600) as happened
    from range(6000) as people(person), (values ('seen'), ('basket'), ('bought')) as steps(step)
    where step = 'seen' or (step = 'basket' and person % 2 = 0) or person % 5 = 0
) to 'visits.parquet' (format parquet);

create table products as select id as product_id, 'product ' || id as product from range(40) as ids(id);

create table countries as
select * from (values ('DE', 'Germany'), ('FR', 'France'), ('US', 'United States')) as listed(country_code, country);

-- Each row of the view depends on one row of one person, and on the two public tables.
create view bought as
select visits.user_id, products.product, countries.country
from read_parquet('visits.parquet') as visits
join products on visits.product_id = products.product_id
join countries on visits.country_code = countries.country_code
where visits.step = 'bought' and visits.happened < timestamp '2024-03-22';

create series if not exists sales
    with (
        unit = user_id,
        key = (country, product),
        max_keys = 4,
        domain = 'product(country=catalogue(''Germany'', ''France'', ''United States''), product=strings(max_bytes=12))',
        public_tables = (products, countries),
        cap = 2
    )
    as select user_id, country, product from bought;

release weekly from sales at level 1 expecting 1 false keys;

select country, count(*) as products, sum(noisy_count) as bought
from sales.weekly group by country order by bought desc;
