//! A store by way of the server that owns it.

mod address;
mod bill;
mod bulk;
mod deployments;
mod exchange;
mod moves;
mod push_and_wait;
mod recent;
mod schedules;
mod store;
mod stream;
mod tokens;
mod uniques;
mod workflows;

pub use address::{BadServerAddress, ServerAddress};
pub use exchange::{WrongRequest, health};
pub use store::RemoteStore;
pub use stream::StreamedEvent;
