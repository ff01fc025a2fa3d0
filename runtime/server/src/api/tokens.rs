//! Tokens: make, list, revoke, limit. A token can make only tokens that allow no more than it allows itself.

use std::collections::BTreeSet;
use std::time::Duration;

use axum::Json;
use axum::http::StatusCode;

use crate::api::topics::known_tenants;
use crate::audit::RequestFacts;
use crate::auth::allowed::{AllTenants, Allowed, scope};
use crate::auth::identity::{Identity, Scope};
use crate::auth::token_cache::MAKERS;
use crate::extract::Document;
use crate::problem::{Code, Problem};
use crate::routes::Routes;
use crate::state::AppState;
use crate::wire;
use gristmill_core::admission::LONGEST;
use gristmill_core::job::{DEFAULT_TENANT, Name};
use gristmill_core::token::{DESCRIPTION_BYTES, NewToken, TOKENS_PER_TENANT, Token, TokenId, TokenLimits, TokenText};
use gristmill_core::units::{hint, nearest};
use gristmill_metrics::{Event, EventKind};
use gristmill_store::{StoreError, TokenAdded};

const ADD: &str = "A client gives a new token no more than its own token has: its scopes, no more requests, and, if it expires, \
    no longer time.";
const ADD_PROBLEMS: &[Code] = &[Code::TokenExists, Code::TooManyTokens];
const LIMIT: &str = "These limits replace the ones before. What is left out is no limit.";

pub(crate) fn routes() -> Routes {
    Routes::of("tokens")
        .get("/tokens", list_all, "List all tokens")
        .post("/tokens", add_any, "Make a token for one tenant or for all")
        .description(ADD)
        .problems(ADD_PROBLEMS)
        .delete("/tokens", lift_requirement, "Need no token any more, once there is none")
        .delete("/tokens/{id}", revoke_any, "Revoke a token")
        .put("/tokens/{id}/limits", limit_any, "Limit a token")
        .description(LIMIT)
        .problems(&[Code::TokenUnknown])
        .get("/tenants/{tenant}/tokens", list, "List a tenant's tokens")
        .post("/tenants/{tenant}/tokens", add, "Make a token for a tenant")
        .description(ADD)
        .problems(ADD_PROBLEMS)
        .delete("/tenants/{tenant}/tokens/{id}", revoke, "Revoke a token")
        .put("/tenants/{tenant}/tokens/{id}/limits", limit, "Limit a token")
        .description(LIMIT)
        .problems(&[Code::TokenUnknown])
}

async fn list_all(Allowed { state, .. }: Allowed<scope::Admin, AllTenants>) -> Result<Json<wire::Tokens>, Problem> {
    listed(state.store.tokens(None).await)
}

async fn list(Allowed { over: tenant, state, .. }: Allowed<scope::Admin, Name>) -> Result<Json<wire::Tokens>, Problem> {
    listed(state.store.tokens(Some(&tenant)).await)
}

fn listed(tokens: Result<Vec<Token>, StoreError>) -> Result<Json<wire::Tokens>, Problem> {
    Ok(Json(wire::Tokens { tokens: tokens? }))
}

async fn add_any(
    Allowed { identity, state, .. }: Allowed<scope::Admin, AllTenants>,
    facts: RequestFacts,
    Document(new): Document<wire::NewToken>,
) -> Result<(StatusCode, Json<wire::NewTokenAnswer>), Problem> {
    if new.tenant.is_some() == new.all_tenants {
        return Err(Problem::new(Code::BadRequest, "name a `tenant`, or say `all_tenants`: one of the two"));
    }
    let tenant = new.tenant.clone();
    make(&state, &identity, &facts, tenant, new).await
}

async fn add(
    Allowed { over: tenant, identity, state, .. }: Allowed<scope::Admin, Name>,
    facts: RequestFacts,
    Document(new): Document<wire::NewToken>,
) -> Result<(StatusCode, Json<wire::NewTokenAnswer>), Problem> {
    if new.all_tenants || new.tenant.as_ref().is_some_and(|named| *named != tenant) {
        return Err(Problem::new(Code::BadRequest, "the path names the tenant; the token can be for no other one"));
    }
    make(&state, &identity, &facts, Some(tenant), new).await
}

