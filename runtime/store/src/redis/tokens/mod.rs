//! The tokens that clients identify by.

use std::collections::{BTreeSet, HashMap};

use async_trait::async_trait;
use redis::{Value, pipe};
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

use super::clock::TimeReply;
use super::connection::slots::Origin;
use super::key_names::TokenKeys;
use super::partitions::RedisStore;
use super::script::{Call, script};
use crate::{FoundToken, StoreError, TokenAdded, TokenLookup, Tokens};
use gristmill_core::job::Name;
use gristmill_core::time::Timestamp;
use gristmill_core::token::{
    NewToken, Scope, TOKENS_PER_TENANT, Token, TokenHash, TokenId, TokenLimits, TokenRequirement,
};

/// Changes that may wait to be received.
const WAITING: usize = 1024;

/// What [`TokenKeys::requirement`] holds.
pub(super) const REQUIRED: &str = "required";
const LIFTED: &str = "lifted";

/// What is stored of a token and never changes. JSON, for people who look inside.
#[derive(Debug, Serialize, Deserialize)]
struct Record {
    hash: TokenHash,
    tenant: Option<Name>,
    scopes: BTreeSet<Scope>,
    description: String,
    created_at_ms: Timestamp,
    expires_at_ms: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    made_by: Option<TokenId>,
}

#[async_trait]
impl Tokens for RedisStore {
    async fn add_token(&self, new: &NewToken) -> Result<TokenAdded, StoreError> {
        const DOING: &str = "add a token";
        let (time,): (TimeReply,) = self.server.link.query(DOING, pipe().cmd("TIME")).await?;
        let token = new.stored_at(self.server.now(time));
        let record = Record {
            hash: new.hash,
            tenant: token.tenant.clone(),
            scopes: token.scopes.clone(),
            description: token.description.clone(),
            created_at_ms: token.created_at,
            expires_at_ms: token.expires_at,
            made_by: token.made_by.clone(),
        };
        let keys = self.token_keys();
        let of_tenant = keys.of(token.tenant.as_ref());
        let mut call =
            Call::new(script!("tokens/token_add.lua"), &[keys.all(), keys.limits(), of_tenant, keys.requirement()]);
        call.arg(token.id.as_str()).arg(self.written(DOING, &record)?).arg(self.written(DOING, &token.limits)?);
        call.arg(TOKENS_PER_TENANT).arg(keys.channel()).arg(REQUIRED);
        call.arg(token.made_by.as_ref().map_or("", TokenId::as_str));
        Ok(match self.server.link.run(DOING, vec![call]).await?.as_slice() {
            [Value::Int(1)] => TokenAdded::Added(token),
            [Value::Int(0)] => TokenAdded::Exists,
            [Value::Int(-2)] => TokenAdded::MakerGone,
            _ => TokenAdded::TooMany,
        })
    }

    async fn tokens(&self, tenant: Option<&Name>) -> Result<Vec<Token>, StoreError> {
        const DOING: &str = "list tokens";
        let keys = self.token_keys();
        let mut ask = pipe();
        match tenant {
            Some(_) => ask.cmd("SMEMBERS").arg(keys.of(tenant)),
            None => ask.cmd("HKEYS").arg(keys.all()),
        };
        let (ids,): (Vec<String>,) = self.server.link.query(DOING, &ask).await?;
        let ids: Vec<TokenId> = ids.iter().filter_map(|id| id.parse().ok()).collect();
        let mut tokens = Vec::with_capacity(ids.len());
        for ids in ids.chunks(TOKENS_PER_TENANT) {
            let (_, found) = self.look_at_tokens(DOING, ids).await?;
            tokens.extend(found.into_iter().map(|(token, _)| token));
        }
        tokens.sort_unstable_by(|a, b| (a.created_at, &a.id).cmp(&(b.created_at, &b.id)));
        Ok(tokens)
    }

    /// Several steps, because the script must know which tenant a token is of, and which tokens were made with it; neither
    /// ever changes. Once a token is removed, none can be made with it, so those that were are looked for afterwards.
    async fn revoke_token(&self, id: &TokenId) -> Result<bool, StoreError> {
        const DOING: &str = "revoke a token";
        let keys = self.token_keys();
        let (mut next, mut revoked) = (vec![id.clone()], false);
        while !next.is_empty() {
            let ids: Vec<_> = next.iter().map(TokenId::as_str).collect();
            let (records,): (Vec<Option<String>>,) =
                self.server.link.query(DOING, pipe().cmd("HMGET").arg(keys.all()).arg(&ids)).await?;
            let calls = next.iter().zip(records).filter_map(|(id, record)| Some(revoke(&keys, id, &record?))).collect();
            let replies = self.server.link.run(DOING, calls).await?;
            revoked |= replies.contains(&Value::Int(1));
            let (records,): (HashMap<String, String>,) =
                self.server.link.query(DOING, pipe().cmd("HGETALL").arg(keys.all())).await?;
            next = made_with(&next, &records);
        }
        Ok(revoked)
    }

    async fn lift_token_requirement(&self) -> Result<bool, StoreError> {
        const DOING: &str = "lift the requirement of tokens";
        let keys = self.token_keys();
        let mut call = Call::new(script!("tokens/token_lift.lua"), &[keys.all(), keys.requirement()]);
        call.arg(LIFTED);
        self.server.is_one(DOING, call).await
    }

