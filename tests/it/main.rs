//! The end-to-end tests, and the proof that all stores are one queue: one binary, real guests, real stores.

#[macro_use]
mod both;

mod admission;
mod adversary;
mod cli;
mod conformance;
mod crash;
mod embed;
mod fairness;
mod grants;
mod hardship;
mod http_api;
mod http_grant;
mod imports;
mod interventions;
mod journal;
mod killed;
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
mod shutdown;
mod stores;
mod tidy;
mod tokens;
mod wake_up;
