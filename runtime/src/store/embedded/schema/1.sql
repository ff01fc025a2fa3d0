-- Format 1. Times are whole milliseconds since the Unix epoch by the store's clock; JSON is text.

-- Topics, with what would otherwise have to be counted. A row stays when its jobs are gone.
CREATE TABLE topics (
    number     INTEGER PRIMARY KEY,
    tenant     TEXT    NOT NULL,
    topic      TEXT    NOT NULL,
    used       INTEGER NOT NULL, -- 1: it has held a job
    active     INTEGER NOT NULL, -- 1: jobs became ready, and no claim has found it empty or paused since
    paused     INTEGER NOT NULL, -- 1: nothing is handed out
    turn       INTEGER NOT NULL, -- whose turn it is, high, normal or low: a place in the list of turns
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

-- The state machine: every job is one row, in one state, from push until it is over.
CREATE TABLE jobs (
    number           INTEGER PRIMARY KEY,
    tenant           TEXT    NOT NULL,
    topic            TEXT    NOT NULL,
    topic_number     INTEGER NOT NULL,
    id               TEXT    NOT NULL,
    state            TEXT    NOT NULL, -- ready, delayed, running, dead
    priority         TEXT    NOT NULL, -- high, normal, low
    seq              INTEGER,          -- ready: its place in line; running: the order in which jobs were claimed
    delayed_until    INTEGER,
    worker           TEXT,             -- running: who holds it
    lease_until      INTEGER,          -- running: until when
    cancelled        INTEGER NOT NULL, -- running: 1 if somebody cancelled it
    dead_since       INTEGER,
    attempts         INTEGER NOT NULL,
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
    CHECK (CASE state
        WHEN 'ready' THEN seq IS NOT NULL
        WHEN 'delayed' THEN delayed_until IS NOT NULL
        WHEN 'running' THEN worker IS NOT NULL AND lease_until IS NOT NULL AND seq IS NOT NULL
        WHEN 'dead' THEN dead_since IS NOT NULL
        ELSE 0 END),
    CHECK (seq IS NULL OR state IN ('ready', 'running')),
    CHECK (delayed_until IS NULL OR state = 'delayed'),
    CHECK (worker IS NULL AND lease_until IS NULL AND cancelled = 0 OR state = 'running'),
    CHECK (dead_since IS NULL OR state = 'dead')
) STRICT;

CREATE UNIQUE INDEX jobs_by_id ON jobs (id, tenant);
-- One index for each way of walking through jobs; a job is in that of its state only.
CREATE INDEX jobs_ready ON jobs (topic_number, priority, seq) WHERE state = 'ready';
CREATE INDEX jobs_delayed ON jobs (topic_number, delayed_until, id) WHERE state = 'delayed';
CREATE INDEX jobs_running ON jobs (tenant, lease_until) WHERE state = 'running';
CREATE INDEX jobs_dead ON jobs (topic_number, dead_since, id) WHERE state = 'dead';
CREATE INDEX jobs_cancelled ON jobs (tenant, id) WHERE cancelled = 1;

-- What jobs bring. Apart, so that a job that changes its state does not have its body written anew.
CREATE TABLE bodies (
    number INTEGER PRIMARY KEY, -- that of the job
    body   BLOB NOT NULL
) STRICT;

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
