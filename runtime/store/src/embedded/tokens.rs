//! The tokens that clients identify by.

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, Row, params};
use tokio::sync::mpsc;

use super::fault::{Done, Fault};
use super::file::request::Weight;
use super::row::{at, limit, ms};
use super::store::EmbeddedStore;
use super::work::Work;
use crate::{FoundToken, StoreError, TokenAdded, TokenLookup, Tokens};
use gristmill_core::job::Name;
use gristmill_core::token::{NewToken, TOKENS_PER_TENANT, Token, TokenHash, TokenId, TokenLimits, TokenRequirement};

/// The columns of a token, in the order in which [`read`] reads them.
macro_rules! token_columns {
    () => {
        "SELECT id, tenant, scopes, description, created_at, expires_at, limits, hash, made_by FROM tokens "
    };
}

/// How many tokens a tenant has; without one: how many are for all tenants.
const COUNT: &str = "SELECT count(*) FROM tokens WHERE tenant IS ?1";

/// Stores a token.
const ADD: &str = "INSERT INTO tokens (id, tenant, scopes, description, created_at, expires_at, limits, hash, made_by)
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";

/// Whether there is a token with this id.
const EXISTS: &str = "SELECT 1 FROM tokens WHERE id = ?1";

/// One token.
const FIND: &str = concat!(token_columns!(), "WHERE id = ?1");

/// A tenant's tokens, or all.
const LIST: &str = concat!(token_columns!(), "WHERE tenant = ?1 OR ?1 IS NULL ORDER BY created_at, id");

/// Removes a token and those that were made with it.
const REVOKE: &str = "WITH RECURSIVE gone (id) AS (
                          SELECT id FROM tokens WHERE id = ?1
                          UNION SELECT tokens.id FROM tokens JOIN gone ON tokens.made_by = gone.id)
                      DELETE FROM tokens WHERE id IN (SELECT id FROM gone) RETURNING id";

/// Replaces a token's limits.
const LIMIT: &str = "UPDATE tokens SET limits = ?2 WHERE id = ?1";

/// Whether there is any token, and the last note on whether they are required.
const REQUIREMENT: &str = "SELECT EXISTS (SELECT 1 FROM tokens),
                                  (SELECT value FROM installation WHERE name = 'tokens')";

/// Says whether tokens are required.
const REQUIRE: &str = "INSERT INTO installation (name, value) VALUES ('tokens', ?1)
                       ON CONFLICT (name) DO UPDATE SET value = excluded.value";
const REQUIRED: &str = "required";
const LIFTED: &str = "lifted";

#[async_trait]
impl Tokens for EmbeddedStore {
    async fn add_token(&self, token: &NewToken) -> Result<TokenAdded, StoreError> {
        let token = token.clone();
        self.write("add a token", Weight::default(), move |work| add(work, &token)).await
    }

    async fn tokens(&self, tenant: Option<&Name>) -> Result<Vec<Token>, StoreError> {
        let tenant = tenant.cloned();
        self.read_list("list tokens", move |connection, _| {
            let mut list = connection.prepare_cached(LIST)?;
            let mut rows = list.query([tenant.as_ref().map(Name::as_str)])?;
            let mut tokens = Vec::new();
            while let Some(row) = rows.next()? {
                tokens.push(read(row)?.0);
            }
            Ok(tokens)
        })
        .await
    }

    async fn revoke_token(&self, id: &TokenId) -> Result<bool, StoreError> {
        let id = id.clone();
        self.write("revoke a token", Weight::default(), move |work| {
            let mut revoke = work.connection.prepare_cached(REVOKE)?;
            let revoked: Vec<String> = revoke.query_map([id.as_str()], |row| row.get(0))?.collect::<Result<_, _>>()?;
            work.tokens.extend(revoked.iter().filter_map(|id| id.parse().ok()));
            Ok(!revoked.is_empty())
        })
        .await
    }

    async fn lift_token_requirement(&self) -> Result<bool, StoreError> {
        self.write("lift the requirement of tokens", Weight::default(), |work| {
            if requirement(work.connection)?.0 {
                return Ok(false);
            }
            work.connection.prepare_cached(REQUIRE)?.execute([LIFTED])?;
            Ok(true)
        })
        .await
    }

    async fn set_token_limits(&self, id: &TokenId, limits: TokenLimits) -> Result<bool, StoreError> {
        let id = id.clone();
        self.write("limit a token", Weight::default(), move |work| {
            let limited = work.connection.prepare_cached(LIMIT)?.execute(params![id.as_str(), json(&limits)?])? > 0;
            Ok(work.changed_if(limited, &id))
        })
        .await
    }
}

