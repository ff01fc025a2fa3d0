//! The manifest: `gristmill.toml` becomes validated settings and topics ([`Manifest`]), or a [`ManifestError`] that
//! shows every mistake at its place. Reference for people: `docs/reference/manifest.md`.

mod adapter;
mod bounds;
mod diagnostic;
mod exposure;
mod fleet_limits;
mod grants;
mod http;
mod http_grant;
mod known_topics;
mod limits;
mod line_file;
mod lmstfy;
mod manifest;
mod otel;
mod page;
mod paths;
mod ranges;
mod read;
mod redis;
mod regular_file;
mod schedules;
mod server;
mod store;
mod stores;
mod topics;

#[cfg(test)]
mod tests;

pub use gristmill_core::units;

pub use diagnostic::{Diagnostic, did_you_mean};
pub use exposure::{exposure, warn_if_exposed};
pub use http::{HttpSettings, Listen, TlsSettings};
pub use known_topics::KnownTopics;
pub use limits::TenantLimits;
pub use line_file::LineFileSettings;
pub use lmstfy::{LmstfySettings, Password};
pub use manifest::{Manifest, ManifestError, utf8};
pub use otel::{OtelSettings, Relation};
pub use page::PageSettings;
pub use paths::unseen;
pub use redis::{AcknowledgedBy, Acknowledgement, RedisSettings, RedisTls};
pub use regular_file::read_regular;
pub use server::{HandlerSettings, Server, UnknownTopics};
pub use store::{BadStoreAddress, Durability, StoreAddress, StoreSettings};
pub use stores::HOME;
