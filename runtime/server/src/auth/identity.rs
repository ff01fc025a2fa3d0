//! The identity behind a request, and what it may do.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};

use super::Auth;
use super::token_cache::KnownToken;
use crate::audit::{ClientKind, RequestFacts};
use crate::problem::{Code, Problem};
use gristmill_core::job::Name;
pub(crate) use gristmill_core::token::Scope;
use gristmill_core::token::{Token, TokenHash};

/// Characters of a description that name an actor.
const ACTOR_CHARS: usize = 100;

/// The identity that sent a request.
#[derive(Debug, Clone)]
pub(crate) enum Identity {
    /// Any client where requests need no token. It may do everything.
    Anybody,
    /// A command on this machine, with the server's own secret. It may do everything.
    Operator,
    Token(Arc<KnownToken>),
}

impl Identity {
    /// # Errors
    /// The token lacks the scope, or belongs to another tenant. The answer is the same whether or not the tenant exists.
    pub(crate) fn may(&self, scope: Scope, tenant: &Name) -> Result<(), Problem> {
        let of = |token: &Token| token.tenant.as_ref().is_none_or(|own| own == tenant);
        let allowed =
            self.allow(self.has(scope) && self.token().is_none_or(of), scope, &format!("of tenant `{tenant}`"));
        let own = self.tenant().filter(|_| self.has(scope)).cloned();
        allowed.map_err(|problem| Problem { tenant: own, ..problem })
    }

    /// The same in some tenant, where the request does not say in which before it is read.
    ///
    /// # Errors
    /// The token lacks the scope.
    pub(crate) fn may_somewhere(&self, scope: Scope) -> Result<(), Problem> {
        self.allow(self.has(scope), scope, "of a tenant")
    }

    /// The same over all tenants.
    ///
    /// # Errors
    /// The token lacks the scope, or belongs to one tenant.
    pub(crate) fn may_everywhere(&self, scope: Scope) -> Result<(), Problem> {
        self.allow(self.has(scope) && self.is_operator(), scope, "of all tenants")
    }

    /// The tenant that it is for. `None`: all.
    pub(crate) fn tenant(&self) -> Option<&Name> {
        self.token().and_then(|token| token.tenant.as_ref())
    }

    /// Whether it is for all tenants.
    pub(crate) fn is_operator(&self) -> bool {
        self.token().is_none_or(|token| token.tenant.is_none())
    }

    /// Finds the identity for a token's text. Returns `None` if there is none. Where requests need no token, every request has
    /// one.
    ///
    /// # Errors
    /// The store cannot be asked, or too many wrong tokens came from this address.
    pub(crate) async fn of(auth: &Auth, text: Option<&str>, from: IpAddr) -> Result<Option<Self>, Problem> {
        let hash = text.map(TokenHash::of);
        if hash.is_some_and(|hash| auth.is_own_secret(&hash)) {
            return Ok(Some(Self::Operator));
        }
        if auth.is_open().await? {
            return Ok(Some(Self::Anybody));
        }
        let Some(hash) = hash else { return Ok(None) };
        Ok(auth.find_token(&hash, from).await?.map(Self::Token))
    }

    /// The token of the request. Returns `None` for a request that needs none.
    pub(crate) fn token(&self) -> Option<&Token> {
        self.known().map(|known| &known.token)
    }

    /// The token of the request, then those with which it was made.
    pub(crate) fn tokens(&self) -> impl Iterator<Item = &Token> {
        self.known().into_iter().flat_map(|known| std::iter::once(&known.token).chain(&known.makers))
    }

    /// Who it is, for people: the token's description and id, or `operator` without a token.
    pub(crate) fn actor(&self) -> String {
        match self.token() {
            Some(Token { id, description, .. }) if description.is_empty() => id.to_string(),
            Some(Token { id, description, .. }) => {
                format!("{} ({id})", description.chars().take(ACTOR_CHARS).collect::<String>())
            }
            None => "operator".into(),
        }
    }

