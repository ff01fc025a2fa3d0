//! What a server tells of itself: the page that Prometheus reads, and the events that it streams.

mod events;
mod page;
mod reader;
pub(crate) mod stream;
