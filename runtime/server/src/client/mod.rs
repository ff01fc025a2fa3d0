//! The other end of the door: a store by way of the server that owns it.

mod exchange;
mod moves;
mod signals;
mod store;
mod tokens;

pub use store::RemoteStore;
