//! A store made of stores, its shards: each tenant is placed in one, and can be moved to another while its jobs run.
//!
//! A tenant's shards are those that may hold something of it. The **current** one takes what is pushed. The others are those
//! that the tenant is leaving, or has left; what appears there is still found, claimed, settled and cancelled, and the
//! `TenantMigrator` of any server moves it to the current shard. So a server may learn of a move late: a job
//! that it still pushes to the old shard comes late, and is not lost.
//!
//! The **primary** shard has the records of placements, the tokens, and every tenant that is not placed elsewhere.
//!
//! An unavailable shard affects only its own tenants: what runners repeat is answered as if no job waited there, and what
//! must not be lost waits in a [lane](crate::Shards::lane) of its own.
//!
//! With one store none of this is in use.

mod ask;
mod bill;
mod claim;
mod fsck;
mod inspect;
mod kept;
mod list;
mod placement;
mod push;
mod schedules;
mod shard;
mod shard_map;
mod signals;
mod store;
mod tenant_migrator;
mod transfer;
mod work;

pub(crate) use shard::Shard;
pub use shard::ShardSpec;
pub use store::ShardedStore;
