//! How a topic's component is called: by Gristmill's own contract, or as a program that was written for something else.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::capability::Capability;

/// By which of its exports a topic calls its component.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Adapter {
    /// `gristmill:job/handler`.
    #[default]
    Handler,
    /// `wasi:cli/run`: the component is a program that reads standard input and writes standard output.
    Command(Arc<Program>),
    /// `wasi:http/incoming-handler`: the component answers requests over HTTP.
    Proxy(Arc<Proxy>),
}

/// How a job becomes a request, and what the answer means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proxy {
    /// The path of the request with its query; begins with `/`.
    pub path: String,
    /// What the manifest says of some statuses.
    pub status_codes: BTreeMap<u16, CodeMeaning>,
}

/// How a command is started, and what its end means.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Program {
    /// Its arguments, after its name.
    pub args: Vec<String>,
    /// What the manifest says of some exit codes.
    pub exit_codes: BTreeMap<u16, CodeMeaning>,
}

/// What an exit code or a status says of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum CodeMeaning {
    /// The job is done; what was written is its result.
    Ack,
    /// The attempt failed, and another one is worth it.
    Retry,
    /// No other attempt can succeed.
    Dead,
}

impl CodeMeaning {
    /// Each with its word in the manifest.
    pub const WORDS: [(&str, Self); 3] = [("ack", Self::Ack), ("retry", Self::Retry), ("dead", Self::Dead)];
}

impl Adapter {
    /// What a component must offer to be called like this.
    pub const fn needs(&self) -> Capability {
        match self {
            Self::Handler => Capability::HandlerAdapter,
            Self::Command(_) => Capability::CommandAdapter,
            Self::Proxy(_) => Capability::ProxyAdapter,
        }
    }

    /// Whether an instance can be called again after it returned. A program runs once, and what a proxy left unfinished ends
    /// with its instance.
    pub const fn can_call_again(&self) -> bool {
        matches!(self, Self::Handler)
    }
}

impl Program {
    /// What an exit code means: as the manifest says, or else by the convention of `sysexits.h`: wrong use (64), bad input
    /// (65), no permission (77) and bad configuration (78) stay as they are, and any other failure may pass.
    pub fn meaning(&self, exit_code: i32) -> CodeMeaning {
        let written = u16::try_from(exit_code).ok().and_then(|code| self.exit_codes.get(&code));
        written.copied().unwrap_or(match exit_code {
            0 => CodeMeaning::Ack,
            64 | 65 | 77 | 78 => CodeMeaning::Dead,
            _ => CodeMeaning::Retry,
        })
    }
}

impl Default for Proxy {
    fn default() -> Self {
        Self { path: "/".to_owned(), status_codes: BTreeMap::new() }
    }
}

impl Proxy {
    /// What a status means: as the manifest says, or else by RFC 9110: 2xx is success, 408, 425, 429 and 5xx may pass, and
    /// any other stays as it is.
    pub fn meaning(&self, status: u16) -> CodeMeaning {
        self.status_codes.get(&status).copied().unwrap_or(match status {
            200..=299 => CodeMeaning::Ack,
            408 | 425 | 429 | 500..=599 => CodeMeaning::Retry,
            _ => CodeMeaning::Dead,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manifest_overrides_what_an_exit_code_means_by_convention() {
        let usual = Program::default();
        let meanings = [0, 1, 64, 65, 75, 77, 78, 255, -1].map(|code| usual.meaning(code));
        use CodeMeaning::{Ack, Dead, Retry};
        assert_eq!(meanings, [Ack, Retry, Dead, Dead, Retry, Dead, Dead, Retry, Retry]);
        let changed = Program { exit_codes: [(1, Ack), (65, Retry), (0, Dead)].into(), ..usual };
        assert_eq!([0, 1, 65, 64].map(|code| changed.meaning(code)), [Dead, Ack, Retry, Dead]);
    }

    #[test]
    fn the_manifest_overrides_what_a_status_means() {
        use CodeMeaning::{Ack, Dead, Retry};
        let usual = Proxy::default();
        let meanings = [200, 204, 301, 400, 404, 408, 429, 500, 503].map(|status| usual.meaning(status));
        assert_eq!(meanings, [Ack, Ack, Dead, Dead, Dead, Retry, Retry, Retry, Retry]);
        let changed = Proxy { status_codes: [(404, Ack)].into(), ..usual };
        assert_eq!([404, 400].map(|status| changed.meaning(status)), [Ack, Dead]);
    }
}
