-- Remember a directory with a public ledger that knows this store.
--
-- in:  $directory: absolute path
-- out: nothing

insert into publication
select $directory
where $directory not in (select directory from publication);
