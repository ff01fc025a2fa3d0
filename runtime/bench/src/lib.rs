//! The benchmarks that come with the product: a runner in this process, on a store of its own, with a handler that does
//! next to nothing. What is measured is the queue and the sandbox.
//!
//! Machines are noisy: compare figures of one run with each other, and CPU time rather than rates.

mod components;
mod door;
mod figure;
mod floor;
mod isolation;
mod load;
mod memory;
#[doc(hidden)]
pub mod parts;
mod place;
mod progress;
mod reload;
mod reuse;
mod rig;
mod scaling;
mod scenario;
mod server;
mod store;
mod usage;
mod variant;
mod watch;

pub use components::{ComponentFigure, Trial, component};
pub use door::pushes_over_http;
pub use figure::{Figure, Ratio, Spread};
pub use floor::{redis_floor, sandbox_floor};
pub use isolation::{Neighbour, isolation};
pub use memory::{runner_memory, store_memory};
pub use place::BenchStore;
pub use progress::Progress;
pub use reload::{reload, start};
pub use reuse::reuse;
pub use rig::{Rig, RigError, RigSettings};
pub use scaling::{backlog, delayed, topics};
pub use scenario::{latency, lateness, throughput};
pub use store::{claim_and_settle, push, push_singly};
