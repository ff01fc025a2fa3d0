-- Format 3. Where tenants live, where this store is home to several.
CREATE TABLE placements (
    tenant     TEXT    PRIMARY KEY,
    generation INTEGER NOT NULL, -- grows by one with each change
    record     TEXT    NOT NULL  -- JSON: the store, the one it is moving out of, and those that it lived in before
) STRICT, WITHOUT ROWID;
