//! Who asks, in lmstfy's way: by a token in a header or in the query, perhaps with a pool before it.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use axum::extract::ConnectInfo;
use axum::http::request::Parts;
use sha2::{Digest, Sha256};

use super::api::Api;
use super::query::Query;
use super::refusal::Refusal;
use crate::auth::identity::Identity;
use crate::limits::TenantPermit;
use crate::serve::delivery_tracker::DeliveryTracker;
use gristmill_core::job::{Name, WorkerId};
use gristmill_core::token::{Scope, Throttle, TokenHash, TokenId};

/// The only pool there is.
pub(super) const POOL: &str = "default";

/// A client that has been let in.
#[derive(Debug, Clone)]
pub(super) struct Client {
    identity: Identity,
    /// Counted for as long as the request goes on. None: nobody counts.
    _pass: Option<Arc<TenantPermit>>,
    /// What it said for a token, and where it comes from.
    worker: WorkerId,
    pub(super) delivery_tracker: DeliveryTracker,
}

impl Client {
    /// Lets a client into a tenant.
    ///
    /// # Errors
    /// lmstfy's: there is no such pool, no token, or not this one.
    pub(super) async fn admit(parts: &Parts, query: &Query, tenant: &Name, api: &Api) -> Result<Self, Refusal> {
        let header = parts.headers.get("x-token").map(|value| String::from_utf8_lossy(value.as_bytes()));
        let said = header.filter(|text| !text.is_empty());
        let said = said.as_deref().or_else(|| query.get("token")).unwrap_or_default();
        let (pool, text) = said.split_once(':').unwrap_or((POOL, said));
        if pool != POOL {
            return Err(Refusal::not_found("pool not found"));
        }
        let identity = known(api, text, tenant).await?;
        let pass = api.state.enter(&identity)?.map(Arc::new);
        let peer = parts.extensions.get::<ConnectInfo<SocketAddr>>().map(|ConnectInfo(peer)| peer.ip().to_canonical());
        let worker = worker(peer.unwrap_or(Ipv4Addr::UNSPECIFIED.into()), &TokenHash::of(text).id());
        let delivery_tracker = parts.extensions.get::<DeliveryTracker>().cloned().unwrap_or_default();
        Ok(Self { identity, _pass: pass, worker, delivery_tracker })
    }

    /// # Errors
    /// The token is for other things.
    pub(super) fn may(&self, scope: Scope) -> Result<(), Refusal> {
        let allowed = self.identity.token().is_none_or(|token| token.scopes.contains(&scope));
        allowed.then_some(()).ok_or(Refusal::forbidden(match scope {
            Scope::Push => "the token lacks the scope `push`",
            Scope::Work => "the token lacks the scope `work`",
            Scope::Read => "the token lacks the scope `read`",
            Scope::Admin => "the token lacks the scope `admin`",
        }))
    }

    /// Whatever a token of lmstfy may do: what changes more than a worker's own jobs.
    ///
    /// # Errors
    /// The token is for some things only.
    pub(super) fn may_all(&self) -> Result<(), Refusal> {
        [Scope::Push, Scope::Work, Scope::Read].into_iter().try_for_each(|scope| self.may(scope))
    }

    /// What its claims are made as.
    pub(super) fn worker(&self) -> &WorkerId {
        &self.worker
    }

    /// The limits of its token.
    pub(super) fn throttle(&self) -> Option<(&TokenId, Throttle)> {
        let token = self.identity.token()?;
        Some((&token.id, token.limits.throttle?))
    }
}

/// Whoever comes with this text, if it may come into the tenant.
async fn known(api: &Api, text: &str, tenant: &Name) -> Result<Identity, Refusal> {
    let said = (!text.is_empty()).then_some(text);
    let of =
        |identity: &Identity| identity.token().is_none_or(|token| token.tenant.as_ref().is_none_or(|of| of == tenant));
    match Identity::of(&api.state, said).await?.filter(of) {
        Some(identity) => Ok(identity),
        None if said.is_none() => Err(Refusal::unknown("token not found")),
        None => Err(Refusal::unknown("invalid token")),
    }
}

/// Names a client so that people find it, and that the same client has the same name again.
fn worker(address: IpAddr, token: &TokenId) -> WorkerId {
    // Not the token's id itself: a job's view is shown to more people than the list of tokens.
    let digits: String = hex::encode(Sha256::digest(format!("{address} {token}"))).chars().take(8).collect();
    WorkerId::pull(&format!("lmstfy-{address}-{digits}"))
}
