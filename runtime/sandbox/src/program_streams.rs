//! What a program sees of its job: standard input and output, arguments, environment.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite};
use wasmtime_wasi::WasiCtxBuilder;
use wasmtime_wasi::cli::{IsTerminal, StdinStream, StdoutStream};
use wasmtime_wasi::p2::{InputStream, OutputStream, Pollable, StreamError, StreamResult};

use super::attempt::Attempt;
use super::guest_log::GuestLog;
use super::guest_wasi::{WRITE_BYTES_MAX, check_permitted};
use super::placeholders::Placeholders;
use gristmill_core::job::Job;
use gristmill_core::time::Timestamp;
use gristmill_core::topic::{Adapter, Program};

/// One read of standard input.
const READ_BYTES_MAX: usize = 64 << 10;

/// What a program has instead of a job to take and an outcome to return.
#[derive(Debug)]
pub(super) struct ProgramStreams {
    pub(super) program: Arc<Program>,
    /// What it calls itself.
    name: String,
    env: BTreeMap<String, String>,
    body: JobBody,
    pub(super) output: Output,
}

/// The program wrote more than a result may have. Ends the guest.
#[derive(Debug, thiserror::Error)]
#[error("the output limit of {0} bytes is used up")]
pub(super) struct OutputFull(pub(super) u64);

impl ProgramStreams {
    /// None if the attempt's handler is no program.
    pub(super) fn of(
        attempt: &Attempt,
        placeholders: Option<&Placeholders>,
        guest_log: &Arc<Mutex<GuestLog>>,
        deadline: Timestamp,
    ) -> Option<Box<Self>> {
        let Adapter::Command(program) = &attempt.adapter else { return None };
        let name = attempt.job.spec.topic.topic.as_str().to_owned();
        let (job, guest_log) = (Arc::clone(&attempt.job), Arc::clone(guest_log));
        Some(Box::new(Self {
            program: Arc::clone(program),
            name,
            env: environment(attempt, placeholders, deadline),
            body: JobBody { job, guest_log: Arc::clone(&guest_log), read: Arc::default() },
            output: Output { written: Arc::default(), limit: attempt.limits.output_bytes, guest_log },
        }))
    }

    /// Sets what the program finds when it starts.
    pub(super) fn add_to(&self, world: &mut WasiCtxBuilder) {
        world.stdin(self.body.clone()).stdout(self.output.clone());
        for argument in self.arguments() {
            world.arg(argument);
        }
        for (name, value) in &self.env {
            world.env(name, value);
        }
    }

    /// The program's name, and what it is called with.
    pub(super) fn arguments(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.name.as_str()).chain(self.program.args.iter().map(String::as_str))
    }

    pub(super) fn environment(&self) -> &BTreeMap<String, String> {
        &self.env
    }
}

/// The granted variables, and what is known of the job. A producer cannot set any other variable than `GRISTMILL_META_…`.
fn environment(
    attempt: &Attempt,
    placeholders: Option<&Placeholders>,
    deadline: Timestamp,
) -> BTreeMap<String, String> {
    let job = &attempt.job;
    let spec = &job.spec;
    let mut variables = attempt.grants.env.clone();
    let withheld = placeholders.into_iter().flat_map(Placeholders::variables);
    variables.extend(withheld.map(|(name, placeholder)| (name.to_owned(), placeholder.to_owned())));
    for (name, value) in spec.metadata.iter().rev() {
        variables.insert(format!("GRISTMILL_META_{}", variable_name(name)), value.clone());
    }
    let known = [
        ("ID", Some(spec.id.as_str().to_owned())),
        ("TENANT", Some(spec.topic.tenant.as_str().to_owned())),
        ("TOPIC", Some(spec.topic.topic.as_str().to_owned())),
        ("KEY", spec.options.key.clone()),
        ("CONTENT_TYPE", spec.body.content_type.clone()),
        ("ATTEMPT", Some(attempt.attempt.to_string())),
        ("MAX_ATTEMPTS", Some(attempt.max_attempts.to_string())),
        ("ENQUEUED_AT", Some(job.enqueued_at.as_millis().to_string())),
        ("DUE_AT", Some(job.due_at.as_millis().to_string())),
        ("DEADLINE", Some(deadline.as_millis().to_string())),
    ];
    let known = known.into_iter().filter_map(|(name, value)| Some((format!("GRISTMILL_{name}"), value?)));
    variables.extend(known);
    variables
}

/// `content-language` becomes `CONTENT_LANGUAGE`.
fn variable_name(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' }).collect()
}

/// Standard input. All that a program opens go on where the others are.
#[derive(Debug, Clone)]
struct JobBody {
    job: Arc<Job>,
    guest_log: Arc<Mutex<GuestLog>>,
    /// Bytes.
    read: Arc<AtomicUsize>,
}

impl IsTerminal for JobBody {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdinStream for JobBody {
    fn p2_stream(&self) -> Box<dyn InputStream> {
        Box::new(self.clone())
    }

    /// Only WASI 0.3 asks for this, which no guest has.
    fn async_stream(&self) -> Box<dyn AsyncRead + Send + Sync> {
        Box::new(tokio::io::empty())
    }
}

#[async_trait::async_trait]
impl Pollable for JobBody {
    async fn ready(&mut self) {}
}

impl InputStream for JobBody {
    fn read(&mut self, size: usize) -> StreamResult<Bytes> {
        let rest = self.job.spec.body.data.get(self.read.load(Ordering::Relaxed)..).unwrap_or_default();
        if rest.is_empty() {
            return Err(StreamError::Closed);
        }
        let bytes = rest.get(..size.min(READ_BYTES_MAX)).unwrap_or(rest);
        self.read.fetch_add(bytes.len(), Ordering::Relaxed);
        self.guest_log.lock().passed += bytes.len() as u64;
        Ok(Bytes::copy_from_slice(bytes))
    }
}

/// Standard output.
#[derive(Debug, Clone)]
pub(super) struct Output {
    pub(super) written: Arc<Mutex<Vec<u8>>>,
    /// Bytes.
    limit: u64,
    guest_log: Arc<Mutex<GuestLog>>,
}

impl IsTerminal for Output {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdoutStream for Output {
    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(self.clone())
    }

    /// Only WASI 0.3 asks for this, which no guest has.
    fn async_stream(&self) -> Box<dyn AsyncWrite + Send + Sync> {
        Box::new(tokio::io::sink())
    }
}

#[async_trait::async_trait]
impl Pollable for Output {
    async fn ready(&mut self) {}
}

impl OutputStream for Output {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        check_permitted(&bytes)?;
        let mut so_far = self.written.lock();
        if (so_far.len() + bytes.len()) as u64 > self.limit {
            return Err(StreamError::Trap(OutputFull(self.limit).into()));
        }
        so_far.extend_from_slice(&bytes);
        self.guest_log.lock().passed += bytes.len() as u64;
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(WRITE_BYTES_MAX)
    }
}
