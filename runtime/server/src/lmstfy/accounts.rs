//! The accounts of the admin API: basic authentication (RFC 7617), as in lmstfy.

use std::collections::BTreeMap;

use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use gristmill_config::Password;

/// Names and passwords. Without any, every client that can reach the listener may use the API.
#[derive(Debug, Clone)]
pub(super) struct Accounts(pub(super) BTreeMap<String, Password>);

impl Accounts {
    /// Whether a request with these headers may use the API.
    pub(super) fn allow(&self, headers: &HeaderMap) -> bool {
        self.0.is_empty() || credentials(headers).is_some_and(|(user, password)| self.has(&user, &password))
    }

    /// The answer to a request that may not.
    pub(super) fn refusal() -> Response {
        let realm = HeaderValue::from_static("Basic realm=\"Authorization Required\"");
        (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, realm)]).into_response()
    }

    /// Looks at every account, so that the time it takes does not show whether there is such a user.
    fn has(&self, user: &str, password: &str) -> bool {
        self.0.iter().fold(false, |found, (name, expected)| found | (expected.is(password.as_bytes()) & (name == user)))
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

    #[test]
    fn only_a_user_with_its_own_password_is_allowed() {
        let password = |text: &str| Password::of(text.as_bytes());
        let accounts = Accounts([("ann".into(), password("a:1")), ("bob".into(), password("b2"))].into());
        let allowed = |said: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::AUTHORIZATION, said.parse().unwrap());
            accounts.allow(&headers)
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
        assert!(!allowed("Basic !") && !allowed("Bearer b2") && !accounts.allow(&HeaderMap::new()));
        assert!(Accounts(BTreeMap::new()).allow(&HeaderMap::new()));
    }
}
