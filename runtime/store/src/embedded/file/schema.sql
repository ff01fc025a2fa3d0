-- What is in the file. Times are whole milliseconds since the Unix epoch by the store's clock; JSON is text.

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
    -- Its limits keep ready jobs waiting: until then, or, if it is -1, until a running job ends. Absent: they do not.
    limited_until INTEGER,
    -- When as many of its jobs may start at once as ever, in microseconds; 0 of a topic without a rate.
    rate_full_at INTEGER NOT NULL DEFAULT 0,
    -- What holds for the jobs of a key, as the last claim said.
    key_slots INTEGER NOT NULL DEFAULT 1,
    key_halts INTEGER NOT NULL DEFAULT 0, -- 1: a dead job keeps its slot
    waiting_for_key INTEGER NOT NULL DEFAULT 0, -- how many of its ready jobs wait for another job of their key
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
-- low priority, line 3 delayed and dead ones, and ready ones that wait for another job of their key. Places only grow, over all lines.
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
    -- 1: it holds a slot of its key; 0: it is ready, and waits for one; 2: the rate of its key held it back, and it has not started since;
    -- absent: none of these
    slot             INTEGER,
    content_type     TEXT,
    metadata         TEXT,             -- JSON: [["name","value"], ...]
    options          TEXT,             -- JSON: what else a producer said, each by the letter that it has in Redis
    failure          TEXT,             -- JSON: why the last attempt failed
    checkpoint       BLOB,
    body             BLOB,             -- absent: it is large
    large            INTEGER,          -- its number in bodies
    killed           INTEGER NOT NULL DEFAULT 0, -- 1: a client killed the job, which is cancelled then, too
    fixed            INTEGER NOT NULL DEFAULT 0, -- 1: a person or a program has named the time due_at, which stays when the clock is set
    CHECK (CASE number >> 41 & 3
        WHEN 3 THEN (delayed_until IS NOT NULL) + (dead_since IS NOT NULL) + (slot IS 0) = 1 AND lease_until IS NULL AND cancelled = 0
        ELSE coalesce(delayed_until, dead_since) IS NULL AND slot IS NOT 0 END)
) STRICT;

CREATE UNIQUE INDEX jobs_by_id ON job_rows (id, tenant);
CREATE INDEX jobs_delayed ON job_rows (number >> 43, delayed_until, id) WHERE delayed_until IS NOT NULL;
CREATE INDEX jobs_dead ON job_rows (number >> 43, dead_since, id) WHERE dead_since IS NOT NULL;
CREATE INDEX jobs_cancelled ON job_rows (tenant, id) WHERE cancelled = 1;
CREATE INDEX jobs_by_key ON job_rows (number >> 43, key, slot, number) WHERE slot IS NOT NULL;

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
        enqueued_at, due_at, unique_value, unique_window_ms, key, slot, content_type, metadata,
        json_extract(options, '$.n') AS max_attempts, json_extract(options, '$.t') AS ttl_ms,
        json_extract(options, '$.r') AS keep_result_ms, options, failure, checkpoint,
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
    topic        TEXT,             -- of the job
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

-- When topics get jobs without a producer.
CREATE TABLE schedules (
    tenant TEXT NOT NULL,
    topic  TEXT NOT NULL,
    name   TEXT NOT NULL,
    due    INTEGER,       -- when it fires next; absent: it is paused, or no tick comes any more
    record TEXT NOT NULL, -- JSON: what it says, and what it did
    PRIMARY KEY (tenant, topic, name)
) STRICT, WITHOUT ROWID;
CREATE INDEX schedules_due ON schedules (tenant, due) WHERE due IS NOT NULL;

-- Which manifest's schedules are in force, for each topic for which a manifest has spoken.
CREATE TABLE manifest_schedules (
    tenant TEXT NOT NULL,
    topic  TEXT NOT NULL,
    record TEXT NOT NULL, -- JSON
    PRIMARY KEY (tenant, topic)
) STRICT, WITHOUT ROWID;

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

-- Lines of bills that were taken out of the file, to be added to those of another store, each with the mark with which it was.
CREATE TABLE taken_bills (
    tenant        TEXT    NOT NULL,
    day           INTEGER NOT NULL,
    topic         TEXT    NOT NULL,
    until         INTEGER NOT NULL,
    attempts      INTEGER NOT NULL,
    fuel          INTEGER NOT NULL,
    memory_kib_ms INTEGER NOT NULL,
    run_us        INTEGER NOT NULL,
    bytes_in      INTEGER NOT NULL,
    bytes_out     INTEGER NOT NULL,
    requests      INTEGER NOT NULL,
    mark          TEXT    NOT NULL,
    PRIMARY KEY (tenant, day, topic)
) STRICT, WITHOUT ROWID;

