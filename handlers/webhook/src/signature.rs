//! Signatures as <https://www.standardwebhooks.com> has them: HMAC-SHA256 over `id.timestamp.body`.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use gristmill_guest::Failure;
use hmac::{Hmac, Mac};
use sha2::Sha256;

/// What a webhook is signed with.
pub(crate) struct Key(Vec<u8>);

impl Key {
    /// `whsec_` and Base64, as it is handed out; anything else is the key's own bytes.
    ///
    /// # Errors
    /// Retries: the operator can correct it while the job waits. The message does not repeat it.
    pub(crate) fn read(secret: &[u8]) -> Result<Self, Failure> {
        let Some(encoded) = secret.strip_prefix(b"whsec_") else { return Ok(Self(secret.to_vec())) };
        let key = STANDARD.decode(encoded.trim_ascii());
        let bad = |_| Failure::retry("bad-secret", "the secret begins with whsec_, but no Base64 follows");
        key.map(Self).map_err(bad)
    }

    /// The value of `webhook-signature`.
    pub(crate) fn sign(&self, id: &str, timestamp: u64, body: &[u8]) -> String {
        // A key of any length will do for HMAC.
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(&self.0) else { return String::new() };
        mac.update(format!("{id}.{timestamp}.").as_bytes());
        mac.update(body);
        format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
    }
}
