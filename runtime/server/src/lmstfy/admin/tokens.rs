//! Tokens of a namespace. Only their ids can be shown: their texts are not kept.

use std::collections::{BTreeMap, BTreeSet};

use axum::Json;
use axum::body::Bytes;
use axum::extract::{FromRequestParts, Path, RawQuery, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use serde_json::{Value, json};

use crate::audit::RequestFacts;
use crate::lmstfy::api::Api;
use crate::lmstfy::client::POOL;
use crate::lmstfy::names;
use crate::lmstfy::query::Query;
use crate::lmstfy::refusal::Refusal;
use gristmill_core::job::Name;
use gristmill_core::token::{DESCRIPTION_BYTES, NewToken, Scope, Token, TokenHash, TokenId, TokenLimits, TokenText};
use gristmill_store::TokenAdded;

/// Characters of a token whose text the caller chooses.
const SHORTEST: usize = 20;
/// Bytes of a namespace, as in lmstfy.
const LONGEST_NAMESPACE: usize = 255;

/// The token that a path names, by its text or by the id that lists show. `None` if there is none.
pub(super) struct NamedToken(pub(super) Option<Token>);

impl FromRequestParts<Api> for NamedToken {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, Refusal> {
        let path = Path::<(String, String)>::from_request_parts(parts, &()).await;
        let Path((namespace, token)) = path.map_err(|_| Refusal::NO_API)?;
        let query = Query::parse(parts.uri.query().unwrap_or_default());
        let (in_token, text) = split_pool(&token);
        pool(in_token.or(query.get("pool")))?;
        let tenant: Name = names::tenant(&namespace)?;
        let id: TokenId = text.parse().unwrap_or_else(|_| TokenHash::of(text).id());
        let tokens = api.state.store.tokens(Some(&tenant)).await?;
        Ok(Self(tokens.into_iter().find(|token| token.id == id)))
    }
}

pub(super) async fn list(
    State(api): State<Api>,
    Path(namespace): Path<String>,
    RawQuery(query): RawQuery,
) -> Result<Json<Value>, Refusal> {
    let query = Query::parse(&query.unwrap_or_default());
    let pool = pool(query.get("pool"))?;
    let tokens = api.state.store.tokens(Some(&names::tenant(&namespace)?)).await?;
    // A pool that the request names stands before every token.
    let name = |id: &TokenId| pool.map_or_else(|| id.to_string(), |pool| format!("{pool}:{id}"));
    let tokens: BTreeMap<String, String> =
        tokens.into_iter().map(|token| (name(&token.id), token.description)).collect();
    Ok(Json(json!({ "tokens": tokens })))
}

/// Adds a token and answers with its text, which is not shown again.
pub(super) async fn add(
    State(api): State<Api>,
    Path(namespace): Path<String>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
    facts: RequestFacts,
    body: Bytes,
) -> Result<(StatusCode, Json<Value>), Refusal> {
    let query = Query::parse(&query.unwrap_or_default());
    // lmstfy reads the pool from the query alone.
    let pool_in_query = query.get("pool").map(str::to_owned);
    let query = if is_form(&headers) { query.with_form(&body) } else { query };
    let (new, text) = new_token(&namespace, &query, pool_in_query.as_deref())?;
    match api.state.store.add_token(&new).await? {
        TokenAdded::Added(token) => {
            api.state.auth.token_cache.forget(&token.id);
            facts.made(token.id.as_str());
            Ok((StatusCode::CREATED, Json(json!({ "token": text }))))
        }
        TokenAdded::Exists => Err(Refusal::bad("the token has already existed")),
        TokenAdded::MakerGone => Err(Refusal::Internal),
        TokenAdded::TooMany => Err(Refusal::bad("the namespace has as many tokens as it may have")),
    }
}

/// The token to be added, and its text: the one that the request has, or a new one.
fn new_token(namespace: &str, query: &Query, pool_in_query: Option<&str>) -> Result<(NewToken, String), Refusal> {
    let description = query.get("description").unwrap_or_default();
    if description.is_empty() || description.len() > DESCRIPTION_BYTES {
        return Err(Refusal::bad("invalid description"));
    }
    let token = query.get("token").unwrap_or_default();
    if !token.is_empty() && token.len() < SHORTEST {
        return Err(Refusal::bad("the user token was too short"));
    }
    if namespace.len() > LONGEST_NAMESPACE {
        return Err(Refusal::bad("the namespace name was too long"));
    }
    let tenant = names::tenant(namespace)?;
    let (pool_in_token, text) = split_pool(token);
    pool(pool_in_token.or(pool_in_query))?;
    let text = match text {
        "" => TokenText::generate().map_err(Refusal::internal)?.as_str().to_owned(),
        text => text.to_owned(),
    };
    let new = NewToken {
        hash: TokenHash::of(&text),
        tenant: Some(tenant),
        scopes: scopes(query.get("scope"))?,
        description: description.to_owned(),
        limits: TokenLimits::default(),
        expires_in: None,
        made_by: None,
    };
    Ok((new, text))
}

/// The scopes that a request names, with commas between them; those of all that lmstfy's tokens may do if it names none.
fn scopes(named: Option<&str>) -> Result<BTreeSet<Scope>, Refusal> {
    let Some(named) = named else { return Ok([Scope::Push, Scope::Work, Scope::Read, Scope::Lmstfy].into()) };
    named.split(',').map(|scope| scope.parse().map_err(|_| Refusal::bad("invalid scope"))).collect()
}

/// Revokes a token, on every server. 204 whether or not there was one.
pub(super) async fn revoke(State(api): State<Api>, NamedToken(token): NamedToken) -> Result<StatusCode, Refusal> {
    if let Some(token) = token {
        api.state.store.revoke_token(&token.id).await?;
        api.state.auth.token_cache.forget(&token.id);
    }
    Ok(StatusCode::NO_CONTENT)
}

/// The pool that stands before a token, and the token.
fn split_pool(token: &str) -> (Option<&str>, &str) {
    token.split_once(':').map_or((None, token), |(pool, text)| (Some(pool), text))
}

/// The pool that a request names. There is only one.
fn pool(named: Option<&str>) -> Result<Option<&str>, Refusal> {
    match named {
        None | Some("") => Ok(None),
        Some(POOL) => Ok(named),
        Some(_) => Err(Refusal::bad("the pool was not exists")),
    }
}

fn is_form(headers: &HeaderMap) -> bool {
    let media_type = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    media_type.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("application/x-www-form-urlencoded")
}
