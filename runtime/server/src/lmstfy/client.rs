//! The client of a request: by a token in a header or in the query, perhaps with a pool before it.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use axum::extract::ConnectInfo;
use axum::http::StatusCode;
use axum::http::request::Parts;
use sha2::{Digest, Sha256};

use super::api::Api;
use super::query::Query;
use super::refusal::Refusal;
use crate::auth::identity::Identity;
use crate::limits::TenantPermit;
use crate::serve::DeliveryTracker;
use gristmill_core::job::Name;
use gristmill_core::token::{Scope, Throttle, TokenHash, TokenId};

/// The only pool there is.
pub(super) const POOL: &str = "default";

/// A client that was identified.
#[derive(Debug, Clone)]
pub(super) struct Client {
    identity: Identity,
    /// Counts the request until it ends. `None` if its token has no limits.
    _permit: Option<Arc<TenantPermit>>,
    /// Its address and token, as a name for people.
    name: String,
    /// Of its connection.
    pub(super) delivery_tracker: DeliveryTracker,
}

impl Client {
    /// Identifies the client of a request about a tenant.
    ///
    /// # Errors
    /// lmstfy's: there is no such pool, no token, or the token is not for the tenant. And over the limits of the token.
    pub(super) async fn identify(parts: &Parts, query: &Query, tenant: &Name, api: &Api) -> Result<Self, Refusal> {
        let header = parts.headers.get("x-token").map(|value| String::from_utf8_lossy(value.as_bytes()));
        let header = header.filter(|text| !text.is_empty());
        let token = header.as_deref().or_else(|| query.get("token")).unwrap_or_default();
        let (pool, text) = token.split_once(':').unwrap_or((POOL, token));
        if pool != POOL {
            return Err(Refusal::not_found("pool not found"));
        }
        let identity = identity(api, text, tenant).await?;
        let permit = api.state.enter(&identity)?.map(Arc::new);
        let peer = parts.extensions.get::<ConnectInfo<SocketAddr>>().map(|ConnectInfo(peer)| peer.ip().to_canonical());
        let name = name(peer.unwrap_or(Ipv4Addr::UNSPECIFIED.into()), &TokenHash::of(text).id());
        let delivery_tracker = parts.extensions.get::<DeliveryTracker>().cloned().unwrap_or_default();
        Ok(Self { identity, _permit: permit, name, delivery_tracker })
    }

    /// # Errors
    /// The token lacks the scope.
    pub(super) fn may(&self, scope: Scope) -> Result<(), Refusal> {
        if self.identity.token().is_none_or(|token| token.scopes.contains(&scope)) {
            return Ok(());
        }
        Err(Refusal::Because(StatusCode::FORBIDDEN, format!("the token lacks the scope `{}`", scope.as_str()).into()))
    }

    /// For what changes more than a client's own jobs: every token of lmstfy may do it.
    ///
    /// # Errors
    /// The token lacks a scope that tokens of lmstfy have.
    pub(super) fn may_all(&self) -> Result<(), Refusal> {
        [Scope::Push, Scope::Work, Scope::Read].into_iter().try_for_each(|scope| self.may(scope))
    }

    /// Does this for as long as the token is valid.
    ///
    /// # Errors
    /// The token ended first: then the work was dropped.
    pub(super) async fn while_valid<T>(&self, api: &Api, work: impl Future<Output = T>) -> Result<T, Refusal> {
        api.state.auth.while_valid(&self.identity, work).await.ok_or(Refusal::unknown("invalid token"))
    }

    /// The name by which it claims. Clients with one address and one token have one name.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The limits of its token, and of those with which that was made.
    pub(super) fn throttles(&self) -> impl Iterator<Item = (&TokenId, Throttle)> {
        self.identity.tokens().filter_map(|token| Some((&token.id, token.limits.throttle?)))
    }
}

/// The identity that a token stands for, if it is for this tenant.
async fn identity(api: &Api, text: &str, tenant: &Name) -> Result<Identity, Refusal> {
    let text = (!text.is_empty()).then_some(text);
    let is_for = |identity: &Identity| {
        let tenant_of_token = identity.token().and_then(|token| token.tenant.as_ref());
        tenant_of_token.is_none_or(|own| own == tenant)
    };
    let identity = Identity::of(&api.state.auth, text).await?.filter(is_for);
    identity.ok_or(Refusal::unknown(if text.is_none() { "token not found" } else { "invalid token" }))
}

fn name(address: IpAddr, token: &TokenId) -> String {
    // Not the token's id itself: more people see the views of jobs than the list of tokens.
    let digits: String = hex::encode(Sha256::digest(format!("{address} {token}"))).chars().take(8).collect();
    format!("lmstfy-{address}-{digits}")
}
