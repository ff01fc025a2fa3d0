//! The sandbox: a component file becomes a checked, compiled [`Component`]; a component and a job become a [`Report`].
//! Knows no store.

mod contract;

pub use contract::{Attempt, CheckpointRequest, CheckpointSender, FollowUpRule, LogLine, LogSink, Report, Version};