#[async_trait]
impl TokenLookup for EmbeddedStore {
    async fn find_token(&self, id: &TokenId) -> Result<Option<FoundToken>, StoreError> {
        let id = id.clone();
        self.read("look for a token", move |connection, now| {
            let mut find = connection.prepare_cached(FIND)?;
            let mut rows = find.query([id.as_str()])?;
            let found = rows.next()?.map(read).transpose()?;
            Ok(found.and_then(|(token, hash)| FoundToken::at(now, token, hash)))
        })
        .await
    }

    async fn token_requirement(&self) -> Result<TokenRequirement, StoreError> {
        self.read("look for tokens", |connection, _| {
            Ok(match requirement(connection)? {
                (true, _) => TokenRequirement::Required,
                (false, None) => TokenRequirement::NeverSet,
                (false, Some(said)) if said == LIFTED => TokenRequirement::Lifted,
                (false, Some(_)) => TokenRequirement::Required,
            })
        })
        .await
    }

    async fn require_tokens(&self) -> Result<(), StoreError> {
        self.write("require tokens", Weight::default(), |work| {
            Ok(work.connection.prepare_cached(REQUIRE)?.execute([REQUIRED]).map(drop)?)
        })
        .await
    }

    async fn token_changes(&self) -> Result<mpsc::Receiver<TokenId>, StoreError> {
        Ok(self.listen_for_tokens())
    }
}

impl Work<'_> {
    /// Notes that a token is no longer what it was, and hands the answer on.
    fn changed_if(&mut self, changed: bool, id: &TokenId) -> bool {
        if changed {
            self.tokens.push(id.clone());
        }
        changed
    }
}

/// Whether there are tokens, and the last note on whether they are required.
fn requirement(connection: &Connection) -> Done<(bool, Option<String>)> {
    Ok(connection.prepare_cached(REQUIREMENT)?.query_row([], |row| Ok((row.get(0)?, row.get(1)?)))?)
}

fn add(work: &mut Work<'_>, new: &NewToken) -> Done<TokenAdded> {
    let token = new.stored_at(work.now());
    let (id, tenant) = (token.id.as_str(), token.tenant.as_ref().map(Name::as_str));
    let exists = |id: &str| work.connection.prepare_cached(EXISTS)?.query_row([id], |_| Ok(())).optional();
    if exists(id)?.is_some() {
        return Ok(TokenAdded::Exists);
    }
    let made_by = token.made_by.as_ref().map(TokenId::as_str);
    if let Some(maker) = made_by
        && exists(maker)?.is_none()
    {
        return Ok(TokenAdded::MakerGone);
    }
    let there: i64 = work.connection.prepare_cached(COUNT)?.query_row([tenant], |row| row.get(0))?;
    if there >= limit(TOKENS_PER_TENANT) {
        return Ok(TokenAdded::TooMany);
    }
    work.connection.prepare_cached(ADD)?.execute(params![
        id,
        tenant,
        json(&token.scopes)?,
        token.description,
        ms(token.created_at),
        token.expires_at.map(ms),
        json(&token.limits)?,
        new.hash.as_bytes(),
        made_by,
    ])?;
    work.connection.prepare_cached(REQUIRE)?.execute([REQUIRED])?;
    work.changed_if(true, &token.id);
    Ok(TokenAdded::Added(token))
}

fn read(row: &Row<'_>) -> Done<(Token, TokenHash)> {
    let columns = || -> anyhow::Result<_> {
        let token = Token {
            id: row.get_ref(0)?.as_str()?.parse()?,
            tenant: row.get_ref(1)?.as_str_or_null()?.map(str::parse).transpose()?,
            scopes: serde_json::from_str(row.get_ref(2)?.as_str()?)?,
            description: row.get(3)?,
            created_at: at(row.get(4)?),
            expires_at: row.get::<_, Option<i64>>(5)?.map(at),
            limits: serde_json::from_str(row.get_ref(6)?.as_str()?)?,
            made_by: row.get_ref(8)?.as_str_or_null()?.map(str::parse).transpose()?,
        };
        Ok((token, TokenHash::from_bytes(row.get_ref(7)?.as_blob()?)?))
    };
    columns().map_err(|error| Fault::Refused(format!("a token cannot be read: {error}")))
}

fn json(value: &impl serde::Serialize) -> Done<String> {
    serde_json::to_string(value).map_err(|error| Fault::Refused(format!("a token cannot be written: {error}")))
}
