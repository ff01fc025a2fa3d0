//! A handler's project: the folder in which it is written, in any language.
//!
//! `gristmill new` writes it, from the very files of `examples/welcome-*`, and `gristmill update` brings the SDK in it to this version;
//! `gristmill build` has the language's own tools
//! make a component of it, as its `handler.toml` says, and drops that into the handlers folder. `watch` says when the sources have
//! changed.

pub(super) mod build;
mod commands;
mod file;
mod language;
pub(super) mod new;
mod serving;
mod sources;
mod template;
pub(super) mod update;
pub(super) mod watch;

use std::path::Path;

pub(super) use self::commands::Group;
pub(super) use self::language::Language;
use gristmill_core::job::Name;

/// What the handler of a project is called.
///
/// # Errors
/// There is no project, or its file makes no sense.
pub(super) fn name(project: &Path) -> anyhow::Result<Name> {
    file::HandlerFile::read(project)?.name()
}

/// A project that says how its jobs are done without a component.
#[derive(Debug)]
pub(super) struct NativeProject {
    pub(super) name: Name,
    pub(super) language: String,
    /// The shell line.
    pub(super) line: String,
}

/// `None`: it does not say.
///
/// # Errors
/// There is no project, or its file makes no sense.
pub(super) fn native(project: &Path) -> anyhow::Result<Option<NativeProject>> {
    let file = file::HandlerFile::read(project)?;
    let name = file.name()?;
    Ok(file.native.map(|line| NativeProject { name, language: file.language, line }))
}

/// Runs the lines that fetch what a project needs.
///
/// # Errors
/// A program is missing, or a line fails.
pub(super) async fn set_up(project: &Path) -> anyhow::Result<()> {
    build::set_up(&file::HandlerFile::read(project)?, project).await
}
