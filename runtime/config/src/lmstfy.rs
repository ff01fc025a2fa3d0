//! `[lmstfy]`: the API for clients of lmstfy.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::Path;

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use super::grants::{self, Secrets};
use super::read::Section;

/// `[lmstfy]`: lmstfy's API under `/api`, and its admin API at an address of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LmstfySettings {
    /// Whether there is an `/api`.
    pub enabled: bool,
    /// None: there is no admin API.
    pub admin: Option<SocketAddr>,
    /// Who may use the protected part of the admin API. If empty, every client that can reach it may.
    pub accounts: BTreeMap<String, Password>,
}

/// A password, of which only the SHA-256 is kept.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Password([u8; 32]);

impl Default for LmstfySettings {
    /// `/api` allows no client more than `/v1` does, so it is on; the admin API has to be asked for.
    fn default() -> Self {
        Self { enabled: true, admin: None, accounts: BTreeMap::new() }
    }
}

impl Password {
    /// Hashes a password.
    pub fn of(text: &[u8]) -> Self {
        Self(Sha256::digest(text).into())
    }

    /// Whether it is this one. Takes as long whether both differ early, late or not at all.
    pub fn is(&self, text: &[u8]) -> bool {
        let other = Self::of(text);
        self.0.ct_eq(&other.0).into()
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password(***)")
    }
}

/// Paths are relative to `folder`, the manifest's.
pub(super) fn lmstfy(root: &mut Section<'_>, folder: &Path, secrets: Secrets) -> LmstfySettings {
    let mut lmstfy = LmstfySettings::default();
    let Some(mut section) = root.section("lmstfy") else { return lmstfy };
    section.boolean("enabled", &mut lmstfy.enabled);
    let admin = section.address("admin", "127.0.0.1:7778");
    let (accounts, some) = accounts(&mut section, folder, secrets);
    lmstfy.accounts = accounts;
    if let Some((Some(address), span)) = admin {
        if address.ip().is_loopback() || some {
            lmstfy.admin = Some(address);
        } else {
            let title = "`admin` in [lmstfy] is not a loopback address, and there are no accounts";
            let help =
                "every client that reaches it could make tokens: use 127.0.0.1 or [::1], or name [lmstfy.accounts]";
            section.problems().report(span, title, help);
        }
    }
    section.finish();
    lmstfy
}

/// Names and passwords, and whether any are written down; passwords are not read by commands that run no server.
fn accounts(section: &mut Section<'_>, folder: &Path, secrets: Secrets) -> (BTreeMap<String, Password>, bool) {
    let mut accounts = BTreeMap::new();
    let Some(inner) = section.section("accounts") else { return (accounts, false) };
    let (problems, mut some) = (inner.problems(), false);
    for (name, place, value) in inner.entries() {
        some = true;
        if name.is_empty() || name.contains(':') {
            problems
                .add(problems.at(place, format!("`{name}` cannot be a user: a name is not empty and has no colon")));
        } else if secrets == Secrets::Read
            && let Some(password) = grants::secret(name, value, false, folder, problems)
        {
            if password.is_empty() {
                problems.add(problems.at(value.span(), format!("the password of `{name}` is empty")));
            }
            accounts.insert(name.to_owned(), Password::of(&password));
        }
    }
    (accounts, some)
}
