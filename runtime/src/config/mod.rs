//! The manifest: `gristmill.toml` becomes validated settings and topics ([`Manifest`]), or a [`ManifestError`] that
//! shows every mistake at its place. Reference for people: `docs/manifest.md`.

pub mod units;

mod diagnostic;
mod grants;
mod manifest;
mod ranges;
mod read;
mod server;
mod topics;

#[cfg(test)]
mod tests;

pub use diagnostic::{Diagnostic, did_you_mean};
pub use manifest::{Manifest, ManifestError};
pub use server::{HandlerSettings, Server, StoreSettings};
