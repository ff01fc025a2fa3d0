//! Parts of the sandbox that the benches of `tests/benches` measure by themselves. Not covered by any promise of
//! compatibility.

use std::sync::Arc;

use wasmtime::component::Component as Compiled;
use wasmtime::{Config, Engine, InstanceAllocationStrategy, PoolingAllocationConfig};

use super::attempt::Version;
use super::code::Code;
use super::component::Component;
use super::engine::PoolKind;
use super::guest_instance::IdleInstances;
use super::idle::IdleLimits;
use super::outbound::Outbound;
use super::{engine, host, validate};

pub use super::engine::FUEL_PER_YIELD;

/// What the engine that runs guests is made from.
pub fn engine_settings(concurrency: u32) -> (Config, PoolingAllocationConfig) {
    engine::settings(PoolKind::Usual, concurrency)
}

/// A component that is compiled in this process, in a pool of its own for few memories.
///
/// Under an instruction counter there is neither the address space for a usual pool, nor is the processor the one that a
/// child process would compile for.
pub fn load_apart(wasm: &[u8]) -> wasmtime::Result<Component> {
    const MEMORIES: u32 = 8;
    /// Fewer than there are: else every so many jobs would find all of them waiting to be cleared.
    const BATCH: usize = 4;
    let (mut config, mut pool) = engine::settings(PoolKind::Usual, 1);
    pool.total_memories(MEMORIES).max_unused_warm_slots(MEMORIES).decommit_batch_size(BATCH);
    config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool));
    let engine = Engine::new(&config)?;
    let compiled = Compiled::from_binary(&engine, wasm)?;
    let idle = Arc::new(IdleInstances::new(IdleLimits::of(engine::kept(1))));
    let (shape, version) = (validate::validate(wasm, wasm.len() as u64)?, Version::of(wasm));
    let (code, facts) = Code::link(shape, version, &compiled, &host::linker(&engine, &Outbound::new())?, &idle, None)?;
    Ok(Component::pinned(code, facts))
}
