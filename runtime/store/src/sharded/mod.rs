//! A store made of stores: each tenant lives in one of them, and can be moved to another while it works.
//!
//! A tenant's **places** are the stores in which there may be something of it. The first takes what is pushed. The others are
//! those that it is being moved out of, or lived in before; whatever turns up there is still found, claimed, settled and
//! cancelled, and is moved to the first by whoever [drives](drain) moves. So it does not matter when a node learns of a move:
//! what it still pushes to the old place is late, not lost.
//!
//! A store that is away takes only its own tenants along: what runners ask of it again and again is answered as if nothing
//! waited there, and what must not be lost waits in a [lane](crate::Shards::lane) of its own.
//!
//! With one store there is none of this in the way.

mod all;
mod drain;
mod list;
mod lookup;
mod member;
mod places;
mod produce;
mod residence;
mod store;
mod transfer;
mod work;

pub use member::ShardSpec;
pub use residence::{TenantPlacement, TenantPlacements};
pub use store::ShardedStore;
