//! Which engine runs which component.

use wasmtime::Engine;
use wasmtime::component::Linker;

use super::engine::{self, PoolKind};
use super::error::SandboxError;
use super::host;
use super::outbound::Outbound;
use super::state::State;
use super::validate::Shape;

/// Attempts at once for which there are two pools, at most. Each pool takes two mappings an attempt, and Linux gives 65,530 to a process.
const TWO_POOLS_MAX: u32 = 2_000;

/// The host's interfaces, for each engine that runs guests.
pub(super) struct Linkers {
    usual: Linker<State>,
    /// For components that bring a language's runtime along; `None` if there is no room for a second pool.
    runtimes: Option<Linker<State>>,
}

impl Linkers {
    /// Engines for `concurrency` attempts at once of each kind. The log says so if there is only one engine for all.
    ///
    /// # Errors
    /// There is no room for one pool.
    pub(super) fn new(concurrency: u32) -> Result<Self, SandboxError> {
        let outbound = Outbound::new();
        let linker = |kind| {
            let engine = engine::running(kind, concurrency)?;
            host::linker(&engine, &outbound).map_err(SandboxError::Link)
        };
        let usual = linker(PoolKind::Usual)?;
        let runtimes = if concurrency <= TWO_POOLS_MAX { linker(PoolKind::Runtimes).ok() } else { None };
        if runtimes.is_none() {
            tracing::info!(
                concurrency,
                "no room for a pool of instances whose memory stays resident: JavaScript, Python and Go start more slowly; a lower \
                 `concurrency` (at most {TWO_POOLS_MAX}) makes room",
            );
        }
        Ok(Self { usual, runtimes })
    }

    /// For a component of this shape.
    pub(super) fn of(&self, shape: Shape) -> &Linker<State> {
        match PoolKind::of(shape.data_bytes) {
            PoolKind::Usual => &self.usual,
            PoolKind::Runtimes => self.runtimes.as_ref().unwrap_or(&self.usual),
        }
    }

    /// An engine for what all of them have in common: what code they run.
    pub(super) fn any_engine(&self) -> &Engine {
        self.usual.engine()
    }
}
