-- The tables of a store's state.
--
-- in:  nothing
-- out: nothing
--
-- Names of families, kinds and levels are text whose meaning never changes; times are UTC. What a table is appended
-- to for is said beside it. Arrays (tracked cells, noise) stand in files beside the database, one a round: `release`
-- vouches for them. Every query of a round is a scan of one small table: joins would cost more than they join.

create table store (                    -- one row
    format_version integer not null,
    store_id       varchar not null,
    generation     bigint  not null,    -- raised by one in every transaction that changes what was released
    inode          ubigint not null,    -- of the directory, at its home: another one is a copy
    home           varchar not null,
    created        timestamp not null
);

create table population (               -- whose costs add up
    name    varchar not null,
    created timestamp not null
);

create table series (                   -- appended; a dropped one keeps its row, without declaration and salt
    series_id   varchar not null,
    name        varchar not null,
    population  varchar not null,
    declaration varchar,                -- JSON
    salt        blob,                   -- secret
    created     timestamp not null,
    dropped     timestamp,
    unit        varchar,                -- column of the privacy unit; null where counts were bounded elsewhere
    max_keys    bigint                  -- a guarantee may depend on it, also after the series is dropped
);

create table series_file (              -- appended; files beside the rounds
    series_id varchar not null,
    name      varchar not null,
    size      bigint  not null,         -- bytes
    digest    varchar not null,         -- SHA-256, hex
    path_id   integer                   -- whose attachment it is; null if written when the series was created
);

create table path (                     -- appended; what is lossless together
    path_id       integer not null,
    series_id     varchar not null,
    kind          varchar not null,     -- 'cells' or 'workload'
    workload      varchar,
    strategy      varchar,
    family        varchar not null,
    integer_noise boolean not null,
    cap           varchar               -- exact level; of the whole series
);

create table release (                  -- appended; one row, one transaction and one file a round
    path_id    integer not null,
    series_id  varchar not null,        -- of the path
    generation bigint  not null,        -- numbers the releases of a store
    name       varchar not null,
    level      varchar not null,        -- exact; several releases may stand on one
    spends     boolean not null,        -- whether it is the first at its level: levels are numbered by these
    threshold  double  not null,        -- the effective one; minus infinity where all is published
    request    varchar,                 -- JSON; what was asked for; null once the series is dropped
    metadata   varchar not null,        -- JSON; what was published beside the rows
    released   timestamp not null,
    file       varchar,                 -- the arrays of the round; null once the series is dropped, as what follows
    size       bigint,
    digest     varchar,
    n_past     bigint,                  -- cells tracked before, or the size of a workload's state
    n_new      bigint,                  -- cells tracked since; none for a workload
    n_empty    bigint                   -- how many of these are empty
);

create table event (                    -- appended only, never rewritten: who did what, when; limits are read from it
    number     bigint  not null,        -- numbers the events of a store
    generation bigint  not null,        -- of the store after it; a refusal does not raise it
    happened   timestamp not null,
    who        varchar not null,
    what       varchar not null,        -- 'create store', 'create series', 'release', 'drop series', 'adopt store',
                                        -- 'migrate store', 'set budget', 'raise cap', 'declare disjoint', 'refuse'
    series_id  varchar,
    path_id    integer,
    level      varchar,
    population varchar,
    release    varchar,                 -- the name that was asked for
    reason     varchar,                 -- as whoever asked gave it
    details    varchar                  -- JSON; what was declared or refused: public parameters only
);

create table publication (              -- directories with a public ledger that knows this store
    directory varchar not null
);
