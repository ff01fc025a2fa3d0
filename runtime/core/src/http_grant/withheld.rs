//! Secrets that a handler never sees, since only requests need them.

use std::fmt;
use std::ops::RangeInclusive;

use url::Url;

use super::HostPattern;

/// Bytes of such a secret. A shorter one could stand in any answer by chance, and is replaced there; a longer one does not fit into headers.
pub const WITHHELD_BYTES: RangeInclusive<usize> = 8..=16 << 10;

/// A secret that the host puts into requests to some hosts. The handler gets a placeholder for it.
#[derive(Clone, PartialEq, Eq)]
pub struct Withheld {
    /// Where the handler finds the placeholder.
    pub kind: WithheldKind,
    /// Its name there.
    pub name: String,
    /// As many as [`WITHHELD_BYTES`] says; of a variable, UTF-8.
    pub bytes: Vec<u8>,
    /// Where requests may carry it. The topic's grant allows them too.
    pub hosts: Vec<HostPattern>,
}

/// How a handler asks for a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WithheldKind {
    /// By `config.secret`.
    Secret,
    /// As a variable of its environment.
    Variable,
}

impl Withheld {
    /// Whether a request to this URL may carry it.
    pub fn may_go_to(&self, url: &Url) -> bool {
        self.hosts.iter().any(|pattern| pattern.matches(url))
    }
}

impl fmt::Debug for Withheld {
    /// All but the secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, name, bytes: _, hosts } = self;
        f.debug_struct("Withheld").field("kind", kind).field("name", name).field("hosts", hosts).finish_non_exhaustive()
    }
}
