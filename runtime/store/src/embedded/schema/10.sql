-- Format 10: what the jobs of a key leave for each other.
CREATE TABLE states (
    number INTEGER PRIMARY KEY,
    tenant TEXT    NOT NULL,
    topic  TEXT    NOT NULL,
    key    TEXT    NOT NULL,
    value  BLOB    NOT NULL,
    until  INTEGER NOT NULL, -- kept until then
    UNIQUE (tenant, topic, key)
) STRICT;
CREATE INDEX states_until ON states (until);