    fn known(&self) -> Option<&KnownToken> {
        match self {
            Self::Anybody | Self::Operator => None,
            Self::Token(known) => Some(known),
        }
    }

    /// Notes for the audit log whose request this is.
    pub(crate) fn note_in(&self, facts: &RequestFacts) {
        let client = match self {
            Self::Anybody => ClientKind::Anybody,
            Self::Operator => ClientKind::Command,
            Self::Token(_) => ClientKind::Token,
        };
        facts.identified(client, self.token(), || self.actor());
    }

    /// One answer for everything that is not allowed, so that it says nothing of what is there: only what the token is for.
    fn allow(&self, allowed: bool, needed: Scope, of: &str) -> Result<(), Problem> {
        if allowed {
            return Ok(());
        }
        let token = self.token();
        let scopes = token.into_iter().flat_map(|token| &token.scopes).map(|scope| format!("`{}`", scope.as_str()));
        let scopes = scopes.collect::<Vec<_>>().join(", ");
        let has = if scopes.is_empty() { "no scope".to_owned() } else { scopes };
        let whose = match self.tenant() {
            Some(tenant) => format!("tenant `{tenant}`"),
            None => "all tenants".to_owned(),
        };
        let needed = needed.as_str();
        let detail = format!(
            "the token does not allow this: it takes the scope `{needed}` {of}, and the token has {has}, for {whose}; see docs/guides/tenants.md"
        );
        Err(Problem::new(Code::Forbidden, detail))
    }

    /// Whether it has the scope somewhere.
    pub(crate) fn has(&self, scope: Scope) -> bool {
        self.token().is_none_or(|token| token.scopes.contains(&scope))
    }
}

/// Finds the identity of a request with these headers, from this address.
///
/// # Errors
/// The token is missing or not valid, too many wrong ones came from the address, or the store is unavailable.
pub(crate) async fn identify(auth: &Auth, headers: &HeaderMap, from: IpAddr) -> Result<Identity, Problem> {
    let text = token_text(headers);
    Identity::of(auth, text, from).await?.ok_or_else(|| unknown(text))
}

/// Whether a request brings a token, right or wrong.
pub(crate) fn has_token(headers: &HeaderMap) -> bool {
    token_text(headers).is_some()
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

pub(super) fn unknown(text: Option<&str>) -> Problem {
    match text {
        Some(text) => {
            let detail = "the token is not known here: it was revoked, has expired, or never was";
            Problem::new(Code::TokenInvalid, format!("{detail}{}", beside_token(text)))
        }
        None => {
            Problem::new(Code::TokenMissing, "a token is needed: send it as `Authorization: Bearer …` or `X-Token`")
        }
    }
}

/// What was copied with a token, and is no part of it.
fn beside_token(text: &str) -> &'static str {
    if text.get(..7).is_some_and(|begin| begin.eq_ignore_ascii_case("bearer ")) {
        return "; it begins with `Bearer `, which is no part of a token: leave that out";
    }
    let is_quoted = |quote: char| text.starts_with(quote) || text.ends_with(quote);
    if is_quoted('"') || is_quoted('\'') { "; it is in quotation marks: leave them out" } else { "" }
}

impl<S: Sync> FromRequestParts<S> for Identity {
    type Rejection = Response;

    /// Refuses a request that the server has not authenticated.
    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Response> {
        parts.extensions.get().cloned().ok_or_else(|| unknown(None).into_response())
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn what_is_copied_with_a_token_is_named() {
        let said = |text| unknown(Some(text)).detail;
        for text in ["Bearer gm_1", "bearer gm_1"] {
            assert!(said(text).ends_with("leave that out"), "{}", said(text));
        }
        for text in ["\"gm_1\"", "'gm_1'", "gm_1\""] {
            assert!(said(text).ends_with("it is in quotation marks: leave them out"), "{}", said(text));
        }
        assert!(said("gm_1").ends_with("or never was"));
    }

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