async fn make(
    state: &AppState,
    identity: &Identity,
    facts: &RequestFacts,
    tenant: Option<Name>,
    new: wire::NewToken,
) -> Result<(StatusCode, Json<wire::NewTokenAnswer>), Problem> {
    if new.description.len() > DESCRIPTION_BYTES {
        return Err(Problem::new(Code::TooLarge, format!("a description has at most {DESCRIPTION_BYTES} bytes")));
    }
    if new.expires_in == Some(Duration::ZERO) {
        let detail = "`expires_in_ms` is 0: the token would have ended; leave it out for one that does not end";
        return Err(Problem::new(Code::BadRequest, detail));
    }
    if let Some(longer) = new.expires_in.filter(|time| *time > LONGEST) {
        let ms = longer.as_millis();
        let detail =
            format!("`expires_in_ms` is {ms}, longer than ten years: leave it out for a token that does not end");
        return Err(Problem::new(Code::BadRequest, detail));
    }
    let (text, hash) = match new.sha256 {
        Some(hash) => (None, hash),
        None => {
            let text = TokenText::generate().map_err(|error| Problem::new(Code::Other, error.to_string()))?;
            (Some(text.as_str().to_owned()), text.hash())
        }
    };
    let new = NewToken { made_by: identity.token().map(|own| own.id.clone()), ..new.hashed(tenant, hash) };
    within_own(identity, &new.scopes, new.limits)?;
    until_own_end(state, identity, &new).await?;
    match state.store.add_token(&new).await? {
        TokenAdded::Added(token) => {
            state.auth.token_cache.forget(&token.id);
            facts.made(token.id.as_str());
            emit(state, EventKind::TokenAdded, token.tenant.as_ref(), &token.id);
            let warnings = doubts(state, identity, &token).await;
            Ok((StatusCode::CREATED, Json(wire::NewTokenAnswer { text, token, warnings })))
        }
        TokenAdded::Exists => Err(Problem::new(Code::TokenExists, "this text is a token already")),
        TokenAdded::MakerGone => Err(Problem::new(Code::TokenInvalid, "the token was revoked meanwhile")),
        TokenAdded::TooMany => {
            let detail = format!("there are {TOKENS_PER_TENANT} tokens already: revoke some first");
            Err(Problem::new(Code::TooManyTokens, detail))
        }
    }
}

/// What is perhaps a mistake in a new token. A tenant may get its first token before its first job.
async fn doubts(state: &AppState, identity: &Identity, token: &Token) -> Vec<String> {
    let mut doubts = Vec::new();
    if token.scopes.is_empty() {
        doubts.push("the token has no scope, so it allows nothing".to_owned());
    }
    let tenant = token.tenant.as_ref().filter(|tenant| identity.tenant() != Some(tenant));
    // While the store does not answer, no tenant is doubted.
    if let (Some(tenant), Ok(known)) = (tenant, known_tenants(state).await) {
        doubts.extend(unknown_tenant(tenant, &known));
    }
    doubts
}

/// Says that nothing knows a tenant, and which one was perhaps meant.
pub fn unknown_tenant(tenant: &Name, known: &BTreeSet<Name>) -> Option<String> {
    if known.contains(tenant) || tenant.as_str() == DEFAULT_TENANT {
        return None;
    }
    let hint = hint(nearest(tenant.as_str(), known.iter().map(Name::as_str)));
    Some(format!("no job and no section of the manifest is of a tenant `{tenant}`{hint}"))
}

/// Scopes and limits that the caller has itself. Otherwise one that leaks could make itself a greater one.
fn within_own(identity: &Identity, scopes: &BTreeSet<Scope>, limits: TokenLimits) -> Result<(), Problem> {
    let Some(own) = identity.token() else { return Ok(()) };
    let refused =
        |what: &str| Err(Problem::new(Code::Forbidden, format!("a token cannot give away {what} than it has")));
    if !scopes.is_subset(&own.scopes) {
        return refused("more scopes");
    }
    let within = match (own.limits.requests, limits.requests) {
        (None, _) => true,
        (Some(_), None) => false,
        (Some(own), Some(new)) => new.per_second <= own.per_second && new.burst <= own.burst,
    };
    if !within {
        return refused("more requests per second");
    }
    if identity.tokens().count() > MAKERS {
        let detail = format!("the token has {MAKERS} tokens between it and the operator: none can be made with it");
        return Err(Problem::new(Code::Forbidden, detail));
    }
    Ok(())
}

