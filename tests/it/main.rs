//! The end-to-end tests, and the proof that all stores are one queue: one binary, real guests, real stores.

#[macro_use]
mod both;

mod adapters;
mod admission;
mod adversary;
mod bill;
mod browser;
mod budgets;
mod cli;
mod conformance;
mod crash;
mod embed;
mod fairness;
mod fleet_limits;
mod fleet_shares;
mod grants;
mod hardship;
mod http_api;
mod http_grant;
mod imports;
mod interventions;
mod journal;
mod killed;
mod killed_workflows;
mod languages;
mod lmstfy;
mod many_handlers;
mod metrics;
mod model;
mod outcomes;
mod producers;
mod pull;
mod raw;
mod redis_rights;
mod reload;
mod reuse;
mod schedules;
mod shutdown;
mod states;
mod stores;
mod tidy;
mod tokens;
mod traces;
mod wake_up;
mod workflows;
