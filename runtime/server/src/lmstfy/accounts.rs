//! The accounts of the admin API: basic authentication (RFC 7617), as in lmstfy.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::num::NonZero;
use std::sync::Arc;

use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::limits::Guesses;
use crate::problem::Problem;
use gristmill_config::Password;

/// Wrong passwords that an address may send in a second in the long run, and at once.
const PER_SECOND: NonZero<u32> = NonZero::<u32>::MIN;
const AT_ONCE: NonZero<u32> = NonZero::<u32>::MIN.saturating_add(9);

/// Names and passwords. Without any, every client that can reach the listener may use the API. Clones share them.
#[derive(Debug, Clone)]
pub(super) struct Accounts(Arc<(BTreeMap<String, Password>, Guesses)>);

impl Accounts {
    pub(super) fn new(passwords: BTreeMap<String, Password>) -> Self {
        Self(Arc::new((passwords, Guesses::new(PER_SECOND, AT_ONCE))))
    }

    /// Whether a request with these headers may use the API.
    ///
    /// # Errors
    /// Too many wrong passwords came from this address.
    pub(super) fn check(&self, headers: &HeaderMap, address: IpAddr) -> Result<bool, Problem> {
        let (passwords, guesses) = &*self.0;
        if passwords.is_empty() {
            return Ok(true);
        }
        let Some((user, password)) = credentials(headers) else { return Ok(false) };
        guesses.may_try(address)?;
        let allowed = self.has(&user, &password);
        if !allowed {
            guesses.failed(address);
            tracing::warn!(%address, user = user.escape_debug().to_string(), "a wrong password for lmstfy's admin API");
        }
        Ok(allowed)
    }

    /// The account of a request with these headers that may use the API. Returns `None` if none is needed.
    pub(super) fn user(&self, headers: &HeaderMap) -> Option<String> {
        let (user, _) = credentials(headers).filter(|_| !self.0.0.is_empty())?;
        Some(user)
    }

    /// The answer to a request that may not.
    pub(super) fn refusal() -> Response {
        let realm = HeaderValue::from_static("Basic realm=\"Authorization Required\"");
        (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, realm)]).into_response()
    }

    /// Looks at every account, so that the time it takes does not show whether there is such a user.
    fn has(&self, user: &str, password: &str) -> bool {
        self.0
            .0
            .iter()
            .fold(false, |found, (name, expected)| found | (expected.is(password.as_bytes()) & (name == user)))
    }
}

fn credentials(headers: &HeaderMap) -> Option<(String, String)> {
    let header = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, credentials) = header.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let text = String::from_utf8(STANDARD.decode(credentials.trim()).ok()?).ok()?;
    let (user, password) = text.split_once(':')?;
    Some((user.to_owned(), password.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    #[test]
    fn only_a_user_with_its_own_password_is_allowed() {
        let password = |text: &str| Password::of(text.as_bytes());
        let accounts = Accounts::new([("ann".into(), password("a:1")), ("bob".into(), password("b2"))].into());
        let allowed = |said: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::AUTHORIZATION, said.parse().unwrap());
            accounts.check(&headers, HERE).is_ok_and(|allowed| allowed)
        };
        let basic = |text: &str| format!("Basic {}", STANDARD.encode(text));
        assert!(
            allowed(&basic("ann:a:1"))
                && allowed(&basic("bob:b2"))
                && allowed(&basic("bob:b2").replace("Basic", "basic"))
        );
        for wrong in ["ann:b2", "ann:", "ann", ":b2", "eve:b2", "bob:b2 "] {
            assert!(!allowed(&basic(wrong)), "{wrong}");
        }
        assert!(!allowed("Basic !") && !allowed("Bearer b2") && accounts.check(&HeaderMap::new(), HERE) == Ok(false));
        assert_eq!(Accounts::new(BTreeMap::new()).check(&HeaderMap::new(), HERE), Ok(true));
    }
}
