-- Format 2: tokens. Their texts are in no column: the hash is enough to recognise one.
CREATE TABLE tokens (
    id          TEXT    PRIMARY KEY, -- the first 16 hex digits of the hash
    hash        BLOB    NOT NULL,    -- SHA-256 of the text
    tenant      TEXT,                -- absent: all tenants
    scopes      TEXT    NOT NULL,    -- JSON: ["push","read"]
    description TEXT    NOT NULL,
    created_at  INTEGER NOT NULL,
    expires_at  INTEGER,             -- absent: never
    limits      TEXT    NOT NULL     -- JSON
) STRICT, WITHOUT ROWID;
CREATE INDEX tokens_by_tenant ON tokens (tenant);
