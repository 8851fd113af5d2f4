-- Which store this is, how far it has come and where it is known.
--
-- in:  nothing
-- out: format_version, store_id, generation, inode, home, publications (list of directories)

select
    format_version,
    store_id,
    generation,
    inode,
    home,
    coalesce((select list(directory) from publication), []) as publications
from store;
