-- Format 13: rates of keys.

-- When the bucket of a key is full again, in microseconds since 1970, of topics whose keys have a rate. A row is deleted once that time
-- has passed. Of a job that the rate of its key held back and that has not started since, `slot` of `job_rows` is 2.
CREATE TABLE key_rates (
    tenant  TEXT    NOT NULL,
    topic   TEXT    NOT NULL,
    key     TEXT    NOT NULL,
    full_at INTEGER NOT NULL,
    PRIMARY KEY (tenant, topic, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX key_rates_full_at ON key_rates (full_at);
