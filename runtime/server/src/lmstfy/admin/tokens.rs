//! Tokens of a namespace. Only their ids can be shown: their texts are not kept.

use std::collections::BTreeMap;

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, RawQuery, State};
use axum::http::{HeaderMap, StatusCode, header};
use serde_json::{Value, json};

use super::BAD_POOL;
use crate::lmstfy::api::Api;
use crate::lmstfy::client::POOL;
use crate::lmstfy::names;
use crate::lmstfy::query::Query;
use crate::lmstfy::refusal::Refusal;
use gristmill_core::job::Name;
use gristmill_core::token::{DESCRIPTION_BYTES, NewToken, Scope, Token, TokenHash, TokenId, TokenLimits, TokenText};
use gristmill_store::TokenAdded;

/// Characters of a token that somebody brings.
const SHORTEST: usize = 20;
/// A namespace's, in bytes, as lmstfy has it.
const LONGEST_NAMESPACE: usize = 255;

pub(super) async fn list(
    State(api): State<Api>,
    Path(namespace): Path<String>,
    RawQuery(query): RawQuery,
) -> Result<Json<Value>, Refusal> {
    let query = Query::parse(&query.unwrap_or_default());
    let pool = pool(query.get("pool"))?;
    let tenant = names::tenant(&namespace)?;
    let tokens: BTreeMap<String, String> = api
        .state
        .store
        .tokens(Some(&tenant))
        .await?
        .into_iter()
        .map(|token| (in_pool(pool, token.id.as_str()), token.description))
        .collect();
    Ok(Json(json!({ "tokens": tokens })))
}

/// A new token, with its text: it is not shown again.
pub(super) async fn add(
    State(api): State<Api>,
    Path(namespace): Path<String>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
    body: Bytes,
) -> Result<(StatusCode, Json<Value>), Refusal> {
    let (query, form) = (Query::parse(&query.unwrap_or_default()), is_form(&headers));
    let in_query = query.get("pool").map(str::to_owned);
    let query = if form { query.with_form(&body) } else { query };
    let description = query.get("description").unwrap_or_default();
    if description.is_empty() || description.len() > DESCRIPTION_BYTES {
        return Err(Refusal::bad("invalid description"));
    }
    let brought = query.get("token").unwrap_or_default();
    if !brought.is_empty() && brought.len() < SHORTEST {
        return Err(Refusal::bad("the user token was too short"));
    }
    if namespace.len() > LONGEST_NAMESPACE {
        return Err(Refusal::bad("the namespace name was too long"));
    }
    let tenant = names::tenant(&namespace)?;
    let (in_token, text) = match brought.split_once(':') {
        Some((pool, text)) => (Some(pool), text),
        None => (None, brought),
    };
    pool(in_token.or(in_query.as_deref()))?;
    let text = if text.is_empty() { generate()? } else { text.to_owned() };
    let new = NewToken {
        hash: TokenHash::of(&text),
        tenant: Some(tenant),
        scopes: [Scope::Push, Scope::Work, Scope::Read].into(),
        description: description.to_owned(),
        limits: TokenLimits::default(),
        expires_in: None,
    };
    match api.state.store.add_token(&new).await? {
        TokenAdded::Added(token) => {
            api.state.auth.token_cache.forget(&token.id);
            Ok((StatusCode::CREATED, Json(json!({ "token": text }))))
        }
        TokenAdded::Exists => Err(Refusal::bad("the token has already existed")),
        TokenAdded::TooMany => Err(Refusal::bad("the namespace has as many tokens as it may have")),
    }
}

/// 204 whether or not it was there. Nobody is let in with it any more, at any server.
pub(super) async fn revoke(
    State(api): State<Api>,
    Path((namespace, token)): Path<(String, String)>,
    RawQuery(query): RawQuery,
) -> Result<StatusCode, Refusal> {
    if let Some(token) = find(&api, &namespace, &token, query).await? {
        api.state.store.revoke_token(&token.id).await?;
        api.state.auth.token_cache.forget(&token.id);
    }
    Ok(StatusCode::NO_CONTENT)
}

/// The token of a path: by its text, or by the id that lists show.
///
/// # Errors
/// lmstfy's: there is no such pool, or this is no namespace.
pub(super) async fn find(
    api: &Api,
    namespace: &str,
    token: &str,
    query: Option<String>,
) -> Result<Option<Token>, Refusal> {
    let query = Query::parse(&query.unwrap_or_default());
    let (in_token, text) = token.split_once(':').map_or((None, token), |(pool, text)| (Some(pool), text));
    pool(in_token.or(query.get("pool")))?;
    let tenant: Name = names::tenant(namespace)?;
    let id: TokenId = text.parse().unwrap_or_else(|_| TokenHash::of(text).id());
    let tokens = api.state.store.tokens(Some(&tenant)).await?;
    Ok(tokens.into_iter().find(|token| token.id == id))
}

/// The pool as it was said; there is but one.
fn pool(said: Option<&str>) -> Result<Option<&str>, Refusal> {
    match said {
        None | Some("") => Ok(None),
        Some(POOL) => Ok(said),
        Some(_) => Err(BAD_POOL),
    }
}

/// Where a pool was named, it stands before every token.
fn in_pool(pool: Option<&str>, token: &str) -> String {
    pool.map_or_else(|| token.to_owned(), |pool| format!("{pool}:{token}"))
}

fn generate() -> Result<String, Refusal> {
    let text = TokenText::generate().map_err(|error| {
        tracing::error!(%error, "the system has no randomness for a token");
        Refusal::Internal
    })?;
    Ok(text.as_str().to_owned())
}

fn is_form(headers: &HeaderMap) -> bool {
    let written = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    written.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("application/x-www-form-urlencoded")
}
