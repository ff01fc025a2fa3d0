-- Which versions of its handler do a topic's jobs, where that was decided.
CREATE TABLE deployments (
    topic      TEXT    PRIMARY KEY, -- tenant/topic
    generation INTEGER NOT NULL,    -- grows by one with each change
    record     TEXT    NOT NULL     -- JSON: the two versions that it is about
) STRICT, WITHOUT ROWID;
