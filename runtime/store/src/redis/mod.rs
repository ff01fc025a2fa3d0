//! The Redis store: lists, sorted sets and hashes, moved by one Lua script per transition.
//!
//! `keys` is the only place that knows key names, `lua/` the only place where a job changes its place. Everything else
//! turns calls into scripts' arguments and replies into answers. `docs/reference/redis-keys.md` describes the layout.
//!
//! Redis 6.2 or later, or Valkey. Every script keeps to one hash slot; `link` finds the server that has it.

mod batches;
mod bill;
mod cancel;
mod change;
mod claim;
mod clock;
mod cluster;
mod cluster_map;
mod commands;
mod confirm;
mod dead;
mod due_next;
mod ended;
#[doc(hidden)]
pub mod envelope;
mod error;
mod fsck;
mod gather;
mod gathering;
mod holder;
mod identity;
mod inspect;
mod keys;
mod known_id;
mod known_tenants;
mod lease;
mod limits;
mod line;
mod link;
mod links;
mod list;
mod live;
mod migrate;
mod partition_map;
mod partitions;
mod pause;
mod probe;
mod push;
mod quiet;
mod reap;
mod record;
mod recordings;
mod records;
mod renewals;
mod replies;
mod reply;
mod results;
mod run;
mod scan;
mod schedules;
mod script;
mod server;
mod server_link;
mod set_clock;
mod settle;
mod settle_call;
mod signals;
mod slots;
mod states;
mod store;
mod sweep;
mod tenants;
mod timeout;
mod tls;
mod tokens;
mod topology;
mod transfer;
mod unique;
mod usage;
mod windows;

#[cfg(test)]
mod tests;

pub use keys::DEFAULT_PREFIX;
pub use partitions::RedisStore;
