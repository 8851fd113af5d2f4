-- Make a population known, once.
--
-- in:  $name, $created
-- out: nothing

insert into population
select $name, $created
where $name not in (select name from population);
