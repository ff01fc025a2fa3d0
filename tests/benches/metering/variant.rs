//! What is compared: the product's engine with something changed.

use std::time::Duration;

use gristmill::sandbox::parts::{self, FUEL_PER_YIELD};
use wasmtime::{Engine, InstanceAllocationStrategy, PoolingAllocationConfig};

/// How often the clock of epochs ticks. A guest is seen one tick late at most, and each tick wakes a thread.
pub(crate) const TICK: Duration = Duration::from_millis(1);

/// More than any guest here uses.
pub(crate) const FUEL: u64 = 1 << 50;

#[derive(Clone, Copy)]
pub(crate) struct Variant {
    pub(crate) name: &'static str,
    /// Whether fuel is counted, and after how much of it the guest yields.
    pub(crate) fuel: Option<Option<u64>>,
    /// Whether the guest yields at each tick.
    pub(crate) epoch: bool,
    change: fn(&mut wasmtime::Config, PoolingAllocationConfig),
}

/// As the product does it.
const OURS: Variant = Variant {
    name: "fuel, yields",
    fuel: Some(Some(FUEL_PER_YIELD)),
    epoch: false,
    change: |config, pool| use_pool(config, pool),
};

impl Variant {
    /// The first is what the others are compared with.
    pub(crate) fn metering() -> Vec<Self> {
        vec![
            Self { name: "neither", fuel: None, ..OURS },
            Self { name: "fuel", fuel: Some(None), ..OURS },
            OURS,
            Self { name: "epoch", fuel: None, epoch: true, ..OURS },
            Self { name: "both", fuel: Some(None), epoch: true, ..OURS },
        ]
    }

    /// Those that can stop a guest at a time on the wall.
    pub(crate) fn bounding() -> Vec<Self> {
        vec![
            Self { name: "fuel, yields every 10,000", fuel: Some(Some(10_000)), ..OURS },
            Self { name: "fuel, yields every 100,000", fuel: Some(Some(100_000)), ..OURS },
            Self { name: "fuel, yields every 1,000,000", fuel: Some(Some(1_000_000)), ..OURS },
            Self { name: "epoch, ticks of 1 ms", fuel: None, epoch: true, ..OURS },
        ]
    }

    pub(crate) fn pool() -> Vec<Self> {
        vec![
            Self { name: "as it is", ..OURS },
            Self {
                name: "images copied",
                change: |config, pool| {
                    use_pool(config, pool);
                    config.memory_init_cow(false);
                },
                ..OURS
            },
            Self { name: "resident 0", change: |config, pool| resident(config, pool, 0), ..OURS },
            Self { name: "resident 128 KiB", change: |config, pool| resident(config, pool, 128 << 10), ..OURS },
            Self {
                name: "resident 128 KiB, copied",
                change: |config, pool| {
                    resident(config, pool, 128 << 10);
                    config.memory_init_cow(false);
                },
                ..OURS
            },
            Self {
                name: "cleared by sixteen",
                change: |config, mut pool| {
                    pool.decommit_batch_size(16);
                    use_pool(config, pool);
                },
                ..OURS
            },
            Self {
                name: "no pool",
                change: |config, _| {
                    config.allocation_strategy(InstanceAllocationStrategy::OnDemand);
                },
                ..OURS
            },
            Self { name: "yields every 10,000", fuel: Some(Some(10_000)), ..OURS },
            Self { name: "yields every 1,000,000", fuel: Some(Some(1_000_000)), ..OURS },
        ]
    }

    pub(crate) fn engine(&self) -> Engine {
        let (mut config, pool) = parts::engine_settings(1);
        config.consume_fuel(self.fuel.is_some()).epoch_interruption(self.epoch);
        (self.change)(&mut config, pool);
        Engine::new(&config).unwrap()
    }
}

fn use_pool(config: &mut wasmtime::Config, pool: PoolingAllocationConfig) {
    config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool));
}

fn resident(config: &mut wasmtime::Config, mut pool: PoolingAllocationConfig, bytes: usize) {
    pool.linear_memory_keep_resident(bytes);
    use_pool(config, pool);
}
