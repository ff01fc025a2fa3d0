//! A handler's project: the folder in which it is written, in any language.
//!
//! `gristmill new` writes it, from the very files of `examples/welcome-*`; `gristmill build` has the language's own tools
//! make a component of it, as its `handler.toml` says, and drops that into the handlers folder.

pub(super) mod build;
mod commands;
mod file;
mod language;
pub(super) mod new;
mod serving;
mod template;
