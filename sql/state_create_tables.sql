-- The tables of a store's state.
--
-- in:  nothing
-- out: nothing
--
-- Names of families, kinds and levels are text whose meaning never changes; times are UTC. What a table is appended
-- to for is said beside it. Arrays (tracked cells, noise) stand in files beside the database: `noise_round` vouches
-- for them.

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
    dropped     timestamp
);

create table series_file (              -- files written when the series was created
    series_id varchar not null,
    name      varchar not null,
    size      bigint  not null,         -- bytes
    digest    varchar not null          -- SHA-256, hex
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

create table level (                    -- appended; numbered within a path by the order in which they were spent
    path_id    integer not null,
    ordinal    integer not null,
    level      varchar not null,        -- exact
    generation bigint  not null
);

create table release (                  -- appended; several may stand on one level
    release_id integer not null,
    path_id    integer not null,
    ordinal    integer not null,        -- of its level
    name       varchar not null,
    threshold  double  not null,        -- the effective one
    request    varchar,                 -- JSON; what was asked for
    metadata   varchar not null,        -- JSON; what was published beside the rows
    generation bigint  not null,
    released   timestamp not null
);

create table noise_round (              -- appended; one for each release, deleted with its series
    path_id    integer not null,
    generation bigint  not null,
    name       varchar not null,        -- of the file
    size       bigint  not null,
    digest     varchar not null,
    n_past     bigint  not null,        -- cells tracked before
    n_new      bigint  not null,
    n_empty    bigint  not null,        -- how many of the new ones are empty
    n_levels   integer not null,        -- spent by then, this round's included
    spends     boolean not null         -- whether this round spent a new one
);

create table event (                    -- appended only, never rewritten: who did what, when
    event_id   integer not null,
    happened   timestamp not null,
    who        varchar not null,
    what       varchar not null,        -- 'create store', 'create series', 'release', 'drop series', 'adopt store'
    series_id  varchar,
    path_id    integer,
    level      varchar,
    generation bigint  not null
);

create table publication (              -- directories with a public ledger that knows this store
    directory varchar not null
);
