-- Format 11: jobs that wait for other jobs.

-- What a producer said of them, as JSON.
ALTER TABLE job_rows ADD COLUMN links TEXT;

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
