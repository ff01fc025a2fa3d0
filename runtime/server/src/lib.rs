//! The HTTP server: health for whatever supervises it, and a JSON API for producers, pull workers, operators and our own
//! commands.
//!
//! An embedded store belongs to one process; other processes use it through this server. [`RemoteStore`] is their end: a
//! store like any other, reached through a server. `wire/` holds the JSON types that both ends share. The reference for
//! users is `docs/reference/http-api.md`.
//!
//! # Layout
//! A request passes these folders in this order:
//! - `serve/` accepts connections, in bounded number, with or without TLS, names each request and measures it.
//! - `audit/` writes down changes and refusals, where the manifest says so.
//! - `auth/` rejects cross-site browser requests, then identifies the token and checks its scopes.
//! - `limits/` bounds requests and jobs: of the server, of a token, of a tenant.
//! - `receive` checks the scope by the path, reads the body, and takes the request's permit.
//! - `api/` has the routes; `stream/` those that wait or go on; `pull/` those of pull workers; `lmstfy/` lmstfy's wire API.
//! - `page/` serves the page for people: static files, which use the API like any other client.
//! - `bulk/` keeps bulk actions and carries them out.
//! - `claims/` is the claim service, which `pull/` and `lmstfy/` call.
//!
//! `state` is what every route can reach, and `problem` how every route refuses. While no token exists, a server on
//! loopback, or one with `insecure`, allows every client everything; any other refuses.

mod api;
mod audit;
mod auth;
mod bulk;
mod claims;
mod client;
mod extract;
mod held_answer;
mod limits;
mod lmstfy;
mod new_jobs;
mod openapi;
mod page;
mod payloads;
mod polled_body;
mod problem;
mod pull;
mod receive;
mod routes;
mod serve;
mod settings;
mod state;
mod stream;
mod wire;
mod wrong_document;

#[cfg(test)]
mod tests;

pub use api::idempotency::idempotency_value;
pub use api::tokens::unknown_tenant;
pub use api::workers::workers;
pub use audit::{AuditLine, AuditLog};
pub use client::{BadServerAddress, RemoteStore, ServerAddress, StreamedEvent, WrongRequest, health};
pub use limits::HttpLimits;
pub use openapi::{Requirement, Route};
pub use serve::{HttpServer, ListenError, OpenError, listen, routes, try_tls, while_starting};
pub use settings::{Handlers, HttpServerSettings, Phase, RunnerStatus};
pub use wire::attempts::AttemptsSeen;
pub use wire::bulk::{Bulk, BulkAction, BulkSample, BulkState, NewBulk};
pub use wire::handler::{HandlerSeen, VersionSeen};
pub use wire::history::{History, HistoryDay, Minute};
pub use wire::push::{edited_form, new_job};
pub use wire::topic::{RecentByVersion, RecentOfVersion, TopicLimits, TopicRates, TopicSeen, TopicTrial};
pub use wire::worker::{Worker, WorkerKind, Workers};
