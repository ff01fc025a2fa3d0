//! What the tests share: guests built from source, a Redis of one's own, stores of every kind, runners in this process and
//! in others, commands.

pub mod browser;
pub mod deployment;
pub mod http_client;
pub mod load;
pub mod mutants;
pub mod parts;
pub mod process;
pub mod random;
pub mod server;
pub mod test_project;
pub mod test_runner;
pub mod test_store;
pub mod text;

pub use gristmill_test_servers::{certificates, cluster, redis, sentinels, shell, wait};

/// Paths of the guests' components, made by the build script.
pub mod guests {
    include!(concat!(env!("OUT_DIR"), "/guests.rs"));
}
