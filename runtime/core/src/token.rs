//! Tokens: what a client sends to identify itself, and what it may do.
//!
//! A token's text is shown once, when it is made. Stores keep its SHA-256, which is enough to recognise it; a text as long as
//! those made here cannot be found from its hash.

use std::collections::BTreeSet;
use std::fmt;
use std::num::NonZero;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::job::Name;
use crate::json::schema;
use crate::time::Timestamp;

/// How many tokens a tenant may have, and how many may be for all tenants.
pub const TOKENS_PER_TENANT: usize = 1000;

/// Hex digits of a token's id.
const ID_DIGITS: usize = 16;

/// Bytes of a description.
pub const DESCRIPTION_BYTES: usize = 1024;

/// What a client may do in a tenant, or in all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Scope {
    /// Push jobs.
    Push,
    /// Claim and settle jobs.
    Work,
    /// Read jobs and topics.
    Read,
    /// Everything else: cancel, pause, respawn, delete, components, tokens.
    Admin,
    /// By lmstfy's API alone, undo the work of others as lmstfy's tokens may: respawn and delete dead letters, destroy queues, end any job.
    Lmstfy,
}

/// A token's text. Not shown by `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub struct TokenText(String);

/// SHA-256 of a token's text. As text: 64 hex digits.
#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TokenHash([u8; 32]);

/// The first 16 hex digits of a token's hash: enough for people to distinguish tokens, and no secret.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TokenId(Arc<str>);

schema!(inline TokenHash: { "type": "string", "pattern": "^[0-9a-f]{64}$" });
schema!(named TokenId: {
    "type": "string",
    "pattern": "^[0-9a-f]{16}$",
    "description": "The first digits of the SHA-256 of the token's text.",
});

/// The text is not a token's id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no token's id: it is 16 of 0-9 a-f, as `gristmill token list` shows them")]
pub struct BadTokenId(pub String);

/// The bytes are not a hash: it has 32.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a token's hash is 64 of 0-9 a-f")]
pub struct BadTokenHash;

/// A token that is to be stored.
#[derive(Debug, Clone)]
pub struct NewToken {
    /// The hash of its text.
    pub hash: TokenHash,
    /// `None` for all tenants.
    pub tenant: Option<Name>,
    /// What it allows.
    pub scopes: BTreeSet<Scope>,
    /// For people; at most [`DESCRIPTION_BYTES`].
    pub description: String,
    /// How often it may be used.
    pub limits: TokenLimits,
    /// How long it is valid; `None` until it is revoked.
    pub expires_in: Option<Duration>,
    /// The token with which it is made, with which it ends; `None` if the operator makes it without one.
    pub made_by: Option<TokenId>,
}

/// A token as it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Token {
    /// The id, which is no secret.
    pub id: TokenId,
    /// Left empty for all tenants.
    pub tenant: Option<Name>,
    /// What it allows.
    pub scopes: BTreeSet<Scope>,
    /// What its maker wrote about it.
    pub description: String,
    /// By the store's clock, as everything here.
    #[serde(rename = "created_at_ms")]
    pub created_at: Timestamp,
    /// From then on it is refused.
    #[serde(rename = "expires_at_ms")]
    pub expires_at: Option<Timestamp>,
    /// How often it may be used.
    pub limits: TokenLimits,
    /// The token with which it was made. It ends with that one. Its requests also count against the limits of that one.
    #[serde(default)]
    pub made_by: Option<TokenId>,
}

/// Whether requests need a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenRequirement {
    /// No token was ever added.
    NeverSet,
    /// There is a token, an expired one included, or there was one. The end of the last token opens no server.
    Required,
    /// The operator said that requests need no token any more, and none was added since.
    Lifted,
}

/// How many requests may be made with a token.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TokenLimits {
    /// Requests in a second; no limit if it is not there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<Rate>,
    /// For clients of lmstfy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throttle: Option<Throttle>,
}

/// Requests a second in the long run, and how many may come at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Rate {
    /// Requests in a second, in the long run.
    pub per_second: NonZero<u32>,
    /// Requests at once, after a pause.
    pub burst: NonZero<u32>,
}

/// lmstfy's limits: publishes and consumes in each interval; 0 is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Throttle {
    /// Consumes in an interval; 0 is no limit.
    pub read: u32,
    /// Publishes in an interval; 0 is no limit.
    pub write: u32,
    /// The length of an interval, in seconds.
    pub interval_s: NonZero<u32>,
}

impl Scope {
    /// All scopes.
    pub const ALL: [Self; 5] = [Self::Push, Self::Work, Self::Read, Self::Admin, Self::Lmstfy];

    /// The name, in lower case.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Push => "push",
            Self::Work => "work",
            Self::Read => "read",
            Self::Admin => "admin",
            Self::Lmstfy => "lmstfy",
        }
    }
}

/// The text is not a scope.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no scope: there are push, work, read, admin and lmstfy")]
pub struct BadScope(pub String);

impl FromStr for Scope {
    type Err = BadScope;

    fn from_str(text: &str) -> Result<Self, BadScope> {
        Self::ALL.into_iter().find(|scope| scope.as_str() == text).ok_or_else(|| BadScope(text.into()))
    }
}

impl TokenText {
    /// The beginning of every text made here, so that people and scanners for secrets recognise it.
    pub const MARK: &str = "gm_";

