//! A store by way of the server that owns it.

mod address;
mod bill;
mod exchange;
mod moves;
mod schedules;
mod signals;
mod store;
mod tokens;

pub use address::{BadServerAddress, ServerAddress};
pub use store::RemoteStore;
