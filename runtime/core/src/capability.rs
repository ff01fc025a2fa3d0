//! What a component can import that a topic must grant: one row for each. The sandbox, the manifest's grants and
//! bounds, and `gristmill check` follow from it. And what it can export: a topic must name one of these.

use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;

/// What a component asks of a topic before it runs there: grants of what it imports, and to be called by what it exports. All
/// other imports are harmless: they are linked to an empty world, whatever a toolchain imports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Capability {
    /// The true time.
    Clock,
    /// True random numbers.
    Random,
    /// HTTP requests to the hosts that the grant names.
    Http,
    /// What the jobs of a key leave for each other.
    State,
    /// To be called by Gristmill's own contract.
    HandlerAdapter,
    /// To be called as a program.
    CommandAdapter,
    /// To be called as a server of HTTP.
    ProxyAdapter,
}

/// What a component asks of a topic.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Demands {
    /// What it imports and a topic must grant, in order, each once.
    pub grants: Vec<Capability>,
    /// How it can be called: a topic must name one of them. Empty if that is not known.
    pub adapters: Vec<Capability>,
}

impl Demands {
    /// Of a component with these imports and exports, such as `wasi:clocks/wall-clock@0.2.0`.
    pub fn of(imports: &[String], exports: &[String]) -> Self {
        let needed = |names: &[String], of: fn(&Row) -> &'static [&'static str]| {
            let is_needed = |it: &Capability| names.iter().any(|name| names_one_of(of(&it.row()), name));
            Capability::ALL.into_iter().filter(is_needed).collect()
        };
        Self { grants: needed(imports, |row| row.imports), adapters: needed(exports, |row| row.exports) }
    }
}

/// How the manifest says that a topic has a capability.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WrittenAs {
    /// The capability's name is a key that is `true` or `false`.
    Switch,
    /// The capability's name is a section, which must say this at least.
    Section(&'static str),
    /// This line.
    Line(&'static str),
}

struct Row {
    /// The key of a topic in the manifest, if it is one.
    name: &'static str,
    /// The interfaces whose import needs it, without their versions. A `/` at the end stands for every interface of a package.
    imports: &'static [&'static str],
    /// The interfaces whose export needs it, in the same form.
    exports: &'static [&'static str],
    written: WrittenAs,
}

/// Whether an interface with its version is one of these.
fn names_one_of(known: &[&str], name: &str) -> bool {
    let interface = name.split('@').next().unwrap_or(name);
    known.iter().any(|known| interface == *known || known.ends_with('/') && interface.starts_with(known))
}

impl Capability {
    /// All capabilities.
    pub const ALL: [Self; 7] = [
        Self::Clock,
        Self::Random,
        Self::Http,
        Self::State,
        Self::HandlerAdapter,
        // Before the command: some toolchains export an empty `run` from servers too.
        Self::ProxyAdapter,
        Self::CommandAdapter,
    ];

    const fn row(self) -> Row {
        match self {
            Self::Clock => Row::imported("clock", &["wasi:clocks/"], WrittenAs::Switch),
            // Not `wasi:random/insecure-seed`: every other program seeds its hash tables with it, and it reveals nothing.
            Self::Random => Row::imported("random", &["wasi:random/random", "wasi:random/insecure"], WrittenAs::Switch),
            // Not `wasi:http`: toolchains import it for guests that send nothing. Without the grant, it denies each request.
            Self::Http => {
                Row::imported("http", &["gristmill:job/http"], WrittenAs::Section("allow = [\"the.host.it.asks\"]"))
            }
            Self::State => Row::imported("state", &["gristmill:job/state", "wasi:keyvalue/"], WrittenAs::Switch),
            Self::HandlerAdapter => {
                Row::exported("handler-adapter", &["gristmill:job/handler"], "adapter = \"handler\"")
            }
            Self::CommandAdapter => Row::exported("command-adapter", &["wasi:cli/run"], "adapter = \"command\""),
            Self::ProxyAdapter => {
                Row::exported("proxy-adapter", &["wasi:http/incoming-handler"], "adapter = \"proxy\"")
            }
        }
    }

    /// The key in the manifest, if it is one; else a name for lists.
    pub const fn name(self) -> &'static str {
        self.row().name
    }

    /// How the manifest says that a topic has it.
    pub const fn written(self) -> WrittenAs {
        self.row().written
    }

    /// The word that a topic's `adapter` has for it.
    pub fn adapter_name(self) -> &'static str {
        self.name().trim_end_matches("-adapter")
    }

    /// The interface that a component exports to be called like this; `None` if this is no way to call a component.
    pub fn called_by(self) -> Option<&'static str> {
        self.row().exports.first().copied()
    }

    /// Those whose key is `true` or `false`.
    pub fn switches() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(|capability| capability.written() == WrittenAs::Switch)
    }
}

impl Row {
    const fn imported(name: &'static str, imports: &'static [&'static str], written: WrittenAs) -> Self {
        Self { name, imports, exports: &[], written }
    }

    const fn exported(name: &'static str, exports: &'static [&'static str], line: &'static str) -> Self {
        Self { name, imports: &[], exports, written: WrittenAs::Line(line) }
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
        assert_eq!(Demands::of(&imports, &[]).grants, [Capability::Clock, Capability::Random]);
        assert_eq!(Demands::of(&["gristmill:job/http@0.1.0".to_owned()], &[]).grants, [Capability::Http]);
        for state in ["gristmill:job/state@0.1.0", "wasi:keyvalue/store@0.2.0-draft"] {
            assert_eq!(Demands::of(&[state.to_owned()], &[]).grants, [Capability::State]);
        }
        assert_eq!(Demands::of(&imports[3..], &[]), Demands::default());
    }
}
