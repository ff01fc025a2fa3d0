-- Format 12: limits of tenants.

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
