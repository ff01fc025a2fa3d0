-- What the host answered attempts at jobs: opaque bytes, kept for a time.
CREATE TABLE recordings (
    number    INTEGER PRIMARY KEY, -- the latest have the greatest
    tenant    TEXT    NOT NULL,
    topic     TEXT    NOT NULL,
    id        TEXT    NOT NULL, -- the job's
    until     INTEGER NOT NULL, -- kept until then
    recording BLOB    NOT NULL,
    UNIQUE (tenant, topic, id)
) STRICT;
CREATE INDEX recordings_until ON recordings (until);
-- Which of a topic go first.
CREATE INDEX recordings_oldest ON recordings (tenant, topic, until);

-- How many bytes each topic has, so that no recording costs a look at all the others. Triggers keep it.
CREATE TABLE recording_bytes (
    tenant TEXT    NOT NULL,
    topic  TEXT    NOT NULL,
    bytes  INTEGER NOT NULL,
    PRIMARY KEY (tenant, topic)
) STRICT, WITHOUT ROWID;
CREATE TRIGGER recording_kept AFTER INSERT ON recordings BEGIN
    INSERT INTO recording_bytes (tenant, topic, bytes) VALUES (new.tenant, new.topic, length(new.recording))
        ON CONFLICT (tenant, topic) DO UPDATE SET bytes = bytes + excluded.bytes;
END;
CREATE TRIGGER recording_dropped AFTER DELETE ON recordings BEGIN
    UPDATE recording_bytes SET bytes = bytes - length(old.recording) WHERE tenant = old.tenant AND topic = old.topic;
END;
