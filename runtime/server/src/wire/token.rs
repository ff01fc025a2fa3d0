//! Tokens.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use gristmill_core::job::Name;
use gristmill_core::json;
use gristmill_core::token::{self, Scope, Token, TokenHash, TokenLimits};

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
    #[serde(
        rename = "expires_in_ms",
        default,
        skip_serializing_if = "Option::is_none",
        with = "json::optional_wait_ms"
    )]
    pub(crate) expires_in: Option<Duration>,
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

/// `DELETE /v1/tokens`: false while there are tokens.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct RequirementLifted {
    pub(crate) lifted: bool,
}

impl From<&token::NewToken> for NewToken {
    fn from(new: &token::NewToken) -> Self {
        Self {
            tenant: new.tenant.clone(),
            all_tenants: new.tenant.is_none(),
            scopes: new.scopes.clone(),
            description: new.description.clone(),
            limits: new.limits,
            expires_in: new.expires_in,
            sha256: Some(new.hash),
        }
    }
}

impl NewToken {
    /// The token, once its tenant and its text are known.
    pub(crate) fn hashed(self, tenant: Option<Name>, hash: TokenHash) -> token::NewToken {
        let Self { scopes, description, limits, expires_in, .. } = self;
        token::NewToken { hash, tenant, scopes, description, limits, expires_in, made_by: None }
    }
}
