//! What the tests share: guests built from source, a Redis of one's own, runners in this process and in others, commands.

pub mod browser;
pub mod http_client;
pub mod load;
pub mod parts;
pub mod process;
pub mod server;
pub mod test_project;
pub mod test_runner;
pub mod text;

pub use gristmill_store_tests::{proxy, random, test_store};
pub use gristmill_test_servers::{certificates, cluster, redis, sentinels, shell, wait};

/// Paths of the guests' components, made by the build script.
pub mod guests {
    include!(concat!(env!("OUT_DIR"), "/guests.rs"));
}
