//! Tokens.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::whole_ms;
use gristmill_core::job::Name;
use gristmill_core::time::Timestamp;
use gristmill_core::token::{self, Scope, TokenHash, TokenId, TokenLimits};

/// `POST /v1/tokens`, `POST /v1/tenants/{tenant}/tokens`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewToken {
    /// Whose jobs it is for. Where the path names the tenant, this may be left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) tenant: Option<Name>,
    /// For all tenants; said instead of a tenant, so that nobody makes such a token by leaving something out.
    #[serde(default)]
    pub(crate) all_tenants: bool,
    pub(crate) scopes: BTreeSet<Scope>,
    #[serde(default)]
    pub(crate) description: String,
    #[serde(default)]
    pub(crate) limits: TokenLimits,
    /// How long it is good for; left out: until it is revoked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) expires_in_ms: Option<u64>,
    /// The hash of a text that the other side has made itself; left out: the server makes the text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) sha256: Option<TokenHash>,
}

/// The only time that a token's text is told.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct NewTokenAnswer {
    /// Absent if the other side made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) text: Option<String>,
    pub(crate) token: Token,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Tokens {
    pub(crate) tokens: Vec<Token>,
}

/// Whether there was such a token.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Revoked {
    pub(crate) revoked: bool,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Token {
    id: TokenId,
    /// None: for all tenants.
    tenant: Option<Name>,
    scopes: BTreeSet<Scope>,
    description: String,
    created_at_ms: Timestamp,
    expires_at_ms: Option<Timestamp>,
    limits: TokenLimits,
}

impl From<&token::NewToken> for NewToken {
    fn from(new: &token::NewToken) -> Self {
        Self {
            tenant: new.tenant.clone(),
            all_tenants: new.tenant.is_none(),
            scopes: new.scopes.clone(),
            description: new.description.clone(),
            limits: new.limits,
            expires_in_ms: new.expires_in.map(whole_ms),
            sha256: Some(new.hash),
        }
    }
}

impl NewToken {
    /// The token, once its tenant and its text are known.
    pub(crate) fn hashed(self, tenant: Option<Name>, hash: TokenHash) -> token::NewToken {
        let Self { scopes, description, limits, expires_in_ms, .. } = self;
        let expires_in = expires_in_ms.map(Duration::from_millis);
        token::NewToken { hash, tenant, scopes, description, limits, expires_in }
    }
}

impl From<token::Token> for Token {
    fn from(token: token::Token) -> Self {
        let token::Token { id, tenant, scopes, description, created_at, expires_at, limits } = token;
        Self { id, tenant, scopes, description, created_at_ms: created_at, expires_at_ms: expires_at, limits }
    }
}

impl From<Token> for token::Token {
    fn from(token: Token) -> Self {
        let Token { id, tenant, scopes, description, created_at_ms, expires_at_ms, limits } = token;
        Self { id, tenant, scopes, description, created_at: created_at_ms, expires_at: expires_at_ms, limits }
    }
}
