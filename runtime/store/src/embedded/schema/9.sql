-- Format 9: bills.

-- What a topic's attempts of a day cost.
CREATE TABLE bills (
    tenant        TEXT    NOT NULL,
    day           INTEGER NOT NULL, -- since 1970-01-01, UTC
    topic         TEXT    NOT NULL,
    until         INTEGER NOT NULL, -- when the line is dropped
    attempts      INTEGER NOT NULL,
    fuel          INTEGER NOT NULL,
    memory_kib_ms INTEGER NOT NULL,
    run_us        INTEGER NOT NULL,
    bytes_in      INTEGER NOT NULL,
    bytes_out     INTEGER NOT NULL,
    requests      INTEGER NOT NULL,
    PRIMARY KEY (tenant, day, topic)
) STRICT, WITHOUT ROWID;

CREATE INDEX bills_until ON bills (until);

-- The number of the last entry that each process added to a bill.
CREATE TABLE bill_entries (
    tenant TEXT    NOT NULL,
    writer TEXT    NOT NULL,
    number INTEGER NOT NULL,
    until  INTEGER NOT NULL, -- when it is forgotten
    PRIMARY KEY (tenant, writer)
) STRICT, WITHOUT ROWID;