    async fn set_token_limits(&self, id: &TokenId, limits: TokenLimits) -> Result<bool, StoreError> {
        const DOING: &str = "limit a token";
        let keys = self.token_keys();
        let mut call = Call::new(script!("tokens/token_limit.lua"), &[keys.all(), keys.limits()]);
        call.arg(id.as_str()).arg(self.written(DOING, &limits)?).arg(keys.channel());
        self.server.is_one(DOING, call).await
    }
}

#[async_trait]
impl TokenLookup for RedisStore {
    async fn find_token(&self, id: &TokenId) -> Result<Option<FoundToken>, StoreError> {
        const DOING: &str = "look for a token";
        let (now, mut found) = self.look_at_tokens(DOING, std::slice::from_ref(id)).await?;
        Ok(found.pop().and_then(|(token, hash)| FoundToken::at(now, token, hash)))
    }

    async fn token_requirement(&self) -> Result<TokenRequirement, StoreError> {
        let keys = self.token_keys();
        let mut ask = pipe();
        ask.atomic().cmd("EXISTS").arg(keys.all()).cmd("GET").arg(keys.requirement());
        let (any, said): (bool, Option<String>) = self.server.link.query("look for tokens", &ask).await?;
        Ok(match said.as_deref() {
            _ if any => TokenRequirement::Required,
            None => TokenRequirement::NeverSet,
            Some(LIFTED) => TokenRequirement::Lifted,
            Some(_) => TokenRequirement::Required,
        })
    }

    async fn require_tokens(&self) -> Result<(), StoreError> {
        let mut write = pipe();
        write.cmd("SET").arg(self.token_keys().requirement()).arg(REQUIRED);
        self.server.link.query::<Value>("require tokens", &write).await.map(drop)
    }

    /// Ends with its connection: what is published while there is none is lost.
    async fn token_changes(&self) -> Result<mpsc::Receiver<TokenId>, StoreError> {
        let (changes, receiver) = mpsc::channel(WAITING);
        let sender = changes.downgrade();
        let receive = move |_: &str, message: &[u8], _: &Origin| {
            let id = std::str::from_utf8(message).ok().and_then(|id| id.parse::<TokenId>().ok());
            // Anything else also makes the listener forget all that it knows.
            id.zip(sender.upgrade()).is_some_and(|(id, sender)| sender.try_send(id).is_ok())
        };
        let subscription = self.server.link.subscribe(&[self.token_keys().channel()], receive).await;
        let mut subscription = subscription.map_err(self.server.misread("subscribe to changes of tokens"))?;
        tokio::spawn(async move {
            tokio::select! {
                () = changes.closed() => {}
                _ = subscription.trouble() => {}
            }
        });
        Ok(receiver)
    }
}

impl RedisStore {
    fn token_keys(&self) -> TokenKeys {
        TokenKeys::new(&self.server.prefix)
    }

    /// Those that are there, in the order of their ids, each with its limits; all as of one moment. Returns that moment.
    async fn look_at_tokens(
        &self,
        doing: &'static str,
        ids: &[TokenId],
    ) -> Result<(Timestamp, Vec<(Token, TokenHash)>), StoreError> {
        let keys = self.token_keys();
        let names: Vec<_> = ids.iter().map(TokenId::as_str).collect();
        let mut ask = pipe();
        ask.atomic().cmd("TIME");
        ask.cmd("HMGET").arg(keys.all()).arg(&names).cmd("HMGET").arg(keys.limits()).arg(&names);
        type Reply = (TimeReply, Vec<Option<String>>, Vec<Option<String>>);
        let (time, records, limits): Reply = self.server.link.query(doing, &ask).await?;
        let mut found = Vec::with_capacity(ids.len());
        for (id, (record, limits)) in ids.iter().zip(records.into_iter().zip(limits)) {
            let Some(record) = record else { continue };
            let read = read(id, &record, limits.as_deref().unwrap_or_default());
            let unreadable = |error| anyhow::Error::from(error).context(format!("token {id} cannot be read"));
            found.push(read.map_err(|error: serde_json::Error| self.server.refused(doing, unreadable(error)))?);
        }
        Ok((self.server.now(time), found))
    }

    fn written(&self, doing: &'static str, value: &impl Serialize) -> Result<String, StoreError> {
        serde_json::to_string(value).map_err(|error| self.server.refused(doing, error))
    }
}

/// A record that cannot be read names no tenant; its token goes all the same.
fn revoke(keys: &TokenKeys, id: &TokenId, record: &str) -> Call {
    let tenant = serde_json::from_str::<Record>(record).ok().and_then(|record| record.tenant);
    let mut call =
        Call::new(script!("tokens/token_revoke.lua"), &[keys.all(), keys.limits(), keys.of(tenant.as_ref())]);
    call.arg(id.as_str()).arg(keys.channel());
    call
}

/// The tokens that were made with one of these.
fn made_with(makers: &[TokenId], records: &HashMap<String, String>) -> Vec<TokenId> {
    let maker = |record: &str| serde_json::from_str::<Record>(record).ok()?.made_by;
    let children = records.iter().filter(|(_, record)| maker(record).is_some_and(|maker| makers.contains(&maker)));
    children.filter_map(|(id, _)| id.parse().ok()).collect()
}

fn read(id: &TokenId, record: &str, limits: &str) -> serde_json::Result<(Token, TokenHash)> {
    let Record { hash, tenant, scopes, description, created_at_ms, expires_at_ms, made_by } =
        serde_json::from_str(record)?;
    let token = Token {
        id: id.clone(),
        tenant,
        scopes,
        description,
        created_at: created_at_ms,
        expires_at: expires_at_ms,
        limits: serde_json::from_str(limits)?,
        made_by,
    };
    Ok((token, hash))
}
