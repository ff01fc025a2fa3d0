//! Parts that the benches of `tests/benches` measure by themselves. Lent out for that, and no part of the library's
//! promise.

use wasmtime::{Config, PoolingAllocationConfig};

use gristmill_core::job::{Job, JobId, Name};
use gristmill_sandbox::{Component, parts};
use gristmill_store::redis::envelope;

/// Fuel after which a guest yields.
pub const FUEL_PER_YIELD: u64 = parts::FUEL_PER_YIELD;

/// What the engine that runs guests is made from: put the pool into the configuration, or others of your own.
pub fn engine(concurrency: u32) -> (Config, PoolingAllocationConfig) {
    parts::engine_settings(concurrency)
}

/// A component in a sandbox of its own for one attempt at a time, compiled in this process.
///
/// # Errors
/// There is no address space for the sandbox, or the component is none that could be loaded.
pub fn load(wasm: &[u8]) -> wasmtime::Result<Component> {
    parts::load_apart(wasm)
}

/// A job as the Redis store keeps it; none if it cannot be written.
pub fn encode(job: &Job) -> Option<Vec<u8>> {
    envelope::write_stored(job).ok()
}

/// The job `id` of `tenant` from what [`encode`] made; none if that is not what it is.
pub fn decode(tenant: &Name, id: JobId, stored: &[u8]) -> Option<Job> {
    envelope::read(tenant, id, stored).ok()
}
