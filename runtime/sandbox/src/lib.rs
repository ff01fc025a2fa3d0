//! The sandbox: a component file becomes a checked, compiled [`Component`]; a component and a job become a [`Report`].
//! Knows no store.
//!
//! [`Sandbox::load`] validates a file, takes it from the cache or compiles it, and links it. [`Component::invoke`] is a job's way through: a
//! fresh store, a fresh instance, one call bounded in fuel, memory, time, bytes and calls, and what it came to.
//! [`InstancePool::invoke`] is the way of a topic that keeps instances for later jobs.

mod adapters;
mod ask;
mod attempt;
mod attempt_time;
mod bindings;
mod cache;
mod classify;
mod code;
mod compile_child;
mod compiled_functions;
mod compiler;
mod component;
#[cfg(target_os = "linux")]
mod confine;
mod core_module;
mod declared;
mod direct;
mod engine;
mod error;
mod facts;
mod guest_http;
mod guest_instance;
mod guest_log;
mod guest_wasi;
mod host;
mod host_memory;
mod idle;
mod instance_pool;
mod invoke;
mod keyed_state;
mod limiter;
mod linkers;
mod loader;
mod log_tail;
mod meter;
mod outbound;
mod ownership;
#[doc(hidden)]
pub mod parts;
mod placeholders;
mod private_folder;
mod producers;
mod program_streams;
mod recording;
mod replace;
mod report;
mod request_trace;
mod run;
mod sandbox;
mod self_test;
mod settings;
mod source_lines;
mod state;
mod steps;
#[cfg(test)]
mod tests;
mod tried;
mod validate;

pub use attempt::{
    Attempt, AttemptControl, Cancellation, CheckpointRequest, CheckpointSender, LogLine, LogSink, Report, Version,
};
pub use compile_child::{ChildLimits, compile_child};
pub use compiler::{COMPILE_SUBCOMMAND, COMPILES_AT_ONCE};
pub use component::Component;
pub use declared::declared_demands;
pub use engine::MEMORY_SLOT_BYTES;
pub use error::{LoadError, SandboxError};
pub use facts::Needs;
pub use guest_log::GuestLog;
pub use instance_pool::InstancePool;
pub use keyed_state::{KeyedState, StateError, StateReader, StateRequest};
pub use log_tail::LogTail;
pub use private_folder::{FolderLimits, PrivateFolder};
pub use producers::Producers;
pub use recording::{
    BadRecording, Divergence, NativeReplay, NativeRequest, NativeResponse, RECORDING_BYTES_MAX, Record, RecordedCall,
    RecordedEnd, RecordedLine, Recording, RecordingHead, Refusal, ReplayInput, ReplayRefused, ReplayVerdict, Replayed,
};
pub use request_trace::{RequestTrace, SentRequest, SentRequests};
pub use sandbox::{Prepared, Sandbox};
pub use self_test::Started;
pub use settings::{CompilerProcess, CompilerSettings, SandboxSettings};
#[doc(hidden)]
pub use steps::Steps;
pub use validate::Kind;
