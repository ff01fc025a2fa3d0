-- What the host answered attempts at jobs: opaque bytes, kept for a time.
CREATE TABLE recordings (
    number    INTEGER PRIMARY KEY, -- the latest have the greatest
    tenant    TEXT    NOT NULL,
    topic     TEXT    NOT NULL,
    id        TEXT    NOT NULL, -- the job's
    until     INTEGER NOT NULL, -- kept until then
    recording BLOB    NOT NULL,
    UNIQUE (tenant, topic, id)
) STRICT;
CREATE INDEX recordings_until ON recordings (until);
