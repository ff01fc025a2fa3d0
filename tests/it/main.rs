//! The end-to-end tests: one binary, real guests, real stores.

#[macro_use]
mod both;

mod adapters;
mod admission;
mod adversary;
mod bill;
mod bindings;
mod browser;
mod budgets;
mod cli;
mod computing;
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
mod killed_limits;
mod killed_workflows;
mod languages;
mod lmstfy;
mod many_handlers;
mod metrics;
mod outcomes;
mod producers;
mod pull;
mod raw;
mod reload;
mod reuse;
mod schedules;
mod shutdown;
mod states;
mod store_servers;
mod tidy;
mod tokens;
mod traces;
mod wake_up;
mod workflows;
