//! Gristmill: a job runner whose handlers are WebAssembly components.
//!
//! This crate is the facade over the layers, each a crate of its own, and holds the command line.

pub use gristmill_bench as bench;
pub use gristmill_config as config;
pub use gristmill_core::{admission, http_grant, job, outcome, retry, time, token, topic};
pub use gristmill_metrics as metrics;
pub use gristmill_runner as runner;
pub use gristmill_runner::handlers;
pub use gristmill_sandbox as sandbox;
pub use gristmill_server as server;
pub use gristmill_store as store;

pub mod cli;
