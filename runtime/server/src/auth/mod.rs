//! Authentication: which token a request brings, and whether it needs one.

pub(crate) mod allowed;
pub(crate) mod identity;
pub(crate) mod origin;
pub(crate) mod token_cache;
mod validity;

use std::net::IpAddr;
use std::num::NonZero;
use std::sync::Arc;

use self::identity::Identity;
use crate::limits::Guesses;
use crate::problem::Problem;
use crate::settings::HttpServerSettings;
use gristmill_core::token::TokenHash;
use gristmill_store::{Store, StoreError};
use token_cache::{KnownToken, TokenCache};

/// Different wrong tokens that an address may send in a second in the long run, and at once.
const WRONG_PER_SECOND: NonZero<u32> = NonZero::<u32>::MIN.saturating_add(9);
const WRONG_AT_ONCE: NonZero<u32> = NonZero::<u32>::MIN.saturating_add(99);

/// Decides which requests are authenticated. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Auth {
    pub(crate) token_cache: Arc<TokenCache>,
    /// The hash of the token that the server writes down for commands on this machine.
    secret: TokenHash,
    loopback: bool,
    insecure: bool,
    guesses: Arc<Guesses>,
}

impl Auth {
    pub(crate) fn new(store: Arc<dyn Store>, secret: TokenHash, loopback: bool, settings: &HttpServerSettings) -> Self {
        let guesses = Arc::new(Guesses::new(WRONG_PER_SECOND, WRONG_AT_ONCE));
        Self { token_cache: Arc::new(TokenCache::new(store)), secret, loopback, insecure: settings.insecure, guesses }
    }

    /// Finds the token with this hash, if it is valid.
    ///
    /// An address from which too many wrong tokens came has to wait with tokens about which the store must be asked. Clients
    /// behind one proxy share an address: so a token that was valid before never waits.
    ///
    /// # Errors
    /// The address has to wait, or the store cannot be asked.
    async fn find_token(&self, hash: &TokenHash, from: IpAddr) -> Result<Option<Arc<KnownToken>>, Problem> {
        if self.token_cache.is_familiar(hash) {
            return Ok(self.token_cache.find(hash).await?);
        }
        self.guesses.may_try(from)?;
        let found = self.token_cache.find(hash).await?;
        if found.is_none() {
            self.guesses.failed(from);
        }
        Ok(found)
    }

    /// Whether requests need no token.
    ///
    /// # Errors
    /// The store is unavailable.
    pub(crate) async fn is_open(&self) -> Result<bool, StoreError> {
        Ok((self.loopback || self.insecure) && !self.token_cache.is_required().await?)
    }

    /// Whether requests needed no token when the store last answered whether they do.
    pub(crate) fn was_open(&self) -> bool {
        (self.loopback || self.insecure) && self.token_cache.was_open()
    }

    /// Whether a request must come from this machine: where requests need no token.
    pub(crate) async fn takes_local_requests_only(&self) -> bool {
        self.loopback && self.is_open().await.unwrap_or_else(|_| self.was_open())
    }

    /// Whether the identity may send requests. While the store is unavailable, one that might counts as valid.
    pub(crate) async fn is_valid(&self, identity: &Identity) -> bool {
        match identity {
            Identity::Token(known) => self.token_cache.is_valid(known).await,
            Identity::Anybody => !matches!(self.token_cache.is_required().await, Ok(true)),
            Identity::Operator => true,
        }
    }

    /// Waits until the identity may send no more requests: its token ended, or it had none and requests need one now.
    async fn ended(&self, identity: &Identity) {
        match identity {
            Identity::Token(known) => self.token_cache.ended(known).await,
            Identity::Anybody => self.token_cache.required().await,
            Identity::Operator => std::future::pending().await,
        }
    }

    pub(crate) fn is_own_secret(&self, hash: &TokenHash) -> bool {
        self.secret.is(hash)
    }
}
