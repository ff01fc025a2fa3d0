//! Authenticates requests before their routes see them.

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::audit::RequestFacts;
use crate::auth::identity::{Identity, has_token, identify};
use crate::auth::origin;
use crate::limits::{TenantPermit, client_address, pace};
use crate::problem::{Code, Problem};
use crate::state::AppState;
use crate::wire::MEANT_STORE;

/// Answers as long as the store was last known to have no tokens, also while the store is unavailable.
const METRICS: &str = "/metrics";

/// Says nothing but that the process lives, whatever the store does.
const HEALTH: &str = "/healthz";

/// Says more to a client with a token, and needs none.
const READY: &str = "/readyz";

/// Authenticates a request and counts it against the limits of its token and tenant. Health needs no token; lmstfy's paths
/// do their own authentication.
pub(super) async fn authenticate(state: AppState, mut request: Request, next: Next) -> Response {
    let path = request.uri().path();
    let measures = path == METRICS;
    let (ready, ours) = (path == READY, asks_for_tokens(path));
    if path == HEALTH {
        return next.run(request).await;
    }
    let local = origin::check_is_local(&request);
    if let (true, Err(problem)) = (state.auth.takes_local_requests_only().await, local) {
        return problem.into_response();
    }
    if ready {
        // A client that may not send requests gets the least. Without a token, the store is not asked once more.
        let identity = match has_token(request.headers()) {
            true => identify(&state.auth, request.headers(), client_address(request.extensions())).await.ok(),
            false => state.auth.was_open().then_some(Identity::Anybody),
        };
        if let Some(identity) = identity {
            request.extensions_mut().insert(identity);
        }
    }
    if !ours {
        return next.run(request).await;
    }
    if let Err(problem) = check_store(&request, &state) {
        return problem.into_response();
    }
    let identity = match identify(&state.auth, request.headers(), client_address(request.extensions())).await {
        // Monitoring must see that the store is unavailable.
        Err(problem) if problem.code == Code::StoreUnavailable && measures && state.auth.was_open() => {
            Ok(Identity::Anybody)
        }
        identity => identity,
    };
    if let Ok(identity) = &identity {
        identity.note_in(&RequestFacts::of(request.extensions()));
    }
    let entered = identity.and_then(|identity| Ok((state.enter(&identity)?, identity)));
    let (permit, identity) = match entered {
        Ok(entered) => entered,
        Err(problem) => return problem.into_response(),
    };
    pace::count_for(request.extensions(), identity.tenant()).await;
    request.extensions_mut().insert(identity.clone());
    request.extensions_mut().insert(state.clone());
    let response = state.auth.answer_while_valid(identity, next.run(request)).await;
    match permit {
        Some(permit) => permit.until_sent(response),
        None => response,
    }
}

/// Refuses a request that is meant for another store: a command has found another server at the address of the one that it had asked.
fn check_store(request: &Request, state: &AppState) -> Result<(), Problem> {
    let (meant, own) = (request.headers().get(MEANT_STORE), &state.server.store);
    if meant.is_none_or(|meant| meant.as_bytes() == own.as_str().as_bytes()) {
        return Ok(());
    }
    let detail = format!("the request is meant for another store: this server has {own}. Nothing was done");
    Err(Problem::new(Code::OtherStore, detail))
}

impl AppState {
    /// Counts a request of the caller, which goes on until the pass is dropped. Returns `None` for a caller without limits.
    ///
    /// # Errors
    /// It is more than its token or its tenant may ask for: `rate-limited`, and when to come again; or `busy`.
    pub(crate) fn enter(&self, identity: &Identity) -> Result<Option<TenantPermit>, Problem> {
        let Some(token) = identity.token() else { return Ok(None) };
        let limits = token.tenant.as_ref().map(|tenant| self.topics().limits(tenant)).unwrap_or_default();
        let permit = self.tenant_limiter.enter(identity.tokens(), token.tenant.as_ref(), limits)?;
        let connection = token.tenant.as_ref().map(|tenant| self.request_limiter.keep_busy(tenant)).transpose()?;
        Ok(Some(permit.keeping(connection)))
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
