-- Format 7: schedules.

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
