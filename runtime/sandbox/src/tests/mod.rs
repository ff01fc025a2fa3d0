//! The sandbox, tried with guests written in WebAssembly text: small, exact, and quick to compile.

mod commands;
mod core_modules;
mod direct;
mod fresh;
mod guest;
mod host_calls;
mod host_memory;
mod host_work;
mod http;
mod instance_pool;
mod key_value;
mod limits;
mod lives;
mod mapped;
mod native_replay;
mod recording;
mod refusals;
mod secrets;
mod source_lines;
mod standard;

use std::path::Path;
use std::sync::Arc;

use super::{Attempt, CompilerSettings, Component, LogLine, LogSink, Sandbox, SandboxSettings};
use gristmill_core::job::{JobSpec, Payload};
use gristmill_core::time::Timestamp;
use gristmill_core::topic::Limits;
use parking_lot::Mutex;

/// A sandbox for one attempt at a time, which compiles in this process.
fn sandbox(cache: &Path) -> Sandbox {
    Sandbox::new(&settings(cache)).unwrap()
}

fn settings(cache: &Path) -> SandboxSettings {
    SandboxSettings { concurrency: 1, cache: cache.to_owned(), compiler: CompilerSettings::default() }
}

async fn load(wasm: &[u8]) -> Component {
    let cache = tempfile::tempdir().unwrap();
    sandbox(cache.path()).load(wasm).await.unwrap()
}

/// The first attempt at a job with this body, default limits, and nothing granted.
pub(super) fn attempt(body: impl Into<Vec<u8>>) -> Attempt {
    let body = Payload { data: body.into(), content_type: None };
    let mut attempt = Attempt::at(JobSpec::new("resize".parse().unwrap(), body), Limits::default());
    let job = Arc::make_mut(&mut attempt.job);
    (job.enqueued_at, job.due_at) = (Timestamp::from_millis(1), Timestamp::from_millis(2));
    Attempt { max_attempts: 5, logs: LogSink::Collect(Arc::default()), ..attempt }
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
