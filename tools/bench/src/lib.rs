//! What speed is made of, measured: a runner in this process, on a store of its own, with a handler that does
//! next to nothing. What is measured is the queue and the sandbox.
//!
//! Machines are noisy: compare figures of one run with each other, and CPU time rather than rates.

mod baseline;
pub mod cli;
mod components;
mod compute;
mod figure;
mod herd;
mod http;
mod isolation;
mod load;
mod memory;
mod open_store;
mod order;
mod product;
mod progress;
mod redis_server;
mod reload;
mod scaling;
mod scenario;
mod screens;
mod stopwatch;
mod store;
mod test_bed;
mod traces;
mod usage;
mod variant;

pub use baseline::{redis_floor, sandbox_floor};
pub use components::{ComponentFigure, ComponentRun, component};
pub use compute::compute;
pub use figure::{Figure, Ratio, Spread};
pub use herd::{HERDS, herd, idle, shared};
pub use http::pushes_over_http;
pub use isolation::{Neighbour, isolation};
pub use memory::{runner_memory, store_memory};
pub use open_store::BenchStore;
pub use order::{TenantLoad, keys, rate, shares, ticks};
pub use product::product;
pub use progress::Progress;
pub use reload::{reload, start};
pub use scaling::{backlog, delayed, reuse, tenants, topics};
pub use scenario::{latency, lateness, throughput};
pub use screens::screens;
pub use store::{batch, claim_and_settle, mixed, push, push_singly};
pub use test_bed::{BenchSettings, TestBed};
pub use traces::traces;
