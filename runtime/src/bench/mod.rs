//! The benchmarks that come with the product: a runner in this process, on a store of its own, with a handler that does
//! next to nothing. What is measured is the queue and the sandbox.
//!
//! Machines are noisy: compare figures of one run with each other, and CPU time rather than rates.

mod cpu;
mod figure;
mod load;
#[doc(hidden)]
pub mod parts;
mod place;
mod rig;
mod scenario;
mod store;
mod watch;

pub use figure::{Figure, Spread};
pub use place::BenchStore;
pub use rig::{Rig, RigError, RigSettings};
pub use scenario::{latency, lateness, throughput};
pub use store::{claim_and_settle, push, push_singly};
