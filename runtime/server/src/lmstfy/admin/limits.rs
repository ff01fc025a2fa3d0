//! How often a token may publish and consume.

use std::num::NonZero;

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::tokens::NamedToken;
use crate::lmstfy::api::Api;
use crate::lmstfy::names;
use crate::lmstfy::refusal::Refusal;
use gristmill_core::token::{Throttle, Token, TokenLimits};

const UNKNOWN: Refusal = Refusal::not_found("token not found");

/// Publishes (`write`) and consumes (`read`) in the given seconds; 0 is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Limiter {
    #[serde(default)]
    read: u32,
    #[serde(default)]
    write: u32,
    #[serde(default)]
    interval: u32,
}

pub(super) async fn limits(State(api): State<Api>) -> Result<Json<Value>, Refusal> {
    let tokens = api.state.store.tokens(None).await?;
    let limited = tokens.iter().filter_map(|token| {
        let (tenant, limiter) = (token.tenant.as_ref()?, Limiter::of(token)?);
        Some(json!({ "namespace": names::outward(tenant), "token": token.id, "limiter": limiter }))
    });
    Ok(Json(limited.collect()))
}

pub(super) async fn limit(NamedToken(token): NamedToken) -> Response {
    match token.as_ref().and_then(Limiter::of) {
        Some(limiter) => Json(limiter).into_response(),
        None => (StatusCode::NOT_FOUND, Json(Value::Null)).into_response(),
    }
}

/// Sets a limit. `POST` adds one and replaces none.
pub(super) async fn set(
    State(api): State<Api>,
    method: Method,
    NamedToken(token): NamedToken,
    body: Bytes,
) -> Result<Response, Refusal> {
    let limiter: Limiter =
        serde_json::from_slice(&body).map_err(|_| Refusal::bad("a limiter has whole numbers from 0 to 4294967295"))?;
    let document = Json(json!({ "limiter": limiter }));
    if limiter.read == 0 && limiter.write == 0 {
        return Ok((StatusCode::BAD_REQUEST, document).into_response());
    }
    let interval_s = NonZero::new(limiter.interval).ok_or(Refusal::bad("interval should be > 0"))?;
    let token = token.ok_or(UNKNOWN)?;
    let adds = method == Method::POST;
    if adds && token.limits.throttle.is_some() {
        let error = "the token has a limiter already";
        return Err(Refusal::Because(StatusCode::INTERNAL_SERVER_ERROR, error.into()));
    }
    let throttle = Throttle { read: limiter.read, write: limiter.write, interval_s };
    // It may have been revoked meanwhile.
    if !store(&api, &token, Some(throttle)).await? {
        return Err(UNKNOWN);
    }
    Ok((if adds { StatusCode::CREATED } else { StatusCode::OK }, document).into_response())
}

pub(super) async fn delete(State(api): State<Api>, NamedToken(token): NamedToken) -> Result<Json<Value>, Refusal> {
    if let Some(token) = token {
        store(&api, &token, None).await?;
    }
    Ok(Json(json!({ "msg": "success" })))
}

/// Returns whether there still is such a token.
async fn store(api: &Api, token: &Token, throttle: Option<Throttle>) -> Result<bool, Refusal> {
    let set = api.state.store.set_token_limits(&token.id, TokenLimits { throttle, ..token.limits }).await?;
    api.state.auth.token_cache.forget(&token.id);
    Ok(set)
}

impl Limiter {
    fn of(token: &Token) -> Option<Self> {
        let Throttle { read, write, interval_s } = token.limits.throttle?;
        Some(Self { read, write, interval: interval_s.get() })
    }
}
