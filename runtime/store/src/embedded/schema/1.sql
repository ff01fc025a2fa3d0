-- Format 1. Times are whole milliseconds since the Unix epoch by the store's clock; JSON is text.

-- Topics, with what would otherwise have to be counted. A row stays for a time when its jobs are gone.
CREATE TABLE topics (
    number     INTEGER PRIMARY KEY,
    tenant     TEXT    NOT NULL,
    topic      TEXT    NOT NULL,
    used       INTEGER NOT NULL, -- 1: it has held a job
    active     INTEGER NOT NULL, -- 1: jobs became ready, and no claim has found it empty or paused since
    paused     INTEGER NOT NULL, -- 1: nothing is handed out
    turn       INTEGER NOT NULL, -- whose turn it is, high, normal or low: a place in the list of turns
    claimed_high   INTEGER NOT NULL, -- the seq that was claimed last: in its line, ready jobs stand behind it, and
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

-- The state machine: every job is one row, in one state, from push until it is over.
CREATE TABLE jobs (
    number           INTEGER PRIMARY KEY,
    tenant           TEXT    NOT NULL,
    topic            TEXT    NOT NULL,
    topic_number     INTEGER NOT NULL,
    id               TEXT    NOT NULL,
    state            TEXT    NOT NULL, -- ready, delayed, running, dead
    priority         TEXT    NOT NULL, -- high, normal, low
    seq              INTEGER,          -- ready: its place in line; running: the place that it had
    delayed_until    INTEGER,
    worker           TEXT,             -- running: the worker that holds it
    lease_until      INTEGER,          -- running: until when
    claimed_seq      INTEGER,          -- running: the order in which jobs were claimed
    cancelled        INTEGER NOT NULL, -- running: 1 if it was cancelled
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
    body             BLOB,             -- absent: it is large, and in bodies
    room             BLOB,             -- absent once it was claimed: what the claim needs, so that the row does not grow
    -- One look at what the state needs and at what it rules out: this runs whenever a job moves.
    CHECK (CASE state
        WHEN 'ready' THEN seq IS NOT NULL AND cancelled = 0
            AND coalesce(delayed_until, worker, lease_until, claimed_seq, dead_since) IS NULL
        WHEN 'delayed' THEN delayed_until IS NOT NULL AND cancelled = 0
            AND coalesce(seq, worker, lease_until, claimed_seq, dead_since) IS NULL
        WHEN 'running' THEN seq IS NOT NULL AND worker IS NOT NULL AND lease_until IS NOT NULL
            AND claimed_seq IS NOT NULL AND coalesce(delayed_until, dead_since) IS NULL
        WHEN 'dead' THEN dead_since IS NOT NULL AND cancelled = 0
            AND coalesce(seq, delayed_until, worker, lease_until, claimed_seq) IS NULL
        ELSE 0 END)
) STRICT;

CREATE UNIQUE INDEX jobs_by_id ON jobs (id, tenant);
-- One index for each way of walking through jobs. None of them names a column that a claim changes: a job keeps its place
-- in line while it runs, and a claim writes its row and nothing else.
CREATE INDEX jobs_in_line ON jobs (topic_number, priority, seq) WHERE seq IS NOT NULL;
CREATE INDEX jobs_delayed ON jobs (topic_number, delayed_until, id) WHERE delayed_until IS NOT NULL;
CREATE INDEX jobs_dead ON jobs (topic_number, dead_since, id) WHERE dead_since IS NOT NULL;
CREATE INDEX jobs_cancelled ON jobs (tenant, id) WHERE cancelled = 1;

-- What jobs bring, where it is large. Apart, so that a job that changes its state does not have its body written anew.
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
