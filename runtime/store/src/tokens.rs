//! Tokens of the HTTP API: what an operator does with them, and what an HTTP server asks.

use std::time::Duration;

use tokio::sync::mpsc;

use super::error::StoreError;
use super::operations::operations;
use gristmill_core::job::Name;
use gristmill_core::time::Timestamp;
use gristmill_core::token::{NewToken, Token, TokenHash, TokenId, TokenLimits, TokenRequirement};

operations! {
    primary shard:
    /// What an operator does with tokens.
    pub trait Tokens {
        /// Stores a token, and requires one of every request from then on. A text that is a token already stays what it is.
        async fn add_token(&self, token: &NewToken) -> Result<TokenAdded, StoreError>;

        /// The tokens of a tenant, or all tokens, also those that have expired. The oldest first, those of one
        /// millisecond by id.
        async fn tokens(&self, tenant: Option<&Name>) -> Result<Vec<Token>, StoreError>;

        /// Removes a token and the tokens that were made with it, directly or through others. They are refused from then
        /// on. Returns `false` if there is no such token.
        async fn revoke_token(&self, id: &TokenId) -> Result<bool, StoreError>;

        /// Requires no token any more, until one is added. Returns `false` and changes nothing while there are tokens.
        async fn lift_token_requirement(&self) -> Result<bool, StoreError>;

        /// Replaces a token's limits. False: there is no such token.
        async fn set_token_limits(&self, id: &TokenId, limits: TokenLimits) -> Result<bool, StoreError>;
    }
}

operations! {
    primary shard:
    /// What an HTTP server asks about the tokens of its clients.
    pub trait TokenLookup {
        /// The token of this id, unless it has expired.
        async fn find_token(&self, id: &TokenId) -> Result<Option<FoundToken>, StoreError>;

        /// Whether requests need a token.
        async fn token_requirement(&self) -> Result<TokenRequirement, StoreError>;

        /// Requires a token of every request from now on, also where there is none. Only [`Tokens::lift_token_requirement`] ends that.
        async fn require_tokens(&self) -> Result<(), StoreError>;

        /// The ids of tokens that are added, revoked or limited from now on, by whichever process. Closed as soon as some may
        /// have been missed: what was found before may be wrong then.
        async fn token_changes(&self) -> Result<mpsc::Receiver<TokenId>, StoreError>;
    }
}

/// What [`Tokens::add_token`] did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TokenAdded {
    /// Stored, as it is now.
    Added(Token),
    /// This text is a token already. Nothing was changed.
    Exists,
    /// The tenant has [`TOKENS_PER_TENANT`](gristmill_core::token::TOKENS_PER_TENANT) of them.
    TooMany,
    /// The token with which it was to be made is gone.
    MakerGone,
}

/// A token that is there, with what its text must hash to.
#[derive(Debug, Clone)]
pub struct FoundToken {
    /// The token.
    pub token: Token,
    /// The hash of its text.
    pub hash: TokenHash,
    /// How long it is still good for; none: until it is revoked.
    pub expires_in: Option<Duration>,
}

impl FoundToken {
    /// None: it has expired.
    pub(super) fn at(now: Timestamp, token: Token, hash: TokenHash) -> Option<Self> {
        let expires_in = token.expires_at.map(|end| end.since(now));
        (expires_in != Some(Duration::ZERO)).then_some(Self { token, hash, expires_in })
    }
}
