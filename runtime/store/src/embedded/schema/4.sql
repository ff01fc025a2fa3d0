-- Format 4. What holds for the whole installation, by name.
CREATE TABLE installation (
    name  TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;
-- 'tokens': 'required' from the first token on, 'lifted' once the operator said so.
INSERT INTO installation (name, value) SELECT 'tokens', 'required' WHERE EXISTS (SELECT 1 FROM tokens);
-- The id of the token with which a token was made, with which it ends; absent: the operator made it without one.
ALTER TABLE tokens ADD COLUMN made_by TEXT;
CREATE INDEX tokens_by_maker ON tokens (made_by) WHERE made_by IS NOT NULL;
