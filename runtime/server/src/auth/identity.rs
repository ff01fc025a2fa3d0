//! Who asks, and what they may do.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};

use crate::problem::{Code, Problem};
use crate::state::AppState;
use gristmill_core::job::Name;
pub(crate) use gristmill_core::token::Scope;
use gristmill_core::token::{Token, TokenHash};
use gristmill_store::StoreError;

/// Whoever sent the request.
#[derive(Debug, Clone)]
pub(crate) struct Identity {
    /// None: whoever keeps the server, or anybody on a machine of which no tokens are asked. They may do everything.
    token: Option<Arc<Token>>,
}

impl Identity {
    /// # Errors
    /// The caller has no business in this tenant, or not of this kind. The answer is the same whether or not there is such a
    /// tenant.
    pub(crate) fn may(&self, scope: Scope, tenant: &Name) -> Result<(), Problem> {
        let of = |token: &Arc<Token>| token.tenant.as_ref().is_none_or(|own| own == tenant);
        allow(self.has(scope) && self.token.as_ref().is_none_or(of))
    }

    /// Over all tenants, as whoever keeps the server.
    ///
    /// # Errors
    /// The caller belongs to one tenant.
    pub(crate) fn may_everywhere(&self, scope: Scope) -> Result<(), Problem> {
        allow(self.has(scope) && self.token.as_ref().is_none_or(|token| token.tenant.is_none()))
    }

    /// Who comes with this text, or without one. None: nobody who may come in. Where no tokens are asked for, everybody may.
    ///
    /// # Errors
    /// The store cannot be asked.
    pub(crate) async fn of(state: &AppState, text: Option<&str>) -> Result<Option<Self>, StoreError> {
        let hash = text.map(TokenHash::of);
        if hash.is_some_and(|hash| state.auth.is_own_secret(&hash)) || state.auth.is_open().await? {
            return Ok(Some(Self::anybody()));
        }
        let Some(hash) = hash else { return Ok(None) };
        Ok(state.auth.token_cache.find(&hash).await?.map(|token| Self { token: Some(token) }))
    }

    /// Whoever comes where nobody is asked for a token.
    pub(crate) const fn anybody() -> Self {
        Self { token: None }
    }

    /// The token that the caller came with; none: whoever keeps the server.
    pub(crate) fn token(&self) -> Option<&Token> {
        self.token.as_deref()
    }

    fn has(&self, scope: Scope) -> bool {
        self.token.as_ref().is_none_or(|token| token.scopes.contains(&scope))
    }
}

/// One answer for everything that is not allowed, so that it tells nothing of what is there.
fn allow(allowed: bool) -> Result<(), Problem> {
    if allowed {
        Ok(())
    } else {
        Err(Problem::new(Code::Forbidden, "the token does not allow this; see docs/tenants.md"))
    }
}

/// Who sent a request with these headers.
///
/// # Errors
/// Nobody who may come in, or the store cannot be asked.
pub(crate) async fn identify(state: &AppState, headers: &HeaderMap) -> Result<Identity, Problem> {
    let text = token_text(headers);
    Identity::of(state, text).await?.ok_or_else(|| unknown(text))
}

/// `Authorization: Bearer …`, else `X-Token`. Never from the query: that would be in every log on the way.
fn token_text(headers: &HeaderMap) -> Option<&str> {
    let text = |name: &str| headers.get(name).and_then(|value| std::str::from_utf8(value.as_bytes()).ok());
    let bearer = text(header::AUTHORIZATION.as_str()).and_then(|value| {
        let (scheme, token) = value.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
    });
    bearer.or_else(|| text("x-token")).filter(|text| !text.is_empty())
}

fn unknown(text: Option<&str>) -> Problem {
    match text {
        Some(_) => {
            Problem::new(Code::TokenInvalid, "the token is not known here: it was revoked, has expired, or never was")
        }
        None => {
            Problem::new(Code::TokenMissing, "a token is needed: send it as `Authorization: Bearer …` or `X-Token`")
        }
    }
}

impl<S: Sync> FromRequestParts<S> for Identity {
    type Rejection = Response;

    /// Whoever was not identified is nobody: a route that is not behind the door lets nobody in.
    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Response> {
        parts.extensions.get().cloned().ok_or_else(|| unknown(None).into_response())
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn a_token_comes_in_one_header_or_the_other() {
        let read = |headers: &[(&'static str, &'static [u8])]| {
            let mut map = HeaderMap::new();
            for (name, value) in headers {
                map.append(*name, HeaderValue::from_bytes(value).unwrap());
            }
            token_text(&map).map(str::to_owned)
        };
        type Headers = &'static [(&'static str, &'static [u8])];
        let cases: [(Headers, Option<&str>); 11] = [
            (&[], None),
            (&[("authorization", b"Bearer a")], Some("a")),
            (&[("authorization", b"bearer  a ")], Some("a")),
            (&[("x-token", b"b")], Some("b")),
            (&[("x-token", b"b"), ("authorization", b"Bearer a")], Some("a")),
            (&[("x-token", b"b"), ("authorization", b"Basic YTpi")], Some("b")),
            (&[("authorization", b"Basic YTpi")], None),
            (&[("authorization", b"Bearer")], None),
            (&[("authorization", b"Bearer ")], None),
            (&[("x-token", b"")], None),
            (&[("x-token", b"\xff")], None),
        ];
        for (headers, expected) in cases {
            assert_eq!(read(headers).as_deref(), expected, "{headers:?}");
        }
    }
}
