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

use gristmill_core::job::Name;

/// What the handler of a project is called.
///
/// # Errors
/// There is no project, or its file makes no sense.
pub(super) fn name(project: &Path) -> anyhow::Result<Name> {
    file::HandlerFile::read(project)?.name()
}
