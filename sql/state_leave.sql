-- Let names mean the empty database in memory again, so that the state can be detached.
--
-- in:  nothing
-- out: nothing

use memory;
