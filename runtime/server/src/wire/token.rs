//! Tokens.

use std::collections::BTreeSet;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use gristmill_core::job::Name;
use gristmill_core::json::{self, at_most};
use gristmill_core::token::{self, DESCRIPTION_BYTES, Scope, Token, TokenHash, TokenLimits};

/// The most scopes that a document lists.
const SCOPES: usize = Scope::ALL.len();

/// A token to make.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewToken {
    /// The tenant of the jobs that it is for. May be left out where the path names the tenant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) tenant: Option<Name>,
    /// For all tenants, in place of `tenant`.
    #[serde(default)]
    pub(crate) all_tenants: bool,
    #[serde(deserialize_with = "at_most::set::<SCOPES, _, _>")]
    pub(crate) scopes: BTreeSet<Scope>,
    /// For people. At most 1024 bytes.
    #[serde(default)]
    #[schemars(length(max = DESCRIPTION_BYTES))]
    pub(crate) description: String,
    #[serde(default)]
    pub(crate) limits: TokenLimits,
    /// How long it is valid. Left out: until it is revoked.
    #[serde(rename = "expires_in_ms", default, skip_serializing_if = "Option::is_none", with = "json::OptionalWaitMs")]
    #[schemars(with = "Option<u64>")]
    pub(crate) expires_in: Option<Duration>,
    /// The hash of a text that the client has made. Left out: the server makes the text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) sha256: Option<TokenHash>,
}

/// The token, and, if the server made it, its text, this once.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct NewTokenAnswer {
    /// Left out if the client made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) text: Option<String>,
    pub(crate) token: Token,
    /// That it allows nothing, or that nothing else knows its tenant.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) warnings: Vec<String>,
}

/// The oldest first, without their texts.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Tokens {
    pub(crate) tokens: Vec<Token>,
}

/// Whether there was such a token.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Revoked {
    pub(crate) revoked: bool,
}

/// Whether requests need no token any more: `false` while there are tokens.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
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
