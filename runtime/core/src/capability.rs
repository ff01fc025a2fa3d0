//! What a component can import that a topic must grant: one row for each, from which the sandbox, the manifest's grants and
//! bounds, and `gristmill check` follow.

use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;

/// What a component imports and a topic must grant before it runs there. All other imports are harmless: they are linked
/// to an empty world, whatever a toolchain imports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Capability {
    /// The true time.
    Clock,
    /// True random numbers.
    Random,
    /// HTTP requests to the hosts that the grant names.
    Http,
}

struct Row {
    /// The key of a topic in the manifest.
    name: &'static str,
    /// The interfaces that need it, without their versions. A `/` at the end stands for every interface of a package.
    imports: &'static [&'static str],
    /// What a section of this name must say at least; none: the key is `true` or `false`.
    section: Option<&'static str>,
}

impl Capability {
    /// All capabilities.
    pub const ALL: [Self; 3] = [Self::Clock, Self::Random, Self::Http];

    const fn row(self) -> Row {
        match self {
            Self::Clock => Row { name: "clock", imports: &["wasi:clocks/"], section: None },
            // Not `wasi:random/insecure-seed`: every other program seeds its hash tables with it, and it reveals nothing.
            Self::Random => {
                Row { name: "random", imports: &["wasi:random/random", "wasi:random/insecure"], section: None }
            }
            Self::Http => {
                Row { name: "http", imports: &["gristmill:job/http"], section: Some("allow = [\"the.host.it.asks\"]") }
            }
        }
    }

    /// The key in the manifest.
    pub const fn name(self) -> &'static str {
        self.row().name
    }

    /// What its section in the manifest must say at least; `None` if its key is `true` or `false`.
    pub const fn section(self) -> Option<&'static str> {
        self.row().section
    }

    /// Those whose key is `true` or `false`.
    pub fn switches() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(|capability| capability.section().is_none())
    }

    /// What a topic must grant before a component with these imports, such as `wasi:clocks/wall-clock@0.2.0`, runs there:
    /// in order, each once.
    pub fn needed(imports: &[String]) -> Vec<Self> {
        Self::ALL.into_iter().filter(|it| imports.iter().any(|import| it.is_needed_for(import))).collect()
    }

    fn is_needed_for(self, import: &str) -> bool {
        let interface = import.split('@').next().unwrap_or(import);
        self.row()
            .imports
            .iter()
            .any(|known| interface == *known || known.ends_with('/') && interface.starts_with(known))
    }
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_random_numbers_and_requests_need_a_grant_and_nothing_else_does() {
        let imports = [
            "wasi:random/random@0.2.9",
            "wasi:clocks/wall-clock@0.2.0",
            "wasi:clocks/monotonic-clock@0.2.0",
            "wasi:random/insecure-seed@0.2.0",
            "wasi:cli/environment@0.2.6",
            "wasi:sockets/tcp@0.2.0",
            "gristmill:job/config@0.1.0",
        ];
        let imports = imports.map(str::to_owned);
        assert_eq!(Capability::needed(&imports), [Capability::Clock, Capability::Random]);
        assert_eq!(Capability::needed(&["gristmill:job/http@0.1.0".to_owned()]), [Capability::Http]);
        assert!(Capability::needed(&imports[3..]).is_empty());
    }
}
