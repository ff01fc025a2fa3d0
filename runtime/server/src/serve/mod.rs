//! Accepts connections and serves requests on them, from the server's start to its end.

pub(crate) mod accept;
mod authenticate;
mod connections;
mod delivery_tracker;
mod known_paths;
mod listen;
mod measure;
mod request_id;
mod server;
mod starting;
mod tls;
mod unread_body;

pub(crate) use delivery_tracker::DeliveryTracker;
pub use listen::{ListenError, listen};
pub use server::{HttpServer, OpenError, routes};
pub use starting::while_starting;
pub use tls::try_tls;
