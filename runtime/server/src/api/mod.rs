//! The JSON API under `/v1`, health and metrics: one file for each kind of route.

pub(crate) mod attempts;
pub(crate) mod audit;
pub(crate) mod bill;
pub(crate) mod bulk;
pub(crate) mod components;
pub(crate) mod dead;
pub(crate) mod health;
pub(crate) mod history;
mod idempotency;
pub(crate) mod job;
pub(crate) mod jobs;
pub(crate) mod list;
pub(crate) mod me;
pub(crate) mod metrics;
pub(crate) mod minutes;
pub(crate) mod moves;
pub(crate) mod openapi;
pub(crate) mod push;
pub(crate) mod queue_depths;
pub(crate) mod readiness;
pub(crate) mod schedules;
pub(crate) mod states;
pub(crate) mod tenant_limits;
pub(crate) mod tokens;
pub(crate) mod topic_rates;
pub(crate) mod topics;
pub(crate) mod workers;
