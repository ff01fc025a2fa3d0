//! Who may use the admin API: basic authentication (RFC 7617), as lmstfy has it.

use std::collections::BTreeMap;

use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use gristmill_config::Password;

/// Names and passwords. With none at all, everybody may come in who can reach the door.
#[derive(Debug, Clone)]
pub(super) struct Accounts(pub(super) BTreeMap<String, Password>);

impl Accounts {
    /// Whether a request with these headers comes from one of them.
    pub(super) fn let_in(&self, headers: &HeaderMap) -> bool {
        self.0.is_empty() || said(headers).is_some_and(|(user, password)| self.is_one(&user, &password))
    }

    /// What to answer to whoever is none of them.
    pub(super) fn refusal() -> Response {
        let realm = HeaderValue::from_static("Basic realm=\"Authorization Required\"");
        (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, realm)]).into_response()
    }

    /// Looks at every account, so that it takes as long whether or not there is such a user.
    fn is_one(&self, user: &str, password: &str) -> bool {
        self.0.iter().fold(false, |found, (name, expected)| found | (expected.is(password.as_bytes()) & (name == user)))
    }
}

fn said(headers: &HeaderMap) -> Option<(String, String)> {
    let said = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, credentials) = said.split_once(' ')?;
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
    fn only_a_user_with_its_own_password_is_let_in() {
        let password = |text: &str| Password::of(text.as_bytes());
        let accounts = Accounts([("ann".into(), password("a:1")), ("bob".into(), password("b2"))].into());
        let let_in = |said: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::AUTHORIZATION, said.parse().unwrap());
            accounts.let_in(&headers)
        };
        let basic = |text: &str| format!("Basic {}", STANDARD.encode(text));
        assert!(
            let_in(&basic("ann:a:1")) && let_in(&basic("bob:b2")) && let_in(&basic("bob:b2").replace("Basic", "basic"))
        );
        for wrong in ["ann:b2", "ann:", "ann", ":b2", "eve:b2", "bob:b2 "] {
            assert!(!let_in(&basic(wrong)), "{wrong}");
        }
        assert!(!let_in("Basic !") && !let_in("Bearer b2") && !accounts.let_in(&HeaderMap::new()));
        assert!(Accounts(BTreeMap::new()).let_in(&HeaderMap::new()));
    }
}
