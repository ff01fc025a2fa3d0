-- Format 5. Times are whole milliseconds since the Unix epoch by the store's clock; JSON is text.

-- Topics, with what would otherwise have to be counted. A row stays for a time when its jobs are gone.
CREATE TABLE topics (
    number     INTEGER PRIMARY KEY,
    tenant     TEXT    NOT NULL,
    topic      TEXT    NOT NULL,
    used       INTEGER NOT NULL, -- 1: it has held a job
    active     INTEGER NOT NULL, -- 1: jobs became ready, and no claim has found it empty or paused since
    paused     INTEGER NOT NULL, -- 1: nothing is handed out
    turn       INTEGER NOT NULL, -- whose turn it is, high, normal or low: a place in the list of turns
    claimed_high   INTEGER NOT NULL, -- the number of the job that was claimed last: ready jobs of the line stand behind it,
    claimed_normal INTEGER NOT NULL, -- running ones at it or before
    claimed_low    INTEGER NOT NULL,
    next_due   INTEGER,          -- the earliest delayed_until of its jobs
    ready      INTEGER NOT NULL, -- how many of its jobs are where
    delayed    INTEGER NOT NULL,
    running    INTEGER NOT NULL,
    dead       INTEGER NOT NULL,
    changed_at INTEGER NOT NULL, -- when this row was last written
    UNIQUE (tenant, topic)
) STRICT;

-- What became of jobs, in numbers: pushed, acked, retried, dead-timeout, ...
CREATE TABLE totals (
    topic_number INTEGER NOT NULL,
    name         TEXT    NOT NULL,
    n            INTEGER NOT NULL,
    PRIMARY KEY (topic_number, name)
) STRICT, WITHOUT ROWID;

-- Every job is one row from push until it is over. Its number says where it stands, so that the table itself is in the order in
-- which jobs are claimed: topic number << 43 | line << 41 | place. Lines 0, 1 and 2 hold the ready and running jobs of high, normal and
-- low priority, line 3 delayed and dead ones. Places only grow, over all lines.
CREATE TABLE job_rows (
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
        WHEN 3 THEN (delayed_until IS NULL) <> (dead_since IS NULL) AND lease_until IS NULL AND cancelled = 0
        ELSE coalesce(delayed_until, dead_since) IS NULL END)
) STRICT;

CREATE UNIQUE INDEX jobs_by_id ON job_rows (id, tenant);
CREATE INDEX jobs_delayed ON job_rows (number >> 43, delayed_until, id) WHERE delayed_until IS NOT NULL;
CREATE INDEX jobs_dead ON job_rows (number >> 43, dead_since, id) WHERE dead_since IS NOT NULL;
CREATE INDEX jobs_cancelled ON job_rows (tenant, id) WHERE cancelled = 1;

-- What claims took: a row for each line that a claim took jobs from. Rows of job_rows from its first to its last are running; a
-- job that ends has no row, and one that is put back gets a new place. A batch of which no job is left has no row.
CREATE TABLE batches (
    first       INTEGER PRIMARY KEY, -- numbers of job_rows
    last        INTEGER NOT NULL,
    claim       INTEGER NOT NULL,    -- grows from claim to claim, also over restarts
    worker      TEXT    NOT NULL,
    lease_until INTEGER NOT NULL
) STRICT;

-- What jobs bring, where it is large. Apart, so that a job that changes its place does not have its body written anew.
CREATE TABLE bodies (
    number INTEGER PRIMARY KEY, -- the first number that the job had
    body   BLOB NOT NULL
) STRICT;

-- For people: every job with its names and its state.
CREATE VIEW jobs AS
    SELECT topics.tenant AS tenant, topics.topic AS topic, id,
        CASE WHEN delayed_until IS NOT NULL THEN 'delayed' WHEN dead_since IS NOT NULL THEN 'dead'
             WHEN worker IS NOT NULL THEN 'running' ELSE 'ready' END AS state,
        priority, delayed_until, worker, coalesce(job_rows.lease_until, batches.lease_until) AS lease_until, claim,
        cancelled, dead_since, attempts + (worker IS NOT NULL) AS attempts, deliveries + (worker IS NOT NULL) AS deliveries,
        enqueued_at, due_at, unique_value, unique_window_ms, key, content_type, metadata, max_attempts, ttl_ms,
        keep_result_ms, failure, checkpoint,
        coalesce(body, (SELECT bodies.body FROM bodies WHERE bodies.number = large)) AS body,
        job_rows.number AS number, topics.number AS topic_number
    FROM job_rows CROSS JOIN topics ON topics.number = job_rows.number >> 43
        LEFT JOIN batches ON first = (SELECT max(first) FROM batches WHERE first <= job_rows.number)
            AND last >= job_rows.number;

-- Who holds a unique value of a topic.
CREATE TABLE uniques (
    topic_number INTEGER NOT NULL,
    value        TEXT    NOT NULL,
    holder       TEXT    NOT NULL, -- the job's id
    until        INTEGER,          -- absent: until the job is done
    PRIMARY KEY (topic_number, value)
) STRICT, WITHOUT ROWID;
CREATE INDEX uniques_until ON uniques (until) WHERE until IS NOT NULL;

-- What became of jobs whose result is kept, whether or not they are still here.
CREATE TABLE results (
    number       INTEGER PRIMARY KEY,
    tenant       TEXT    NOT NULL,
    id           TEXT    NOT NULL,
    end          TEXT    NOT NULL, -- complete, dead, expired, cancelled
    attempts     INTEGER NOT NULL,
    until        INTEGER NOT NULL, -- kept until then
    payload      BLOB,
    content_type TEXT,
    failure      TEXT,             -- JSON
    UNIQUE (tenant, id)
) STRICT;
CREATE INDEX results_until ON results (until);

-- Runner processes and their last sign of life.
CREATE TABLE workers (
    worker TEXT PRIMARY KEY,
    seen   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Jobs taken in from another store that has not let go of them yet.
CREATE TABLE moved (
    tenant      TEXT NOT NULL,
    id          TEXT NOT NULL,
    enqueued_at INTEGER NOT NULL,
    PRIMARY KEY (tenant, id)
) STRICT, WITHOUT ROWID;

-- Who may come in. What their holders say is in no column: the hash is enough to know it again.
CREATE TABLE tokens (
    id          TEXT    PRIMARY KEY, -- the first 16 hex digits of the hash
    hash        BLOB    NOT NULL,    -- SHA-256 of the text
    tenant      TEXT,                -- absent: all tenants
    scopes      TEXT    NOT NULL,    -- JSON: ["push","read"]
    description TEXT    NOT NULL,
    created_at  INTEGER NOT NULL,
    expires_at  INTEGER,             -- absent: never
    limits      TEXT    NOT NULL,    -- JSON
    made_by     TEXT                 -- the id of the token with which it was made, with which it ends; absent: the operator made it without one
) STRICT, WITHOUT ROWID;
CREATE INDEX tokens_by_tenant ON tokens (tenant);
CREATE INDEX tokens_by_maker ON tokens (made_by) WHERE made_by IS NOT NULL;

-- Where tenants live, where this store is home to several.
CREATE TABLE placements (
    tenant     TEXT    PRIMARY KEY,
    generation INTEGER NOT NULL, -- grows by one with each change
    record     TEXT    NOT NULL  -- JSON: the store, the one it is moving out of, and those that it lived in before
) STRICT, WITHOUT ROWID;

-- What holds for the whole installation, by name.
-- 'tokens': 'required' from the first token on, 'lifted' once the operator said so.
CREATE TABLE installation (
    name  TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;
