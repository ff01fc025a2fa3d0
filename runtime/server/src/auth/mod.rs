//! Authentication: which token a request brings, and whether it needs one.

pub(crate) mod allowed;
pub(crate) mod identity;
pub(crate) mod origin;
pub(crate) mod token_cache;

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::problem::Code;
use crate::settings::HttpServerSettings;
use crate::state::AppState;
use gristmill_core::token::TokenHash;
use gristmill_store::{Store, StoreError};
use identity::Identity;
use token_cache::TokenCache;

/// Answers as long as the store was last known to have no tokens, also while the store is unavailable.
const METRICS: &str = "/metrics";

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
    fn was_open(&self) -> bool {
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

/// Authenticates a request and counts it against the limits of its token and tenant. Health needs no token; lmstfy's paths
/// authenticate by themselves.
pub(crate) async fn enter(State(state): State<AppState>, mut request: Request, next: Next) -> Response {
    let path = request.uri().path();
    let measures = path == METRICS;
    let (health, ours) = (matches!(path, "/healthz" | "/readyz"), asks_for_tokens(path));
    if health {
        return next.run(request).await;
    }
    let host = origin::check_host(&request);
    if let (true, Err(problem)) = (state.auth.minds_the_host().await, host) {
        return problem.into_response();
    }
    if !ours {
        return next.run(request).await;
    }
    let identity = match identity::identify(&state, request.headers()).await {
        // Monitoring must see that the store is unavailable.
        Err(problem) if problem.code == Code::StoreAway && measures && state.auth.was_open() => Ok(Identity::anybody()),
        identity => identity,
    };
    let pass = match identity {
        Ok(identity) => state.enter(&identity).inspect(|_| _ = request.extensions_mut().insert(identity)),
        Err(problem) => Err(problem),
    };
    match pass {
        Ok(None) => next.run(request).await,
        Ok(Some(pass)) => pass.until_sent(next.run(request).await),
        Err(problem) => problem.into_response(),
    }
}

fn asks_for_tokens(path: &str) -> bool {
    path == METRICS || path.strip_prefix("/v1").is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_paths_ask_for_tokens() {
        for (path, asks) in [
            ("/v1", true),
            ("/v1/", true),
            ("/v1/jobs", true),
            ("/metrics", true),
            ("/v1x", false),
            ("/v2", false),
            ("/healthz", false),
            ("/api/a/b", false),
        ] {
            assert_eq!(asks_for_tokens(path), asks, "{path}");
        }
    }
}
