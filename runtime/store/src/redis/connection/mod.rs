//! How a Redis is found and reached, alone, behind sentinels or as a cluster, and what is sent to it.

mod cluster;
mod cluster_map;
mod commands;
mod confirm;
pub(super) mod error;
pub(super) mod known_id;
pub(super) mod link;
mod live;
mod rights;
mod sentinel_watch;
mod server;
pub(super) mod server_link;
pub(super) mod slots;
pub(super) mod subscription;
mod timeout;
mod tls;
mod topology;
pub(super) mod wrong_type;
