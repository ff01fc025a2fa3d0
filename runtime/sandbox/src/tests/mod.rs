//! The sandbox, tried with guests written in WebAssembly text: small, exact, and quick to compile.

mod core_modules;
mod guest;
mod host_calls;
mod http;
mod instance_pool;
mod limits;
mod lives;
mod refusals;

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use super::compiler::Compiler;
use super::{Attempt, Cancellation, CompilerSettings, Component, LogLine, LogSink, Sandbox, SandboxSettings};
use gristmill_core::job::{Job, JobSpec, Payload};
use gristmill_core::time::Timestamp;
use gristmill_core::topic::{Grants, Limits};
use parking_lot::Mutex;

/// A sandbox for one attempt at a time, which compiles in this process.
fn sandbox(cache: &Path) -> Sandbox {
    Sandbox::with_compiler(&settings(cache), Compiler::in_process()).unwrap()
}

fn settings(cache: &Path) -> SandboxSettings {
    let compiler = CompilerSettings::with_defaults("/nowhere/gristmill".into());
    SandboxSettings { concurrency: 1, cache: cache.to_owned(), compiler }
}

async fn load(wasm: &[u8]) -> Component {
    let cache = tempfile::tempdir().unwrap();
    sandbox(cache.path()).load(wasm).await.unwrap()
}

/// The first attempt at a job with this body, default limits, and nothing granted.
pub(super) fn attempt(body: impl Into<Vec<u8>>) -> Attempt {
    let body = Payload { data: body.into(), content_type: None };
    let spec = JobSpec::new("resize".parse().unwrap(), body);
    Attempt {
        job: Arc::new(Job { spec, enqueued_at: Timestamp::from_millis(1), due_at: Timestamp::from_millis(2) }),
        attempt: 1,
        max_attempts: 5,
        checkpoint: None,
        limits: Limits::default(),
        grants: Arc::new(Grants::default()),
        targets: Arc::new(HashMap::new()),
        clock_offset_ms: 0,
        cancellation: Cancellation::default(),
        checkpoints: None,
        logs: LogSink::Collect(Arc::default()),
    }
}

fn limited(body: impl Into<Vec<u8>>, change: impl FnOnce(&mut Limits)) -> Attempt {
    let mut attempt = attempt(body);
    change(&mut attempt.limits);
    attempt
}

/// Has the attempt's log lines collected.
fn listen(attempt: &mut Attempt) -> Arc<Mutex<Vec<LogLine>>> {
    let lines = Arc::default();
    attempt.logs = LogSink::Collect(Arc::clone(&lines));
    lines
}
