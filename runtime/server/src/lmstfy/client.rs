//! The client of a request: by a token in a header or in the query, perhaps with a pool before it.

use std::net::IpAddr;
use std::sync::Arc;

use axum::http::StatusCode;
use axum::http::request::Parts;
use sha2::{Digest, Sha256};

use super::api::Api;
use super::query::Query;
use super::refusal::Refusal;
use crate::audit::RequestFacts;
use crate::auth::identity::Identity;
use crate::claims;
use crate::limits::requests::{NoPermit, Permit};
use crate::limits::{TenantPermit, client_address, pace};
use crate::openapi::Requirement;
use crate::serve::DeliveryTracker;
use gristmill_core::job::{Name, WorkerId};
use gristmill_core::token::{Scope, Throttle, TokenHash, TokenId};

/// The only pool there is.
pub(super) const POOL: &str = "default";

/// A client that was identified.
#[derive(Debug, Clone)]
pub(super) struct Client {
    identity: Identity,
    /// Counts the request until it ends. `None` if its token has no limits.
    _counted: Option<Arc<TenantPermit>>,
    /// `None` if the request waits for a job.
    _permit: Option<Arc<Permit>>,
    /// The request's line in the audit log.
    facts: RequestFacts,
    /// The name of its address and token, shown to operators.
    name: String,
    /// Of its connection.
    pub(super) delivery_tracker: DeliveryTracker,
}

impl Client {
    /// Identifies the client of a request about a tenant.
    ///
    /// # Errors
    /// There is no such pool, no token, or the token is not for the tenant: in lmstfy's words. Or the token is over its limits.
    pub(super) async fn identify(parts: &Parts, query: &Query, tenant: &Name, api: &Api) -> Result<Self, Refusal> {
        let header = parts.headers.get("x-token").map(|value| String::from_utf8_lossy(value.as_bytes()));
        let header = header.filter(|text| !text.is_empty());
        let token = header.as_deref().or_else(|| query.get("token")).unwrap_or_default();
        let (pool, text) = token.split_once(':').unwrap_or((POOL, token));
        if pool != POOL {
            return Err(Refusal::not_found("pool not found"));
        }
        let peer = client_address(&parts.extensions);
        let identity = identity(api, text, peer, tenant).await?;
        let facts = RequestFacts::of(&parts.extensions);
        identity.note_in(&facts);
        let permit = api.state.enter(&identity)?.map(Arc::new);
        pace::count_for(&parts.extensions, identity.tenant()).await;
        let name = name(peer, &TokenHash::of(text).id());
        let delivery_tracker = parts.extensions.get::<DeliveryTracker>().cloned().unwrap_or_default();
        Ok(Self { identity, _counted: permit, _permit: None, facts, name, delivery_tracker })
    }

    /// Waits for a permit for the request.
    pub(super) async fn permitted(self, none: NoPermit, api: &Api) -> Self {
        let permit = api.state.request_limiter.permit(none, self.tenant()).await;
        Self { _permit: Some(Arc::new(permit)), ..self }
    }

    /// The tenant of its token. `None`: all tenants.
    pub(super) fn tenant(&self) -> Option<&Name> {
        self.identity.tenant()
    }

    /// Whether what is in the tenant's jobs is hidden from it.
    pub(super) fn may_see_payloads(&self, api: &Api, tenant: &Name) -> Result<(), Refusal> {
        let hides = api.state.hides_payloads(&self.identity, tenant);
        if hides { Err(Refusal::forbidden("payloads are hidden")) } else { Ok(()) }
    }

    /// Whether its token has the scope. What needs `admin` is in the audit log.
    pub(super) fn has(&self, scope: Scope) -> bool {
        let has = self.identity.has(scope);
        if has {
            self.facts.requires(Requirement::InTenant(scope));
        }
        has
    }

    /// # Errors
    /// The token lacks the scope.
    pub(super) fn may(&self, scope: Scope) -> Result<(), Refusal> {
        if self.has(scope) {
            return Ok(());
        }
        let has = self.identity.token().into_iter().flat_map(|token| &token.scopes).map(|scope| scope.as_str());
        let (has, needed) = (has.collect::<Vec<_>>().join(", "), scope.as_str());
        Err(Refusal::Because(
            StatusCode::FORBIDDEN,
            format!("the token lacks the scope `{needed}`: it has [{has}]").into(),
        ))
    }

    /// Whether it may undo the work of other clients. That is in the audit log as what needs `admin`.
    pub(super) fn has_all_of_lmstfy(&self) -> bool {
        let has = self.identity.has(Scope::Lmstfy) || self.identity.has(Scope::Admin);
        if has {
            self.facts.requires(Requirement::InTenant(Scope::Admin));
        }
        has
    }

    /// # Errors
    /// It may not undo the work of other clients.
    pub(super) fn may_all_of_lmstfy(&self) -> Result<(), Refusal> {
        if self.has_all_of_lmstfy() { Ok(()) } else { self.may(Scope::Lmstfy) }
    }

    /// Runs `work` for as long as the token is valid.
    ///
    /// # Errors
    /// The token ended first, and `work` was dropped.
    pub(super) async fn while_valid<T>(&self, api: &Api, work: impl Future<Output = T>) -> Result<T, Refusal> {
        api.state.auth.while_valid(&self.identity, work).await.ok_or(Refusal::unknown("invalid token"))
    }

    /// The name under which it claims. Clients with the same address and the same token have the same name.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Whether this worker is a client with the same token, from any address.
    pub(super) fn has_token_of(&self, worker: &WorkerId) -> bool {
        let of_token = |name: &str| name.rsplit_once('-').map(|(_, digits)| digits.to_owned());
        let client = claims::client_of(worker).filter(|client| client.starts_with("lmstfy-"));
        client.and_then(of_token).is_some_and(|digits| Some(digits) == of_token(&self.name))
    }

    /// The limits of its token, and of the tokens that made it.
    pub(super) fn throttles(&self) -> impl Iterator<Item = (&TokenId, Throttle)> {
        self.identity.tokens().filter_map(|token| Some((&token.id, token.limits.throttle?)))
    }
}

/// The identity that a token stands for, if it is for this tenant.
async fn identity(api: &Api, text: &str, peer: IpAddr, tenant: &Name) -> Result<Identity, Refusal> {
    let text = (!text.is_empty()).then_some(text);
    let is_for = |identity: &Identity| {
        let tenant_of_token = identity.token().and_then(|token| token.tenant.as_ref());
        tenant_of_token.is_none_or(|own| own == tenant)
    };
    let identity = Identity::of(&api.state.auth, text, peer).await?.filter(is_for);
    identity.ok_or(Refusal::unknown(if text.is_none() { "token not found" } else { "invalid token" }))
}

/// The name of a client. Its end is the same for all clients with the token.
fn name(address: IpAddr, token: &TokenId) -> String {
    // Not the token's id itself, because more people may see jobs than tokens.
    let digits: String = hex::encode(Sha256::digest(format!("lmstfy {token}"))).chars().take(8).collect();
    format!("lmstfy-{address}-{digits}")
}
