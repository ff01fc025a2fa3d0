-- Format 8: jobs that wait for another job of their key.

-- What holds for the jobs of a key, as the last claim said.
ALTER TABLE topics ADD COLUMN key_slots INTEGER NOT NULL DEFAULT 1;
ALTER TABLE topics ADD COLUMN key_halts INTEGER NOT NULL DEFAULT 0; -- 1: a dead job keeps its slot

-- How many of its ready jobs wait for another job of their key.
ALTER TABLE topics ADD COLUMN waiting_for_key INTEGER NOT NULL DEFAULT 0;

DROP VIEW jobs;

-- Every job is one row from push until it is over. Its number says where it stands, so that the table itself is in the order in
-- which jobs are claimed: topic number << 43 | line << 41 | place. Lines 0, 1 and 2 hold the ready and running jobs of high, normal and
-- low priority, line 3 delayed and dead ones, and ready ones that wait for another job of their key. Places only grow, over all lines.
CREATE TABLE new_rows (
    number           INTEGER PRIMARY KEY,
    tenant           TEXT    NOT NULL,
    id               TEXT    NOT NULL,
    priority         TEXT    NOT NULL, -- high, normal, low
    delayed_until    INTEGER,          -- only of delayed jobs
    dead_since       INTEGER,          -- only of dead jobs
    lease_until      INTEGER,          -- running: until when, if its lease was extended; absent: see batches
    cancelled        INTEGER NOT NULL, -- running: 1 if a client cancelled it
    attempts         INTEGER NOT NULL, -- both without the one that is running:
    deliveries       INTEGER NOT NULL, -- how often it was claimed: only grows, and fences late settlements off
    enqueued_at      INTEGER NOT NULL,
    due_at           INTEGER NOT NULL, -- when it first became due
    unique_value     TEXT,
    unique_window_ms INTEGER,          -- absent: held until done
    key              TEXT,
    slot             INTEGER,          -- 1: it holds a slot of its key; 0: it is ready, and waits for one; absent: neither
    content_type     TEXT,
    metadata         TEXT,             -- JSON: [["name","value"], ...]
    max_attempts     INTEGER,
    ttl_ms           INTEGER,
    keep_result_ms   INTEGER,
    failure          TEXT,             -- JSON: why the last attempt failed
    checkpoint       BLOB,
    body             BLOB,             -- absent: it is large
    large            INTEGER,          -- its number in bodies
    CHECK (CASE number >> 41 & 3
        WHEN 3 THEN (delayed_until IS NOT NULL) + (dead_since IS NOT NULL) + (slot IS 0) = 1 AND lease_until IS NULL AND cancelled = 0
        ELSE coalesce(delayed_until, dead_since) IS NULL AND slot IS NOT 0 END)
) STRICT;

INSERT INTO new_rows (number, tenant, id, priority, delayed_until, dead_since, lease_until, cancelled, attempts, deliveries,
        enqueued_at, due_at, unique_value, unique_window_ms, key, content_type, metadata, max_attempts, ttl_ms,
        keep_result_ms, failure, checkpoint, body, large)
    SELECT number, tenant, id, priority, delayed_until, dead_since, lease_until, cancelled, attempts, deliveries,
        enqueued_at, due_at, unique_value, unique_window_ms, key, content_type, metadata, max_attempts, ttl_ms,
        keep_result_ms, failure, checkpoint, body, large
    FROM job_rows ORDER BY number;
DROP TABLE job_rows;
ALTER TABLE new_rows RENAME TO job_rows;

CREATE UNIQUE INDEX jobs_by_id ON job_rows (id, tenant);
CREATE INDEX jobs_delayed ON job_rows (number >> 43, delayed_until, id) WHERE delayed_until IS NOT NULL;
CREATE INDEX jobs_dead ON job_rows (number >> 43, dead_since, id) WHERE dead_since IS NOT NULL;
CREATE INDEX jobs_cancelled ON job_rows (tenant, id) WHERE cancelled = 1;
CREATE INDEX jobs_by_key ON job_rows (number >> 43, key, slot, number) WHERE slot IS NOT NULL;

-- For people: every job with its names and its state.
CREATE VIEW jobs AS
    SELECT topics.tenant AS tenant, topics.topic AS topic, id,
        CASE WHEN delayed_until IS NOT NULL THEN 'delayed' WHEN dead_since IS NOT NULL THEN 'dead'
             WHEN worker IS NOT NULL THEN 'running' ELSE 'ready' END AS state,
        priority, delayed_until, worker, coalesce(job_rows.lease_until, batches.lease_until) AS lease_until, claim,
        cancelled, dead_since, attempts + (worker IS NOT NULL) AS attempts, deliveries + (worker IS NOT NULL) AS deliveries,
        enqueued_at, due_at, unique_value, unique_window_ms, key, slot, content_type, metadata, max_attempts, ttl_ms,
        keep_result_ms, failure, checkpoint,
        coalesce(body, (SELECT bodies.body FROM bodies WHERE bodies.number = large)) AS body,
        job_rows.number AS number, topics.number AS topic_number
    FROM job_rows CROSS JOIN topics ON topics.number = job_rows.number >> 43
        LEFT JOIN batches ON first = (SELECT max(first) FROM batches WHERE first <= job_rows.number)
            AND last >= job_rows.number;
