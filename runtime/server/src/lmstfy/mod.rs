//! lmstfy's wire API, so that its clients feel at home: a namespace is a tenant, a queue is a topic.
//!
//! `/api` is on the same listener as `/v1`; the admin API (`admin/`) has one of its own. What is meant to differ from
//! lmstfy, and why, is in `docs/lmstfy.md`.
//!
//! ```text
//! routes ─► request: names, pool, token ─► publish   push
//!                                     ├► consume   claim, or wait in line; handed over
//!                                     ├► ack       settle, cancel or delete, by id
//!                                     ├► queue     peek, size, destroy
//!                                     └► dead      the oldest first
//! ```

mod accounts;
mod ack;
mod admin;
mod api;
pub(crate) mod claim_guard;
mod client;
mod consume;
mod dead;
mod holders;
mod id;
mod line;
mod names;
mod publish;
mod query;
mod queue;
mod refusal;
mod request;
mod routes;
mod throttle;
mod told;

pub(super) use admin::routes as admin;
pub(super) use api::Api;
pub(super) use routes::routes;
