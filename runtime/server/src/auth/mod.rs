//! Authentication: which token a request brings, and whether it needs one.

pub(crate) mod allowed;
pub(crate) mod identity;
pub(crate) mod origin;
pub(crate) mod token_cache;

use std::sync::Arc;

use crate::settings::HttpServerSettings;
use gristmill_core::token::TokenHash;
use gristmill_store::{Store, StoreError};
use token_cache::TokenCache;

/// Decides which requests are authenticated. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Auth {
    pub(crate) token_cache: Arc<TokenCache>,
    /// The hash of the token that the server writes down for commands on this machine.
    secret: TokenHash,
    loopback: bool,
    insecure: bool,
}

impl Auth {
    pub(crate) fn new(store: Arc<dyn Store>, secret: TokenHash, loopback: bool, settings: &HttpServerSettings) -> Self {
        Self { token_cache: Arc::new(TokenCache::new(store)), secret, loopback, insecure: settings.insecure }
    }

    /// Whether requests need no token.
    ///
    /// # Errors
    /// The store is unavailable.
    pub(crate) async fn is_open(&self) -> Result<bool, StoreError> {
        Ok((self.loopback || self.insecure) && !self.token_cache.has_any().await?)
    }

    /// Whether requests needed no token when the store last answered whether there are any.
    pub(crate) fn was_open(&self) -> bool {
        (self.loopback || self.insecure) && self.token_cache.had_none()
    }

    /// Whether the `Host` of a request must name this machine: where requests need no token.
    pub(crate) async fn minds_the_host(&self) -> bool {
        self.loopback && self.is_open().await.unwrap_or_else(|_| self.was_open())
    }

    pub(crate) fn is_own_secret(&self, hash: &TokenHash) -> bool {
        self.secret.is(hash)
    }
}