-- What the jobs of a key leave for each other.
CREATE TABLE states (
    number INTEGER PRIMARY KEY,
    tenant TEXT    NOT NULL,
    topic  TEXT    NOT NULL,
    key    TEXT    NOT NULL,
    value  BLOB    NOT NULL,
    until  INTEGER NOT NULL, -- kept until then
    version INTEGER NOT NULL DEFAULT 1, -- grows by one with each change
    UNIQUE (tenant, topic, key)
) STRICT;
CREATE INDEX states_until ON states (until);

-- A job and each of the jobs that it waits for or has waited for, as long as it is stored. The row without one is the job's own.
CREATE TABLE links (
    tenant  TEXT NOT NULL,
    waiter  TEXT NOT NULL,
    job     TEXT NOT NULL,
    ended   TEXT,             -- absent: it has not, and without a job: the batch is open. Or how: c complete, d dead, e expired,
                              -- x cancelled, u unknown; without a job: '-'
    members INTEGER NOT NULL, -- without a job: how many it waits for. Or 0
    PRIMARY KEY (tenant, waiter, job)
) STRICT, WITHOUT ROWID;

CREATE INDEX links_open ON links (tenant, waiter) WHERE ended IS NULL;
CREATE INDEX links_by_job ON links (tenant, job) WHERE coalesce(ended, 'd') = 'd';

-- How many jobs wait for one that has not ended, or did when it died. And what is left to be done once it has: `ended` says how, as in
-- links. Of a job that is gone, whose links are still to be removed, its own row in links says 'f'.
CREATE TABLE awaited (
    tenant  TEXT    NOT NULL,
    job     TEXT    NOT NULL,
    waiters INTEGER NOT NULL,
    ended   TEXT,
    PRIMARY KEY (tenant, job)
) STRICT, WITHOUT ROWID;
CREATE INDEX awaited_ended ON awaited (tenant) WHERE ended IS NOT NULL;
CREATE INDEX links_gone ON links (tenant, waiter) WHERE job = '' AND ended = 'f';

-- How far the budgets of a tenant are used, of tenants whose claims brought some in the last days, and what these are.
CREATE TABLE tenant_use (
    tenant        TEXT    NOT NULL PRIMARY KEY,
    day           INTEGER NOT NULL, -- since 1970-01-01, UTC
    jobs          INTEGER NOT NULL, -- that started in it
    hour          INTEGER NOT NULL, -- since 1970-01-01T00, UTC
    fuel          INTEGER NOT NULL, -- of attempts that ended in it
    jobs_per_day  INTEGER,
    fuel_per_hour INTEGER
) STRICT, WITHOUT ROWID;

-- When the bucket of a key is full again, in microseconds since 1970, of topics whose keys have a rate. A row is deleted once that time
-- has passed.
CREATE TABLE key_rates (
    tenant  TEXT    NOT NULL,
    topic   TEXT    NOT NULL,
    key     TEXT    NOT NULL,
    full_at INTEGER NOT NULL,
    PRIMARY KEY (tenant, topic, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX key_rates_full_at ON key_rates (full_at);

-- Jobs that have ended. A row has those of a topic that ended in one transaction and in the same way: their ids, with a space before and
-- behind each. `upto` counts the jobs of the topic that were remembered with it and before.
CREATE TABLE ended (
    topic_number INTEGER NOT NULL,
    upto         INTEGER NOT NULL,
    outcome      TEXT    NOT NULL,
    at           INTEGER NOT NULL,
    until        INTEGER NOT NULL,
    attempts     INTEGER NOT NULL,
    ids          TEXT    NOT NULL,
    PRIMARY KEY (topic_number, upto)
) STRICT, WITHOUT ROWID;
CREATE INDEX ended_until ON ended (until);

-- Who paused a topic, if that is known, and since when.
CREATE TABLE pauses (
    topic_number INTEGER NOT NULL PRIMARY KEY,
    since        INTEGER NOT NULL,
    actor        TEXT
) STRICT;

-- The store has an id, which no other has but copies of the file.
INSERT INTO installation (name, value) VALUES ('id', lower(hex(randomblob(16))));
