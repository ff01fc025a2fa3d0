//! The Redis store: jobs in lists, sorted sets and hashes, moved by one Lua script per transition.
//!
//! Names of keys exist in `key_names` alone, and only scripts change a job's place. Everything else turns calls into scripts' arguments
//! and replies into answers. `docs/reference/redis-keys.md` describes the layout.
//!
//! What a store can do has a folder of its name, with its scripts beside its Rust file; `embedded` uses the same names. `path` has the steps
//! of a job, `look` what changes no job. `keys` (jobs that share a key) and `path/finish` have only scripts. All of them build upon `connection`
//! and `script`, and `partitions` joins the partitions into one store.
//!
//! Redis 6.2 or later, or Valkey. Every script keeps to one hash slot; `connection` finds the server that has it.

mod bill;
mod cancel;
mod change;
mod clock;
mod connection;
mod dead;
#[doc(hidden)]
pub mod envelope;
mod holder;
mod identity;
mod key_names;
mod limits;
mod links;
mod look;
mod partitions;
mod path;
mod pause;
mod record;
mod recordings;
mod records;
mod results;
mod schedules;
mod script;
mod signals;
mod states;
mod store;
mod tenants;
mod tokens;
mod transfer;
mod unique;

#[cfg(test)]
mod tests;

pub use key_names::DEFAULT_PREFIX;
pub use partitions::RedisStore;
