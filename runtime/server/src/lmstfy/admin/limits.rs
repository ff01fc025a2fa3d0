//! How often a token may publish and consume.

use std::num::NonZero;

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, RawQuery, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::tokens;
use crate::lmstfy::api::Api;
use crate::lmstfy::names;
use crate::lmstfy::refusal::Refusal;
use gristmill_core::token::{Throttle, Token, TokenLimits};

/// Publishes (`write`) and consumes (`read`) in so many seconds; 0 is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Limiter {
    #[serde(default)]
    read: u32,
    #[serde(default)]
    write: u32,
    #[serde(default)]
    interval: u32,
}

/// Where a limit is asked for.
type InPath = Path<(String, String)>;

pub(super) async fn limits(State(api): State<Api>) -> Result<Json<Value>, Refusal> {
    let tokens = api.state.store.tokens(None).await?;
    let limited = tokens.iter().filter_map(|token| {
        let (tenant, limiter) = (token.tenant.as_ref()?, Limiter::of(token)?);
        Some(json!({ "namespace": names::outward(tenant), "token": token.id, "limiter": limiter }))
    });
    Ok(Json(limited.collect()))
}

pub(super) async fn limit(
    State(api): State<Api>,
    Path((namespace, token)): InPath,
    RawQuery(query): RawQuery,
) -> Result<Response, Refusal> {
    let token = tokens::find(&api, &namespace, &token, query).await?;
    Ok(match token.as_ref().and_then(Limiter::of) {
        Some(limiter) => Json(limiter).into_response(),
        None => (StatusCode::NOT_FOUND, Json(Value::Null)).into_response(),
    })
}

/// A limit where there was none.
pub(super) async fn add(
    State(api): State<Api>,
    Path((namespace, token)): InPath,
    RawQuery(query): RawQuery,
    body: Bytes,
) -> Result<Response, Refusal> {
    let limiter = match Limiter::read(&body) {
        Ok(limiter) => limiter,
        Err(refusal) => return Ok(*refusal),
    };
    let token = known(&api, &namespace, &token, query).await?;
    if Limiter::of(&token).is_some() {
        let taken = "the token has a limiter already";
        return Err(Refusal::Because(StatusCode::INTERNAL_SERVER_ERROR, taken.into()));
    }
    limiter.put(&api, &token).await?;
    Ok((StatusCode::CREATED, Json(json!({ "limiter": limiter }))).into_response())
}

/// A limit, in place of any.
pub(super) async fn set(
    State(api): State<Api>,
    Path((namespace, token)): InPath,
    RawQuery(query): RawQuery,
    body: Bytes,
) -> Result<Response, Refusal> {
    let limiter = match Limiter::read(&body) {
        Ok(limiter) => limiter,
        Err(refusal) => return Ok(*refusal),
    };
    let token = known(&api, &namespace, &token, query).await?;
    limiter.put(&api, &token).await?;
    Ok(Json(json!({ "limiter": limiter })).into_response())
}

pub(super) async fn delete(
    State(api): State<Api>,
    Path((namespace, token)): InPath,
    RawQuery(query): RawQuery,
) -> Result<Json<Value>, Refusal> {
    if let Some(token) = tokens::find(&api, &namespace, &token, query).await? {
        let limits = TokenLimits { throttle: None, ..token.limits };
        api.state.store.set_token_limits(&token.id, limits).await?;
        api.state.auth.token_cache.forget(&token.id);
    }
    Ok(Json(json!({ "msg": "success" })))
}

async fn known(api: &Api, namespace: &str, token: &str, query: Option<String>) -> Result<Token, Refusal> {
    let token = tokens::find(api, namespace, token, query).await?;
    token.ok_or(Refusal::not_found("token not found"))
}

impl Limiter {
    fn of(token: &Token) -> Option<Self> {
        let Throttle { read, write, interval_s } = token.limits.throttle?;
        Some(Self { read, write, interval: interval_s.get() })
    }

    /// Err: what to answer to one that makes no sense.
    fn read(body: &[u8]) -> Result<Self, Box<Response>> {
        let limiter: Self = serde_json::from_slice(body)
            .map_err(|_| Refusal::bad("a limiter has whole numbers from 0 to 4294967295").into_response())?;
        if limiter.read == 0 && limiter.write == 0 {
            let body = Json(json!({ "limiter": limiter }));
            return Err(Box::new((StatusCode::BAD_REQUEST, body).into_response()));
        }
        if limiter.interval == 0 {
            return Err(Box::new(Refusal::bad("interval should be > 0").into_response()));
        }
        Ok(limiter)
    }

    async fn put(self, api: &Api, token: &Token) -> Result<(), Refusal> {
        let interval_s = NonZero::new(self.interval).unwrap_or(NonZero::<u32>::MIN);
        let throttle = Some(Throttle { read: self.read, write: self.write, interval_s });
        let limits = TokenLimits { throttle, ..token.limits };
        let set = api.state.store.set_token_limits(&token.id, limits).await?;
        api.state.auth.token_cache.forget(&token.id);
        if set {
            return Ok(());
        }
        // Revoked meanwhile.
        Err(Refusal::not_found("token not found"))
    }
}