/// A token ends no later than the one that made it.
async fn until_own_end(state: &AppState, identity: &Identity, new: &NewToken) -> Result<(), Problem> {
    let Some(own) = identity.token().filter(|own| own.expires_at.is_some()) else { return Ok(()) };
    let remaining = state.store.find_token(&own.id).await?.and_then(|found| found.expires_in).unwrap_or_default();
    if new.expires_in.is_some_and(|wanted| wanted <= remaining) {
        return Ok(());
    }
    let detail = format!(
        "a token that expires can make none that lasts longer: say `expires_in_ms`, at most {}",
        remaining.as_millis()
    );
    Err(Problem::new(Code::Forbidden, detail))
}

/// Lets requests come without a token again, where there is none.
async fn lift_requirement(
    Allowed { state, .. }: Allowed<scope::Admin, AllTenants>,
) -> Result<Json<wire::RequirementLifted>, Problem> {
    let lifted = state.store.lift_token_requirement().await?;
    state.auth.token_cache.forget_requirement();
    state.auth.token_cache.is_required().await?;
    Ok(Json(wire::RequirementLifted { lifted }))
}

async fn revoke_any(
    Allowed { over: AllTenants(id), state, .. }: Allowed<scope::Admin, AllTenants<TokenId>>,
) -> Result<Json<wire::Revoked>, Problem> {
    let known = state.store.find_token(&id).await?.and_then(|found| found.token.tenant);
    revoke_token(&state, known.as_ref(), &id).await
}

async fn revoke(
    Allowed { over: (tenant, id), state, .. }: Allowed<scope::Admin, (Name, TokenId)>,
) -> Result<Json<wire::Revoked>, Problem> {
    match of_tenant(&state, &tenant, &id).await? {
        true => revoke_token(&state, Some(&tenant), &id).await,
        false => Ok(Json(wire::Revoked { revoked: false })),
    }
}

async fn revoke_token(state: &AppState, tenant: Option<&Name>, id: &TokenId) -> Result<Json<wire::Revoked>, Problem> {
    let revoked = state.store.revoke_token(id).await?;
    state.auth.token_cache.forget(id);
    if revoked {
        emit(state, EventKind::TokenRevoked, tenant, id);
    }
    Ok(Json(wire::Revoked { revoked }))
}

/// `tenant`: `None` of a token for all tenants.
fn emit(state: &AppState, kind: EventKind, tenant: Option<&Name>, id: &TokenId) {
    state.metrics.emit(|| Event { tenant: tenant.cloned(), token: Some(id.to_string()), ..Event::new(kind) });
}

async fn limit_any(
    Allowed { over: AllTenants(id), identity, state, .. }: Allowed<scope::Admin, AllTenants<TokenId>>,
    Document(limits): Document<TokenLimits>,
) -> Result<Json<TokenLimits>, Problem> {
    limit_token(&state, &identity, &id, limits).await
}

async fn limit(
    Allowed { over: (tenant, id), identity, state, .. }: Allowed<scope::Admin, (Name, TokenId)>,
    Document(limits): Document<TokenLimits>,
) -> Result<Json<TokenLimits>, Problem> {
    match of_tenant(&state, &tenant, &id).await? {
        true => limit_token(&state, &identity, &id, limits).await,
        false => Err(unknown()),
    }
}

async fn limit_token(
    state: &AppState,
    identity: &Identity,
    id: &TokenId,
    limits: TokenLimits,
) -> Result<Json<TokenLimits>, Problem> {
    within_own(identity, &BTreeSet::new(), limits)?;
    let there = state.store.set_token_limits(id, limits).await?;
    state.auth.token_cache.forget(id);
    if there { Ok(Json(limits)) } else { Err(unknown()) }
}

/// Whether the token is the tenant's. Another tenant's is like one that is not there.
async fn of_tenant(state: &AppState, tenant: &Name, id: &TokenId) -> Result<bool, Problem> {
    // Among all of them, expired ones included, which are not found any more but can be revoked.
    Ok(state.store.tokens(Some(tenant)).await?.iter().any(|token| token.id == *id))
}

fn unknown() -> Problem {
    Problem::new(Code::TokenUnknown, "there is no such token")
}
