-- What the host answered attempts at jobs: opaque bytes, kept for a time.
CREATE TABLE recordings (
    number    INTEGER PRIMARY KEY, -- the latest have the greatest
    topic     INTEGER NOT NULL, -- the number of a recorded topic
    id        TEXT    NOT NULL, -- the job's
    until     INTEGER NOT NULL, -- kept until then
    recording BLOB    NOT NULL,
    UNIQUE (topic, id)
) STRICT;
-- Which of a topic go first.
CREATE INDEX recordings_oldest ON recordings (topic, until);

-- The topics that have some, with how many bytes, so that no recording costs a look at all the others. What writes and deletes
-- recordings counts: a trigger would have SQLite copy each page that a statement changes.
CREATE TABLE recorded_topics (
    number INTEGER PRIMARY KEY,
    tenant TEXT    NOT NULL,
    topic  TEXT    NOT NULL,
    bytes  INTEGER NOT NULL,
    UNIQUE (tenant, topic)
) STRICT;
