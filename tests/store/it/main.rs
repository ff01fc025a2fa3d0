//! The proof that all stores are one queue, and what else a store must do that no runner and no guest is needed for.

#![cfg_attr(
    not(feature = "thorough"),
    allow(dead_code, reason = "cases about large sizes, and what only they need, are compiled and left out")
)]

mod conformance;
#[cfg(feature = "thorough")]
mod cuts;
mod model;
mod mutants;
mod redis_rights;
mod redis_sources;
mod stores;