    /// A new one: `gm_` and 43 characters, which are 256 bits of the system's randomness.
    ///
    /// # Errors
    /// The system has none to give.
    pub fn generate() -> Result<Self, getrandom::Error> {
        let mut random = [0; 32];
        getrandom::fill(&mut random)?;
        Ok(Self(format!("{}{}", Self::MARK, URL_SAFE_NO_PAD.encode(random))))
    }

    /// A text for the log: what looks like the text of a token is masked.
    pub fn masked(text: &str) -> String {
        let is_of_token = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        let mut parts = text.split(Self::MARK);
        let first = parts.next().unwrap_or_default().to_owned();
        parts.fold(first, |masked, part| masked + Self::MARK + "…" + part.trim_start_matches(is_of_token))
    }

    /// The text itself: a secret, which is in no store and in no log.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The hash by which the store knows it.
    pub fn hash(&self) -> TokenHash {
        TokenHash::of(&self.0)
    }
}

/// A text that a client sent.
impl From<String> for TokenText {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl fmt::Debug for TokenText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenText(***)")
    }
}

impl TokenHash {
    /// The hash of any text: clients that move here may bring their own tokens.
    pub fn of(text: &str) -> Self {
        Self(Sha256::digest(text.as_bytes()).into())
    }

    /// The hash of these 32 bytes.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, BadTokenHash> {
        bytes.try_into().map(Self).map_err(|_| BadTokenHash)
    }

    /// The 32 bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The id of the token with this hash.
    pub fn id(&self) -> TokenId {
        TokenId(String::from(*self).get(..ID_DIGITS).unwrap_or_default().into())
    }

    /// Whether both are the same, in constant time.
    #[must_use]
    pub fn is(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl fmt::Debug for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TokenHash({}…)", self.id())
    }
}

impl TryFrom<String> for TokenHash {
    type Error = BadTokenHash;

    fn try_from(text: String) -> Result<Self, BadTokenHash> {
        let mut bytes = [0; 32];
        hex::decode_to_slice(&text, &mut bytes).map_err(|_| BadTokenHash)?;
        if is_lower_hex(&text) { Ok(Self(bytes)) } else { Err(BadTokenHash) }
    }
}

impl From<TokenHash> for String {
    fn from(hash: TokenHash) -> Self {
        hex::encode(hash.0)
    }
}

/// So that one hash has one text.
fn is_lower_hex(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

impl TokenId {
    /// The text itself.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for TokenId {
    type Err = BadTokenId;

    fn from_str(text: &str) -> Result<Self, BadTokenId> {
        let fits = text.len() == ID_DIGITS && is_lower_hex(text);
        if fits { Ok(Self(text.into())) } else { Err(BadTokenId(text.into())) }
    }
}

impl TryFrom<String> for TokenId {
    type Error = BadTokenId;

    fn try_from(text: String) -> Result<Self, BadTokenId> {
        text.parse()
    }
}

impl From<TokenId> for String {
    fn from(id: TokenId) -> Self {
        id.as_str().to_owned()
    }
}

impl fmt::Display for TokenId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl NewToken {
    /// The token as it is from now on.
    pub fn stored_at(&self, now: Timestamp) -> Token {
        Token {
            id: self.hash.id(),
            tenant: self.tenant.clone(),
            scopes: self.scopes.clone(),
            description: self.description.clone(),
            created_at: now,
            expires_at: self.expires_in.map(|time| now.plus(time)),
            limits: self.limits,
            made_by: self.made_by.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_looks_like_a_token_is_masked_in_a_log() {
        let token = TokenText::generate().unwrap();
        let masked = TokenText::masked(&format!("/v1/tokens/{0}/limits?x=default:{0}", token.as_str()));
        assert_eq!(masked, "/v1/tokens/gm_…/limits?x=default:gm_…");
        assert_eq!(TokenText::masked("/v1/jobs"), "/v1/jobs");
    }

    #[test]
    fn a_new_text_is_long_and_unlike_any_other() {
        let (one, other) = (TokenText::generate().unwrap(), TokenText::generate().unwrap());
        assert_ne!(one, other);
        assert!(one.as_str().starts_with("gm_") && one.as_str().len() == 46, "{}", one.as_str().len());
        assert!(!format!("{one:?}").contains(one.as_str()));
    }

    #[test]
    fn an_id_is_the_beginning_of_the_hash() {
        // sha256("abc"), FIPS 180-2.
        let hash = TokenHash::of("abc");
        let hex = String::from(hash);
        assert_eq!(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert_eq!(hash.id().as_str(), "ba7816bf8f01cfea");
        assert_eq!(hash.id().to_string().parse(), Ok(hash.id()));
        assert!(TokenHash::try_from(hex.clone()).unwrap().is(&hash));
        assert!(!TokenHash::of("abd").is(&hash));
        for bad in ["", "ba78", &hex[1..], &hex.to_uppercase(), &format!("{hex}0"), &format!("{hex}00")] {
            assert!(TokenHash::try_from(bad.to_owned()).is_err(), "{bad}");
        }
        for bad in ["", "ba7816bf8f01cfe", "ba7816bf8f01cfeaa", "BA7816BF8F01CFEA", "ba7816bf8f01cfe/"] {
            assert!(bad.parse::<TokenId>().is_err(), "{bad}");
        }
    }

    #[test]
    fn scopes_are_read_as_they_are_written() {
        for scope in Scope::ALL {
            assert_eq!(scope.as_str().parse(), Ok(scope));
            assert_eq!(serde_json::to_value(scope).unwrap(), scope.as_str());
        }
        assert!("all".parse::<Scope>().is_err());
    }
}
