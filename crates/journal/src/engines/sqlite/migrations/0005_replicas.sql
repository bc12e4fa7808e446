-- The processes that take runs of others, and until when each certainly lives.

CREATE TABLE replicas (
    owner       TEXT PRIMARY KEY,               -- its name in leases
    machine     TEXT NOT NULL,
    alive_until ANY NOT NULL
) STRICT, WITHOUT ROWID;
