-- Format 6: limits that hold for all claims of a topic together.

-- Its limits keep ready jobs in line: until then, or, if it is -1, until a running job ends. Absent: they do not.
ALTER TABLE topics ADD COLUMN limited_until INTEGER;

-- When as many of its jobs may start at once as ever, in microseconds; 0 of a topic without a rate.
ALTER TABLE topics ADD COLUMN rate_full_at INTEGER NOT NULL DEFAULT 0;
