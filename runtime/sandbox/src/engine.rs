//! The engines: two run guests, each from a pool of its own, and one only compiles (in a child process, or in a thread of an embedding program). All have the same code
//! generation settings, so that what one compiles the others can load.

use std::sync::Arc;

use wasmtime::{
    Config, Engine, InstanceAllocationStrategy, OperatorCost, OptLevel, PoolingAllocationConfig, Strategy,
    WasmBacktraceDetails,
};

use super::compiled_functions::CompiledFunctions;
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

/// A component with so many bytes of data brings a language's runtime along. QuickJS has 0.4 MB, Go 1.6, CPython 12; handlers in Rust and C
/// have some 0.1 at most.
const RUNTIME_DATA_BYTES: u64 = 256 << 10;

/// Which pool a component takes its memory from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PoolKind {
    /// For components that touch a few pages.
    Usual,
    /// For those that bring a language's runtime along: their start writes to hundreds of pages, wherever they are.
    Runtimes,
}

impl PoolKind {
    /// The pool for a component with so many bytes of data.
    pub(super) fn of(data_bytes: u64) -> Self {
        if data_bytes < RUNTIME_DATA_BYTES { Self::Usual } else { Self::Runtimes }
    }

    /// Bytes at the beginning of a memory and of a table that stay resident when an instance ends. They are copied anew for the next
    /// one, touched or not. What is behind them is given back to the kernel, and each page of it that the next one touches is a fault:
    /// with two threads one of some 10 µs, because it interrupts the other processor.
    fn resident_bytes(self) -> (usize, usize) {
        match self {
            // All of a guest with a stack of 64 KiB, as our SDKs have it: nothing is given back, so nothing faults.
            Self::Usual => (256 << 10, 4 << 10),
            // All of QuickJS, most of Go, and CPython's table.
            Self::Runtimes => (4 << 20, 64 << 10),
        }
    }
}

/// An engine for `concurrency` attempts at once, and some for self-tests and for components with more than
/// one memory.
pub(super) fn running(kind: PoolKind, concurrency: u32) -> Result<Engine, SandboxError> {
    let (mut config, pool) = settings(kind, concurrency);
    config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool));
    Engine::new(&config).map_err(|source| SandboxError::Pool {
        concurrency,
        gigabytes: u64::from(memories(concurrency)).saturating_mul(MEMORY_RESERVATION + MEMORY_GUARD) >> 30,
        source,
    })
}

/// What [`running`] makes its engine from.
pub(super) fn settings(kind: PoolKind, concurrency: u32) -> (Config, PoolingAllocationConfig) {
    (common(), pool(kind, concurrency))
}

/// An engine without a pool: the child process has neither the address space nor a use for one. It takes the code of functions that
/// it knows from there.
pub(super) fn compiling(known: Option<Arc<CompiledFunctions>>) -> wasmtime::Result<Engine> {
    let mut config = common();
    if let Some(known) = known {
        config.enable_incremental_compilation(known)?;
    }
    Engine::new(&config)
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
        // Reading debug information on every trap would let a guest choose what a trap costs: see `source_lines`.
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

fn pool(kind: PoolKind, concurrency: u32) -> PoolingAllocationConfig {
    let sandboxes = sandboxes(concurrency);
    let (memory_resident, table_resident) = kind.resident_bytes();
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
        .linear_memory_keep_resident(memory_resident)
        .table_keep_resident(table_resident)
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
        let key = |engine: &Engine, wasm: &[u8]| artifact_key(engine, Kind::Component, Version::of(wasm));
        let compiled = key(&compiling(None).unwrap(), b"same");
        for kind in [PoolKind::Usual, PoolKind::Runtimes] {
            let running = running(kind, 2).unwrap();
            assert_eq!(key(&running, b"same"), compiled);
            assert_ne!(key(&running, b"other"), compiled);
            assert_ne!(artifact_key(&running, Kind::CoreModule, Version::of(b"same")), compiled);
        }
    }

    #[test]
    fn a_pool_that_does_not_fit_names_the_remedy() {
        let error = running(PoolKind::Usual, 1_000_000).unwrap_err().to_string();
        assert!(error.contains("lower `concurrency`"), "{error}");
    }
}
