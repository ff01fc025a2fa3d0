//! The two engines: one runs guests from a pool, one (in the child process) only compiles. Both have the same code
//! generation settings, so that what one compiles the other can load.

use wasmtime::{
    Config, Engine, InstanceAllocationStrategy, OperatorCost, OptLevel, PoolingAllocationConfig, Strategy,
    WasmBacktraceDetails,
};

use super::error::SandboxError;

/// The most linear memory that one memory of a guest can have, whatever its topic's limit.
pub const MEMORY_SLOT_BYTES: u64 = 1 << 30;

/// The guest yields after this much fuel, so that its deadline is seen: about 0.1 ms. Measured to cost 3 to 6 %
/// together with the timeout.
pub const FUEL_PER_YIELD: u64 = 100_000;

/// Address space of one memory: all that 32 bits can reach, and a guard. Bounds checks then cost nothing.
const MEMORY_RESERVATION: u64 = 4 << 30;
const MEMORY_GUARD: u64 = 32 << 20;

/// Instances kept between jobs, at most. Each takes address space and what its guest's memory holds.
const KEPT_MAX: u32 = 256;

/// Elements of a table. CPython has about 6,000 functions in its own.
const TABLE_ELEMENTS: usize = 1 << 16;

/// An engine for `concurrency` attempts at once, and some for self-tests and for components with more than
/// one memory.
pub(super) fn running(concurrency: u32) -> Result<Engine, SandboxError> {
    let (mut config, pool) = settings(concurrency);
    config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool));
    Engine::new(&config).map_err(|source| SandboxError::Pool {
        concurrency,
        gigabytes: u64::from(memories(concurrency)).saturating_mul(MEMORY_RESERVATION + MEMORY_GUARD) >> 30,
        source,
    })
}

/// What [`running`] makes its engine from.
pub(super) fn settings(concurrency: u32) -> (Config, PoolingAllocationConfig) {
    (common(), pool(concurrency))
}

/// An engine without a pool: the child process has neither the address space nor a use for one.
pub(super) fn compiling() -> wasmtime::Result<Engine> {
    Engine::new(&common())
}

/// Everything that decides what the compiled code looks like and what a guest may contain.
fn common() -> Config {
    let mut config = Config::new();
    config
        .strategy(Strategy::Cranelift)
        .cranelift_opt_level(OptLevel::Speed)
        // A failed job must fail the same way when it is replayed elsewhere.
        .cranelift_nan_canonicalization(true)
        .consume_fuel(true)
        .operator_cost(operator_cost())
        .memory_init_cow(true)
        .memory_reservation(MEMORY_RESERVATION)
        .memory_guard_size(MEMORY_GUARD)
        .max_wasm_stack(512 << 10)
        .async_stack_size(1 << 20)
        .wasm_memory64(false)
        // For the code that wasmtime itself puts between components of one file (componentize-qjs nests them). The pool
        // refuses a module with two memories of its own.
        .wasm_multi_memory(true)
        .wasm_relaxed_simd(false)
        .native_unwind_info(false)
        .generate_address_map(true)
        // Reading debug information on every trap would let a guest choose what a trap costs.
        .wasm_backtrace_details(WasmBacktraceDetails::Disable);
    config
}

/// What instructions cost, pinned: one each, bulk operations by the byte, and growing memory by the page, since the
/// host does that work too.
fn operator_cost() -> OperatorCost {
    let mut cost = OperatorCost::new();
    cost.variable.memory_grow_per_page = u8::MAX;
    cost.variable.table_grow_per_element = 1;
    cost
}

fn pool(concurrency: u32) -> PoolingAllocationConfig {
    let sandboxes = sandboxes(concurrency);
    let mut pool = PoolingAllocationConfig::new();
    pool.total_component_instances(sandboxes)
        .total_stacks(sandboxes)
        .total_memories(memories(concurrency))
        .total_tables(sandboxes.saturating_mul(4))
        // Only a counter. Components linked from shared libraries (Python) have dozens of core instances.
        .total_core_instances(sandboxes.saturating_mul(64))
        .max_core_instances_per_component(64)
        .max_memories_per_component(4)
        .max_tables_per_component(8)
        .max_memories_per_module(1)
        .max_tables_per_module(2)
        .table_elements(TABLE_ELEMENTS)
        .max_component_instance_size(4 << 20)
        .max_core_instance_size(2 << 20)
        .max_memory_size(usize::try_from(MEMORY_SLOT_BYTES).unwrap_or(usize::MAX))
        .max_unused_warm_slots(memories(concurrency))
        // Cleared by memset at every reuse, touched or not; the rest is given back to the kernel. 64 KiB was the best
        // of 0, 64, 128 and 512 for small guests, and no worse than any for larger ones.
        .linear_memory_keep_resident(64 << 10)
        .table_keep_resident(4 << 10)
        // At once: a slot that is used again at once is still in the processor's cache.
        .decommit_batch_size(1);
    pool
}

/// With some to spare for self-tests, and for the instances that are kept beside those that run.
fn sandboxes(concurrency: u32) -> u32 {
    concurrency.saturating_add(concurrency / 8).saturating_add(8).saturating_add(kept(concurrency))
}

/// Instances that may be kept between jobs: as many as can have run at once, if that is not very many.
pub(super) fn kept(concurrency: u32) -> u32 {
    concurrency.min(KEPT_MAX)
}

fn memories(concurrency: u32) -> u32 {
    sandboxes(concurrency).saturating_mul(2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Version;
    use crate::cache::artifact_key;
    use crate::validate::Kind;

    #[test]
    fn what_the_child_compiles_the_pool_can_load() {
        let (running, compiling) = (running(2).unwrap(), compiling().unwrap());
        let key = |engine, wasm: &[u8]| artifact_key(engine, Kind::Component, Version::of(wasm));
        assert_eq!(key(&running, b"same"), key(&compiling, b"same"));
        assert_ne!(key(&running, b"same"), key(&running, b"other"));
        assert_ne!(key(&running, b"same"), artifact_key(&running, Kind::CoreModule, Version::of(b"same")));
    }

    #[test]
    fn a_pool_that_does_not_fit_names_the_remedy() {
        let error = running(1_000_000).unwrap_err().to_string();
        assert!(error.contains("lower `concurrency`"), "{error}");
    }
}
