//! The sandbox: a component file becomes a checked, compiled [`Component`]; a component and a job become a [`Report`].
//! Knows no store.
//!
//! [`Sandbox::load`] is a file's way in: gate, cache or compiler, link. [`Component::invoke`] is a job's way through: a
//! fresh store, a fresh instance, one call bounded in fuel, memory, time, bytes and calls, and what it came to.

mod bindings;
mod cache;
mod compile_child;
mod compiler;
mod component;
mod contract;
mod ending;
mod engine;
mod error;
mod gate;
mod host;
mod invoke;
mod limiter;
mod logbook;
pub(crate) mod parts;
mod sandbox;
mod self_test;
mod settings;
mod state;
#[cfg(test)]
mod tests;

pub use compile_child::{ChildLimits, compile_child};
pub use compiler::COMPILE_SUBCOMMAND;
pub use component::{Component, Needs};
pub use contract::{
    Attempt, Cancellation, CheckpointRequest, CheckpointSender, FollowUpRule, LogLine, LogSink, Report, Version,
};
pub use engine::MEMORY_SLOT_BYTES;
pub use error::{LoadError, SandboxError};
pub use sandbox::Sandbox;
pub use settings::{CompilerSettings, SandboxSettings};
