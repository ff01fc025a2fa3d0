//! What an attempt has while it is tried without the component model: see [`super::direct`].

use std::sync::Arc;
use std::time::Instant;

use wasmtime::{Memory, TypedFunc};

use super::attempt::{Attempt, Version};
use gristmill_core::time::Timestamp;

/// An attempt as it begins.
pub(super) struct BegunAttempt<'a> {
    pub(super) attempt: &'a Arc<Attempt>,
    /// Of its component.
    pub(super) version: Version,
    pub(super) started: Instant,
    /// By the store's clock.
    pub(super) deadline: Timestamp,
}

/// What the host needs of an instance to read and write its memory.
#[derive(Clone)]
pub(super) struct Ports {
    pub(super) memory: Memory,
    pub(super) realloc: TypedFunc<(u32, u32, u32, u32), u32>,
}

/// What an attempt has while it is tried.
#[derive(Default)]
pub(super) struct Try {
    /// None while the instance is made.
    pub(super) ports: Option<Ports>,
    /// The guest gives memory or takes it back. The component model lets it call no host function meanwhile.
    pub(super) may_not_leave: bool,
}
