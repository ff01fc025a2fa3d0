//! lmstfy's wire API for its clients: a namespace is a tenant, a queue is a topic. It translates: parameters become calls of
//! the store and of the [claim service](crate::claims), and what they return becomes lmstfy's JSON.
//!
//! `/api` is on the same listener as `/v1`; the admin API (`admin/`) has one of its own. `docs/guides/lmstfy.md` says what differs
//! from lmstfy on purpose.
//!
//! ```text
//! routes ─► request: names, pool, token ─► publish   push
//!                                       ├► consume   claim, at once or when there is a job
//!                                       ├► ack       settle, cancel or delete, by id
//!                                       ├► queue     peek, size, destroy
//!                                       └► dead      the oldest first
//! ```

mod accounts;
mod ack;
mod admin;
mod api;
mod client;
mod consume;
mod dead;
mod description;
mod holders;
mod id;
mod names;
mod publish;
mod query;
mod queue;
mod refusal;
mod request;
mod routes;
mod throttle;

pub(super) use admin::routes as admin;
pub(super) use api::Api;
pub(super) use routes::routes;
