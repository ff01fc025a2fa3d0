//! The sandbox: a component file becomes a checked, compiled [`Component`]; a component and a job become a [`Report`].
//! Knows no store.
//!
//! [`Sandbox::load`] is a file's way in: gate, cache or compiler, link. [`Component::invoke`] is a job's way through: a
//! fresh store, a fresh instance, one call bounded in fuel, memory, time, bytes and calls, and what it came to.
//! [`Stash::invoke`] is the way of a topic that keeps instances for later jobs.

mod bindings;
mod cache;
mod compile_child;
mod compiler;
mod component;
mod contract;
mod core_module;
mod declared;
mod ending;
mod engine;
mod error;
mod gate;
mod host;
mod invoke;
mod limiter;
mod logbook;
mod outbound;
#[doc(hidden)]
pub mod parts;
mod producers;
mod reuse;
mod sandbox;
mod self_test;
mod settings;
mod shelf;
mod state;
mod steps;
#[cfg(test)]
mod tests;

pub use compile_child::{ChildLimits, compile_child};
pub use compiler::COMPILE_SUBCOMMAND;
pub use component::{Component, Needs};
pub use contract::{
    Attempt, Cancellation, CheckpointRequest, CheckpointSender, FollowUpRule, LogLine, LogSink, Report, Version,
};
pub use declared::declared_needs;
pub use engine::MEMORY_SLOT_BYTES;
pub use error::{LoadError, SandboxError};
pub use gate::Kind;
pub use producers::Producers;
pub use reuse::Stash;
pub use sandbox::Sandbox;
pub use self_test::Started;
pub use settings::{CompilerSettings, SandboxSettings};
#[doc(hidden)]
pub use steps::Steps;
