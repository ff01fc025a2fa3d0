//! The languages that `gristmill new` writes projects in.

use std::fmt;

use clap::ValueEnum;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum Language {
    #[value(alias = "rs")]
    Rust,
    #[value(name = "javascript", alias = "js")]
    JavaScript,
    #[value(name = "typescript", alias = "ts")]
    TypeScript,
    #[value(alias = "py")]
    Python,
    #[value(alias = "golang")]
    Go,
    C,
    #[value(name = "assemblyscript", alias = "as")]
    AssemblyScript,
    Zig,
}

impl fmt::Display for Language {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Rust => "Rust",
            Self::JavaScript => "JavaScript",
            Self::TypeScript => "TypeScript",
            Self::Python => "Python",
            Self::Go => "Go",
            Self::C => "C",
            Self::AssemblyScript => "AssemblyScript",
            Self::Zig => "Zig",
        })
    }
}
